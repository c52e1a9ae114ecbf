// Control flow: loops, nesting and roles of known kernels, and dominators against their definition on random graphs.
#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/unit/sass_support.h"

namespace pinch::sass {
namespace {

using test::from_text;
using test::kernel_of;
using test::program_of;

TEST(SassFlow, FindsTheNestOfTwoLoops) {
  for (const char* file :
       {"kernels.sm_80.cubin", "kernels.sm_90a.cubin", "kernels.sm_100a.cubin", "kernels.sm_103a.cubin"}) {
    const Program program = program_of(file);
    const Flow flow = analyse_flow(kernel_of(program, "nested_loops"));
    ASSERT_EQ(flow.loops.size(), 3u) << file;  // the loop for m <= 0, and the two nested ones
    EXPECT_EQ(flow.loops[0].depth, 1);
    EXPECT_EQ(flow.loops[1].depth, 1);
    EXPECT_FALSE(flow.loops[1].innermost);
    EXPECT_EQ(flow.loops[2].depth, 2);
    EXPECT_EQ(flow.loops[2].parent, 1);
    EXPECT_TRUE(flow.loops[2].innermost);
  }
}

TEST(SassFlow, FindsNoLoopInUnrolledCodeAndIgnoresTheTrapAtTheEnd) {
  const Program program = program_of("kernels.sm_90a.cubin");
  EXPECT_TRUE(analyse_flow(kernel_of(program, "poly_unrolled")).loops.empty());
  EXPECT_EQ(analyse_flow(kernel_of(program, "poly_rolled")).loops.size(), 1u);
}

TEST(SassFlow, TellsProducersFromConsumers) {
  for (const char* file : {"kernels.sm_90a.cubin", "kernels.sm_100a.cubin", "kernels.sm_90a.nvdisasm.txt"}) {
    const Program program = program_of(file);
    const Kernel& kernel = kernel_of(program, "warp_roles");
    const Flow flow = analyse_flow(kernel);
    ASSERT_EQ(flow.roles.size(), 2u) << file;
    for (const Role& role : flow.roles) EXPECT_EQ(role.registers, role.name == "producer" ? 40 : 232) << file;
    int producer = 0, consumer = 0, spins = 0;
    for (const Loop& loop : flow.loops) {
      spins += loop.spins;
      if (loop.spins) continue;
      producer += loop.role == "producer";
      consumer += loop.role == "consumer";
    }
    EXPECT_EQ(producer, 1);
    EXPECT_EQ(consumer, 1);
    EXPECT_EQ(spins, 1) << "the retry of setmaxnreg is no loop that computes";
  }
}

TEST(SassFlow, CountsOnlyWhatEveryIterationExecutes) {
  const Program program = program_of("kernels.sm_90a.cubin");
  const Flow flow = analyse_flow(kernel_of(program, "division_loop"));
  ASSERT_FALSE(flow.loops.empty());
  EXPECT_EQ(flow.loops[0].instructions, 25);
  EXPECT_EQ(flow.loops[0].path.size(), 22u);  // without the call and the two moves of the rare path
}

// Text of a kernel with one branching instruction a block.
std::string random_kernel(std::mt19937& rng, int blocks) {
  std::string text = "\t.section\t.text.random,\"ax\"\n";
  for (int b = 0; b < blocks; ++b) {
    const int kind = static_cast<int>(rng() % 4), to = static_cast<int>(rng() % static_cast<unsigned>(blocks));
    const std::string body = kind == 0                 ? "NOP"
                             : kind == 3 && b % 3 == 0 ? "EXIT"
                                                       : fmt::format("{}BRA `(.L_x_{})", kind == 1 ? "@P0 " : "", to);
    text += fmt::format(".L_x_{}:\n        /*{:04x}*/   {} ;\n", b, b * 16, body);
  }
  return text + fmt::format("        /*{:04x}*/   EXIT ;\n", blocks * 16);
}

// a dominates b where b cannot be reached once a is taken out.
bool dominates_by_definition(const Flow& flow, int a, int b) {
  if (a == b) return true;
  std::vector<bool> seen(flow.blocks.size(), false);
  std::vector<int> work;
  if (a != 0) work.push_back(0);
  while (!work.empty()) {
    const int at = work.back();
    work.pop_back();
    if (at == a || seen[static_cast<std::size_t>(at)]) continue;
    seen[static_cast<std::size_t>(at)] = true;
    for (const int to : flow.blocks[static_cast<std::size_t>(at)].successors) work.push_back(to);
  }
  return !seen[static_cast<std::size_t>(b)];
}

// What reaches a latch of `header` without passing it.
std::vector<int> natural_loop(const Flow& flow, int header) {
  std::set<int> found{header};
  std::vector<int> work;
  for (std::size_t b = 0; b < flow.blocks.size(); ++b) {
    const auto& to = flow.blocks[b].successors;
    const bool is_latch = std::find(to.begin(), to.end(), header) != to.end() && flow.blocks[b].reachable &&
                          dominates_by_definition(flow, header, static_cast<int>(b));
    if (is_latch) work.push_back(static_cast<int>(b));
  }
  while (!work.empty()) {
    const int b = work.back();
    work.pop_back();
    if (!flow.blocks[static_cast<std::size_t>(b)].reachable || !found.insert(b).second) continue;
    for (const int p : flow.blocks[static_cast<std::size_t>(b)].predecessors) work.push_back(p);
  }
  return {found.begin(), found.end()};
}

TEST(SassFlow, DominatorsAndLoopsAreWhatTheirDefinitionsSay) {
  std::mt19937 rng(7);
  int compared = 0, nested = 0;
  for (int round = 0; round < 600; ++round) {
    const Program program = from_text(random_kernel(rng, 2 + static_cast<int>(rng() % 12)));
    const Flow flow = analyse_flow(program.kernels.at(0));
    for (int a = 0; a < static_cast<int>(flow.blocks.size()); ++a) {
      for (int b = 0; b < static_cast<int>(flow.blocks.size()); ++b) {
        if (!flow.blocks[static_cast<std::size_t>(a)].reachable || !flow.blocks[static_cast<std::size_t>(b)].reachable)
          continue;
        ASSERT_EQ(flow.dominates(a, b), dominates_by_definition(flow, a, b)) << round << ": " << a << " " << b;
        ++compared;
      }
    }
    for (std::size_t l = 0; l < flow.loops.size(); ++l) {
      ASSERT_EQ(flow.loops[l].blocks, natural_loop(flow, flow.loops[l].header)) << round << ": loop " << l;
      for (const int b : flow.loops[l].blocks) {
        int around = flow.blocks[static_cast<std::size_t>(b)].loop;
        while (around != static_cast<int>(l) && around >= 0)
          around = flow.loops[static_cast<std::size_t>(around)].parent;
        ASSERT_EQ(around, static_cast<int>(l)) << round << ": block " << b;
      }
      nested += flow.loops[l].depth > 1;
    }
  }
  EXPECT_GT(compared, 5000);
  EXPECT_GT(nested, 20);
}

// Kernels of one branch an instruction, without the text around them.
Kernel kernel_of_branches(const std::vector<int>& targets) {
  Kernel kernel;
  for (const int target : targets) {
    Instruction made;
    made.mnemonic = target == kNoTarget ? "FADD" : "BRA";
    made.target = target;
    made.conditional = target != kNoTarget;
    made.offset = static_cast<std::uint32_t>(kernel.instructions.size()) * kInstructionBytes;
    kernel.instructions.push_back(made);
  }
  kernel.instructions.back() = {};
  kernel.instructions.back().mnemonic = "EXIT";
  return kernel;
}

TEST(SassFlow, TakesStepsInProportionToTheBlocks) {
  constexpr int kNested = 2000, kChain = 40000, kRandom = 10000, kMostSteps = 64;
  std::vector<int> nest(2 * kNested + 1, kNoTarget), chain(kChain), ladder(kChain), random(kRandom);
  for (int i = 0; i < kNested; ++i) nest[static_cast<std::size_t>(kNested + i)] = kNested - 1 - i;
  for (int i = 0; i < kChain; ++i) {
    chain[static_cast<std::size_t>(i)] = std::min(i + 1, kChain - 1);
    ladder[static_cast<std::size_t>(i)] = i % 2 == 0 ? std::max(0, i - 100) : std::min(i + 3, kChain - 1);
  }
  std::mt19937 rng(5);
  for (int& target : random) target = static_cast<int>(rng() % kRandom);
  for (const auto* targets : {&nest, &chain, &ladder, &random}) {
    const Kernel kernel = kernel_of_branches(*targets);
    const Flow flow = analyse_flow(kernel);
    EXPECT_LT(flow.steps, kMostSteps * kernel.instructions.size());
    std::size_t listed = 0;
    for (const Loop& loop : flow.loops) listed += loop.blocks.size() + loop.path.size();
    EXPECT_LE(listed, 2 * kListedLevels * kernel.instructions.size());
  }
  const Kernel kernel = kernel_of_branches(nest);
  const Flow flow = analyse_flow(kernel);
  ASSERT_EQ(flow.loops.size(), static_cast<std::size_t>(kNested));
  EXPECT_EQ(flow.loops.back().depth, kNested);
  EXPECT_EQ(flow.loops.front().instructions, 2 * kNested);
  EXPECT_EQ(flow.loops.front().path.size(), 2u * kListedLevels);  // the levels that it lists, each header and latch
  EXPECT_EQ(end_offset(kernel, flow.loops.front()), 2u * kNested * kInstructionBytes);
}

}  // namespace
}  // namespace pinch::sass
