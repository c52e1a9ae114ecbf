#include "workbench/ladder/code.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "workbench/sass/input.h"

namespace pinch::ladder {
namespace {

using sass::LoopReport;

constexpr auto kTensor = static_cast<std::size_t>(sass::Pipe::kTensor);
constexpr int kMostWarps = 16;  // of a sub-partition
constexpr int kWarpgroupWarps = 4;

const LoopReport* hot_loop(const sass::KernelReport& kernel) {
  // Of two that multiply as much the shorter one is the steady state, the other the edge, which masks besides.
  const auto rank = [](const LoopReport& loop) {
    const double tensor = loop.pipes[kTensor];
    const double cycles = loop.simulated_cycles.value_or(loop.least_cycles());
    return std::tuple(tensor > 0, loop.depth, tensor, tensor > 0 ? -loop.instructions : cycles);
  };
  const LoopReport* hot = nullptr;
  for (const LoopReport& loop : kernel.loops) {
    if (!loop.spins && (hot == nullptr || rank(loop) > rank(*hot))) hot = &loop;
  }
  return hot;
}

// Where no way leads round a loop by the branches that multiply, another loop would be taken for the hot one.
Result<bool> multiplies(const sass::Kernel& kernel) {
  PINCH_ASSIGN(machine, sass::Machine::of(kernel.arch));
  return std::any_of(kernel.instructions.begin(), kernel.instructions.end(), [&](const sass::Instruction& instruction) {
    return machine->cost(instruction).uses[kTensor] > 0;
  });
}

// Instructions that the algebra need not have; every other finding with cycles is about their order or their place.
bool is_algebra(const sass::Lint& lint) {
  static const std::set<std::string_view> kOfTheLoop = {"mask-after-pack", "exp2-denormal", "division",
                                                        "integer-division"};
  return lint.id.starts_with("algebra-") || kOfTheLoop.contains(lint.id);
}

// The pipe that an instruction takes longest; issue where it takes no other.
std::string_view pipe_of(const sass::Cost& cost) {
  const auto longest = std::max_element(cost.uses.begin() + 1, cost.uses.end());
  return sass::name_of(static_cast<sass::Pipe>(*longest > 0 ? longest - cost.uses.begin() : 0));
}

// The loop's path in its order, as runs of one pipe: [["alu", 3], ["tensor", 1], ...].
Result<nlohmann::ordered_json> order_of(const sass::Kernel& kernel, const LoopReport& loop) {
  PINCH_ASSIGN(machine, sass::Machine::of(kernel.arch));
  auto runs = nlohmann::ordered_json::array();
  int run = 0;
  for (const int i : loop.path) {
    const std::string_view pipe = pipe_of(machine->cost(kernel.instructions[static_cast<std::size_t>(i)]));
    if (runs.empty() || runs.back()[0] != pipe) {
      runs.push_back({pipe, 0});
      run = 0;
    }
    runs.back()[1] = ++run;
  }
  return runs;
}

// The bound of all warps without loads and stores of local memory, which no source asks for.
Result<double> least_without_local(const sass::KernelReport& kernel, const LoopReport& loop) {
  PINCH_ASSIGN(machine, sass::Machine::of(kernel.kernel->arch));
  auto pipes = loop.pipes;
  const std::set<int> path(loop.path.begin(), loop.path.end());
  for (const sass::LocalAccess& access : kernel.local.accesses) {
    if (!path.contains(access.instruction)) continue;
    const sass::Cost cost = machine->cost(kernel.kernel->instructions[static_cast<std::size_t>(access.instruction)]);
    for (std::size_t pipe = 0; pipe < pipes.size(); ++pipe) pipes[pipe] -= cost.uses[pipe];
  }
  const double bound = std::max(0.0, *std::max_element(pipes.begin(), pipes.end()));
  return std::min(loop.least_cycles(), std::max(bound * loop.warps, loop.dependency_cycles.value_or(0)));
}

}  // namespace

Result<Code> code_of(const sass::KernelReport& kernel) {
  const LoopReport* loop = hot_loop(kernel);
  if (loop == nullptr) return Error{ErrorCode::kNotFound, "the kernel has no loop", kernel.kernel->name};
  if (!loop->simulated_cycles || *loop->simulated_cycles <= 0) {
    return Error{ErrorCode::kUnsupported, "the code has no control words, so its time is not known; give a cubin",
                 kernel.kernel->name};
  }
  PINCH_ASSIGN(has_products, multiplies(*kernel.kernel));
  if (has_products && loop->pipes[kTensor] <= 0) {
    return Error{ErrorCode::kUnsupported,
                 "its matrix instructions are on no loop's way round that could be told, so the hot loop's time is not "
                 "known",
                 kernel.kernel->name};
  }
  const double cycles = *loop->simulated_cycles;
  PINCH_ASSIGN(least, least_without_local(kernel, *loop));
  Code code;
  code.binds = sass::name_of(loop->bound_by);
  code.schedule_share = std::max(0.0, 1 - least / cycles);
  code.schedule_words = fmt::format(
      "{} takes {:.0f} cycles where its pipes and its chain allow {:.0f}",
      loop->branches ? "an iteration of the loop that takes its products' branches" : "the loop", cycles, least);
  auto findings = nlohmann::ordered_json::array();
  double unneeded = 0;
  const auto look_at = [&](const sass::Lint& lint) {
    if (lint.saves_cycles <= 0) return;
    findings.push_back({{"id", lint.id}, {"line", lint.line}, {"saves_cycles", lint.saves_cycles * loop->warps}});
    if (!is_algebra(lint)) {
      code.schedule_words += fmt::format("; {}", lint.id);
      return;
    }
    unneeded += lint.saves_cycles * loop->warps;
    code.algebra_words += fmt::format("{}{}", code.algebra_words.empty() ? "" : "; ", lint.message);
  };
  for (const sass::Lint& lint : loop->lints) look_at(lint);
  for (const sass::Lint& lint : kernel.lints) look_at(lint);
  code.algebra_share = std::min(1.0 - code.schedule_share, unneeded / cycles);
  nlohmann::ordered_json pipes;
  for (int pipe = 0; pipe < sass::kPipes; ++pipe) {
    const double share = loop->pipes[static_cast<std::size_t>(pipe)] * loop->warps / cycles;
    if (share > 0) pipes[std::string(sass::name_of(static_cast<sass::Pipe>(pipe)))] = share;
  }
  PINCH_ASSIGN(order, order_of(*kernel.kernel, *loop));
  code.evidence = {{"kernel", kernel.kernel->name},
                   {"loop", {loop->begin, loop->end}},
                   {"role", loop->role},
                   {"branches", loop->branches},
                   {"warps", loop->warps},
                   {"simulated_cycles", cycles},
                   {"least_cycles", least},
                   {"calibrated", kernel.calibrated},
                   {"pipes", pipes},
                   {"order", order},
                   {"lints", findings}};
  return code;
}

int LaunchedKernel::warps() const {
  return std::clamp(block_warps * blocks_per_sm / sass::kSubPartitions, 1, kMostWarps);
}
int LaunchedKernel::consumer_warps() const {
  return std::clamp((block_warps - kWarpgroupWarps) * blocks_per_sm / sass::kSubPartitions, 1, kMostWarps);
}

Result<Code> read_launched(const std::string& file, const LaunchedKernel& kernel) {
  sass::InputOptions input;
  input.wants = [&](std::string_view name) { return name == kernel.name; };
  PINCH_ASSIGN(program, sass::read_program(file, input));
  if (program.kernels.empty())
    return Error{ErrorCode::kNotFound, fmt::format("holds no machine code of {}", kernel.name), file};
  sass::AnalysisOptions options;
  options.warps = kernel.warps();
  options.role_warps = {{"consumer", kernel.consumer_warps()}};
  PINCH_ASSIGN(report, sass::analyse_kernel(program.kernels.front(), nullptr, options));
  return code_of(report);
}

}  // namespace pinch::ladder
