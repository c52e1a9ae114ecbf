#include "workbench/sass/report_json.h"

#include <cmath>

namespace pinch::sass {
namespace {

using nlohmann::ordered_json;

// Cycles stay readable: whole numbers whole, others to a thousandth.
ordered_json number(double value) {
  const double rounded = std::round(value * 1000) / 1000;
  if (rounded == std::floor(rounded) && std::abs(rounded) < 1e15) return static_cast<std::int64_t>(rounded);
  return rounded;
}

ordered_json number(const std::optional<double>& value) {
  return value ? number(*value) : ordered_json(nullptr);
}

ordered_json known_or_null(int value) {
  return value < 0 ? ordered_json(nullptr) : ordered_json(value);
}

ordered_json lints_json(const std::vector<Lint>& lints) {
  auto list = ordered_json::array();
  for (const Lint& lint : lints) {
    list.push_back({{"id", lint.id},
                    {"offset", lint.offset},
                    {"line", lint.line},
                    {"message", lint.message},
                    {"saves_cycles", number(lint.saves_cycles)}});
  }
  return list;
}

ordered_json loop_json(const LoopReport& loop, const AnalysisOptions& options) {
  ordered_json pipes = ordered_json::object(), transitions = ordered_json::object(),
               interleaving = ordered_json::object();
  for (std::size_t p = 0; p < loop.pipes.size(); ++p) {
    if (loop.pipes[p] > 0) pipes[std::string(name_of(static_cast<Pipe>(p)))] = number(loop.pipes[p]);
  }
  for (std::size_t i = 0; i < options.pairs.size(); ++i) {
    const std::string pair = options.pairs[i].first + "," + options.pairs[i].second;
    const Interleaving& found = loop.interleavings[i];
    transitions[pair] = found.transitions;
    interleaving[pair] = {{"first", found.first_count},
                          {"second", found.second_count},
                          {"runs", found.runs},
                          {"longest_run", found.longest_run}};
  }
  ordered_json mix = ordered_json::object(), opcodes = ordered_json::object();
  for (const auto& [name, count] : loop.mix) mix[name] = count;
  for (const auto& [name, count] : loop.opcodes) opcodes[name] = count;
  ordered_json loads;  // null where operands are not known
  if (loop.loads) {
    loads = {{"count", loop.loads->loads},
             {"shortest_distance", loop.loads->shortest},
             {"mean_distance", number(loop.loads->mean)}};
  }
  return {{"begin", loop.begin},
          {"end", loop.end},
          {"line", loop.line},
          {"depth", loop.depth},
          {"role", loop.role},
          {"spins", loop.spins},
          {"branches", loop.branches},
          {"instructions", loop.instructions},
          {"pipes", pipes},
          {"bound_cycles", number(loop.bound_cycles)},
          {"bound_by", name_of(loop.bound_by)},
          {"dependency_cycles", number(loop.dependency_cycles)},
          {"warps", loop.warps},
          {"sub_partitions", options.sub_partitions},
          {"warps_bound_cycles", number(loop.bound_cycles * loop.warps)},
          {"simulated_cycles", number(loop.simulated_cycles)},
          {"greedy_cycles", number(loop.greedy_cycles)},
          {"fair_cycles", number(loop.fair_cycles)},
          {"slack", number(loop.slack())},
          {"unlisted_instructions", loop.unlisted},
          {"uncalibrated_instructions", loop.uncalibrated},
          {"global_bytes", loop.global_bytes},
          {"shared_bytes", loop.shared_bytes},
          {"transitions", transitions},
          {"interleaving", interleaving},
          {"loads", loads},
          {"unroll", loop.unroll},
          {"reused_operands", loop.reused},
          {"mix", mix},
          {"opcodes", opcodes},
          {"lints", lints_json(loop.lints)}};
}

}  // namespace

ordered_json to_json(const KernelReport& report, const AnalysisOptions& options) {
  const Kernel& kernel = *report.kernel;
  auto loops = ordered_json::array();
  for (const LoopReport& loop : report.loops) loops.push_back(loop_json(loop, options));
  auto roles = ordered_json::array();
  for (const Role& role : report.flow.roles)
    roles.push_back({{"name", role.name}, {"registers", known_or_null(role.registers)}});
  auto accesses = ordered_json::array();
  for (const LocalAccess& access : report.local.accesses) {
    const Instruction& i = kernel.instructions[static_cast<std::size_t>(access.instruction)];
    accesses.push_back({{"offset", i.offset},
                        {"line", i.line},
                        {"kind", access.is_spill ? "spill" : "array"},
                        {"store", access.is_store},
                        {"in_loop", access.loop >= 0}});
  }
  auto not_run = ordered_json::array();
  for (const LintKind& kind : report.lints_not_run)
    not_run.push_back({{"id", kind.id}, {"needs", name_of(kind.needs)}});
  return {{"name", kernel.name},
          {"arch", kernel.arch.empty() ? options.arch : kernel.arch},
          {"entry", kernel.is_entry},
          {"registers", known_or_null(kernel.registers)},
          {"frame_bytes", known_or_null(kernel.frame_bytes)},
          {"shared_bytes", known_or_null(kernel.shared_bytes)},
          {"barriers", known_or_null(kernel.barriers)},
          {"exits", kernel.exits},
          {"instructions", kernel.instructions.size()},
          {"unknown_instructions", kernel.unknown_instructions()},
          {"control_words", kernel.has_words()},
          {"mnemonics_from", kernel.mnemonics_from},
          {"built_with", kernel.built_with},
          {"calibrated", report.calibrated},
          {"local",
           {{"spill_loads", report.local.spill_loads},
            {"spill_stores", report.local.spill_stores},
            {"array_loads", report.local.array_loads},
            {"array_stores", report.local.array_stores}}},
          {"local_accesses", accesses},
          {"roles", roles},
          {"loops", loops},
          {"lints", lints_json(report.lints)},
          {"lints_not_run", not_run}};
}

ordered_json to_json(const std::vector<KernelReport>& reports, const AnalysisOptions& options) {
  auto kernels = ordered_json::array();
  for (const KernelReport& report : reports) kernels.push_back(to_json(report, options));
  return {{"kernels", kernels}};
}

}  // namespace pinch::sass
