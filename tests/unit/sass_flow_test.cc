// Control flow: loops, nesting and roles of known kernels, and dominators against their definition on random graphs.
#include <fmt/core.h>

#include <random>

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
  EXPECT_EQ(flow.loops[0].instructions.size(), 25u);
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

TEST(SassFlow, DominatorsAreWhatTheirDefinitionSays) {
  std::mt19937 rng(7);
  int compared = 0;
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
    for (const Loop& loop : flow.loops) {
      for (const int b : loop.blocks) ASSERT_TRUE(flow.dominates(loop.header, b));
    }
  }
  EXPECT_GT(compared, 5000);
}

}  // namespace
}  // namespace pinch::sass
