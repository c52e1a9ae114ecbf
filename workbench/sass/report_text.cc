#include "workbench/sass/report_text.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace pinch::sass {
namespace {

std::string known(int value) {
  return value < 0 ? "?" : fmt::format("{}", value);
}

void add_lint(std::string& out, const Lint& lint) {
  fmt::format_to(
      std::back_inserter(out), "      {} at {}{}: {}{}\n", lint.id,
      lint.offset == 0 && lint.line > 0 ? "PTX" : fmt::format("0x{:x}", lint.offset),
      lint.line > 0 ? fmt::format(" line {}", lint.line) : "", lint.message,
      lint.saves_cycles > 0 ? fmt::format(" (saves up to {:g} cycles an iteration)", lint.saves_cycles) : "");
}

void add_loop(std::string& out, const LoopReport& loop, const AnalysisOptions& options) {
  const auto into = std::back_inserter(out);
  constexpr int kDeepest = 8;  // of levels that are indented; in a nest of thousands the blanks would be megabytes
  fmt::format_to(into, "  {:>{}}loop 0x{:x}-0x{:x}{}{}{}: {} instructions{}\n", "",
                 2 * (std::min(loop.depth, kDeepest) - 1), loop.begin, loop.end,
                 loop.line > 0 ? fmt::format(" line {}", loop.line) : "", loop.role.empty() ? "" : " of " + loop.role,
                 loop.depth > kDeepest ? fmt::format(" at depth {}", loop.depth) : "", loop.instructions,
                 loop.spins      ? ", waits for others"
                 : loop.branches ? "; counted is an iteration that takes its products' branches"
                                 : "");
  if (loop.spins) return;
  fmt::format_to(into, "      bound {:g} cycles by {}", loop.bound_cycles, name_of(loop.bound_by));
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < loop.pipes.size(); ++p) {
    if (loop.pipes[p] > 0) order.push_back(p);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return loop.pipes[a] > loop.pipes[b]; });
  out += " (";
  for (std::size_t i = 0; i < order.size(); ++i)
    fmt::format_to(into, "{}{} {:g}", i == 0 ? "" : ", ", name_of(static_cast<Pipe>(order[i])), loop.pipes[order[i]]);
  fmt::format_to(into, "), dependency {}\n",
                 loop.dependency_cycles ? fmt::format("{:g}", *loop.dependency_cycles) : "not known without operands");
  fmt::format_to(into, "      {} warp{} a sub-partition: bound {:g}, ", loop.warps, loop.warps == 1 ? "" : "s",
                 loop.bound_cycles * loop.warps);
  if (loop.simulated_cycles) {
    fmt::format_to(into, "simulated {:.1f} (greedy {:.1f}, fair {:.1f}), slack {:.2f}\n", *loop.simulated_cycles,
                   *loop.greedy_cycles, *loop.fair_cycles, loop.slack().value_or(0));
  } else {
    out += "not simulated without control words\n";
  }
  for (std::size_t i = 0; i < options.pairs.size(); ++i) {
    const Interleaving& found = loop.interleavings[i];
    if (found.first_count == 0 || found.second_count == 0) continue;
    fmt::format_to(into, "      {} {} and {} {}: {} transitions, longest run {}\n", found.first_count,
                   options.pairs[i].first, found.second_count, options.pairs[i].second, found.transitions,
                   found.longest_run);
  }
  if (loop.loads && loop.loads->loads > 0)
    fmt::format_to(into, "      {} loads, first use after {} instructions at the least, {:.1f} in the mean\n",
                   loop.loads->loads, loop.loads->shortest, loop.loads->mean);
  if (loop.global_bytes > 0 || loop.shared_bytes > 0)
    fmt::format_to(into, "      a thread moves {} bytes of global and {} of shared memory\n", loop.global_bytes,
                   loop.shared_bytes);
  if (loop.unlisted > 0)
    fmt::format_to(into, "      {} instructions have no rate and count one issue slot each\n", loop.unlisted);
  for (const Lint& lint : loop.lints) add_lint(out, lint);
}

// One line for all that was not looked for, by what it needs.
void add_not_run(std::string& out, const KernelReport& report) {
  if (report.loops.empty() || report.lints_not_run.empty()) return;
  std::map<Needs, std::string> ids;
  for (const LintKind& kind : report.lints_not_run) ids[kind.needs] += fmt::format(" {}", kind.id);
  out += "  not looked for";
  for (const auto& [needs, list] : ids)
    fmt::format_to(std::back_inserter(out), "{} without {}:{}", needs == ids.begin()->first ? "" : ";", name_of(needs),
                   list);
  out += '\n';
}

}  // namespace

std::string table(const KernelReport& report, const AnalysisOptions& options) {
  const Kernel& kernel = *report.kernel;
  std::string out;
  const auto into = std::back_inserter(out);
  fmt::format_to(
      into, "{} ({}{}): {} registers, {} bytes of frame, {} of shared memory, {} instructions{}\n", kernel.name,
      kernel.arch.empty() ? options.arch : kernel.arch, report.calibrated ? "" : ", uncalibrated",
      known(kernel.registers), known(kernel.frame_bytes), known(kernel.shared_bytes), kernel.instructions.size(),
      kernel.unknown_instructions() > 0 ? fmt::format(", {} of them not known", kernel.unknown_instructions()) : "");
  const LocalMemory& local = report.local;
  if (!local.accesses.empty()) {
    const auto in_loops =
        std::count_if(local.accesses.begin(), local.accesses.end(), [](const LocalAccess& a) { return a.loop >= 0; });
    fmt::format_to(into, "  local memory: spills {} loads {} stores; arrays {} loads {} stores; {} of these in loops\n",
                   local.spill_loads, local.spill_stores, local.array_loads, local.array_stores, in_loops);
  }
  for (const Role& role : report.flow.roles)
    fmt::format_to(
        into, "  role {}: {} registers, from 0x{:x}\n", role.name, known(role.registers),
        kernel.instructions[static_cast<std::size_t>(report.flow.blocks[static_cast<std::size_t>(role.block)].first)]
            .offset);
  if (!kernel.has_words())
    out += "  no control words in this text: stalls and barriers are not known; give -hex to nvdisasm, or a cubin\n";
  for (const LoopReport& loop : report.loops) add_loop(out, loop, options);
  for (const Lint& lint : report.lints) add_lint(out, lint);
  add_not_run(out, report);
  return out;
}

std::string listing(const Kernel& kernel, const Flow& flow) {
  std::string out = fmt::format("{} ({})\n", kernel.name, kernel.arch);
  const auto into = std::back_inserter(out);
  std::uint32_t line = 0;
  for (std::size_t b = 0; b < flow.blocks.size(); ++b) {
    const Block& block = flow.blocks[b];
    const int depth = block.loop < 0 ? 0 : flow.loops[static_cast<std::size_t>(block.loop)].depth;
    for (int index = block.first; index < block.last; ++index) {
      const Instruction& i = kernel.instructions[static_cast<std::size_t>(index)];
      if (i.line != 0 && i.line != line) {
        line = i.line;
        fmt::format_to(into, "      // {}:{}\n", i.file < kernel.files.size() ? kernel.files[i.file].path() : "", line);
      }
      const std::string guard = i.guard == kAlways && !i.guard_negated
                                    ? ""
                                    : fmt::format("@{}P{} ", i.guard_negated ? "!" : "",
                                                  i.guard == kAlways ? "T" : fmt::format("{}", i.guard));
      fmt::format_to(into, "{:<4}{:06x} {} {}{}{}{}{}\n",
                     std::string(static_cast<std::size_t>(std::min(depth, 4)), '|'), i.offset,
                     i.has_word ? to_string(i.control) : "[no control word]", guard, i.known() ? i.mnemonic : "?",
                     i.operands.empty() ? "" : " ", i.operands,
                     i.target != kNoTarget && i.operands.empty()
                         ? fmt::format(" 0x{:x}", kernel.instructions[static_cast<std::size_t>(i.target)].offset)
                         : "");
    }
  }
  return out;
}

}  // namespace pinch::sass
