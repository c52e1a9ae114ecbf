#include "workbench/ladder/code.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace pinch::ladder {
namespace {

using sass::LoopReport;

const LoopReport* hot_loop(const sass::KernelReport& kernel) {
  const auto rank = [](const LoopReport& loop) {
    const bool multiplies = loop.pipes[static_cast<std::size_t>(sass::Pipe::kTensor)] > 0;
    return std::tuple(multiplies, loop.depth, loop.simulated_cycles.value_or(loop.least_cycles()));
  };
  const LoopReport* hot = nullptr;
  for (const LoopReport& loop : kernel.loops) {
    if (!loop.spins && (hot == nullptr || rank(loop) > rank(*hot))) hot = &loop;
  }
  return hot;
}

// Instructions that the algebra need not have; every other finding with cycles is about their order or their place.
bool is_algebra(const sass::Lint& lint) {
  static const std::set<std::string_view> kOfTheLoop = {"mask-after-pack", "exp2-denormal", "division",
                                                        "integer-division"};
  return lint.id.starts_with("algebra-") || kOfTheLoop.contains(lint.id);
}

// The bound of all warps without loads and stores of local memory, which no source asks for.
Result<double> least_without_local(const sass::KernelReport& kernel, const LoopReport& loop) {
  PINCH_ASSIGN(machine, sass::Machine::of(kernel.kernel->arch));
  auto pipes = loop.pipes;
  for (const sass::LocalAccess& access : kernel.local.accesses) {
    const sass::Instruction& instruction = kernel.kernel->instructions[static_cast<std::size_t>(access.instruction)];
    if (instruction.offset < loop.begin || instruction.offset >= loop.end) continue;
    const sass::Cost cost = machine->cost(instruction);
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
  const double cycles = *loop->simulated_cycles;
  PINCH_ASSIGN(least, least_without_local(kernel, *loop));
  Code code;
  code.binds = sass::name_of(loop->bound_by);
  code.schedule_share = std::max(0.0, 1 - least / cycles);
  code.schedule_words =
      fmt::format("the loop takes {:.0f} cycles where its pipes and its chain allow {:.0f}", cycles, least);
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
  code.evidence = {{"kernel", kernel.kernel->name},
                   {"loop", {loop->begin, loop->end}},
                   {"warps", loop->warps},
                   {"simulated_cycles", cycles},
                   {"least_cycles", least},
                   {"calibrated", kernel.calibrated},
                   {"pipes", pipes},
                   {"lints", findings}};
  return code;
}

}  // namespace pinch::ladder
