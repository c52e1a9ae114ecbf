#include "workbench/sass/analysis.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "workbench/sass/opcode_map.h"
#include "workbench/sass/working_path.h"

namespace pinch::sass {
namespace {

int bytes_moved(const Instruction& i) {
  if (i.has_modifier("128")) return 16;
  if (i.has_modifier("64")) return 8;
  if (i.has_modifier("U8") || i.has_modifier("S8")) return 1;
  if (i.has_modifier("U16") || i.has_modifier("S16")) return 2;
  return 4;
}

void count_bytes(const Instruction& i, LoopReport& report) {
  const std::string_view base = i.base();
  if (base == "LDG" || base == "STG") report.global_bytes += bytes_moved(i);
  if (base == "LDS" || base == "STS") report.shared_bytes += bytes_moved(i);
  if (base == "LDSM" || base == "STSM") report.shared_bytes += i.has_modifier("4") ? 16 : i.has_modifier("2") ? 8 : 4;
}

// Units of the whole SM take that much less of a sub-partition's time where fewer of them run.
void share(LoopCode& code, int sub_partitions) {
  for (Cost& cost : code.costs) {
    for (std::size_t p = 0; p < cost.uses.size(); ++p) {
      if (is_shared_by_sm(static_cast<Pipe>(p))) cost.uses[p] *= static_cast<float>(sub_partitions) / kSubPartitions;
    }
  }
}

void simulate(const LoopCode& code, const Machine& machine, LoopReport& report) {
  const bool has_words =
      std::all_of(code.instructions.begin(), code.instructions.end(), [](const Instruction* i) { return i->has_word; });
  if (!has_words) return;
  const auto under = [&](Policy policy) {
    return std::max(simulated_cycles(code, machine, report.warps, policy), report.least_cycles());
  };
  report.greedy_cycles = under(Policy::kGreedy);
  report.fair_cycles = report.warps == 1 ? report.greedy_cycles : under(Policy::kFair);
  report.simulated_cycles = machine.scheduler().greedy ? report.greedy_cycles : report.fair_cycles;
}

LoopReport report_loop(const LoopContext& context, const Loop& loop, KnownMnemonics& known,
                       const AnalysisOptions& options) {
  const Kernel& kernel = context.kernel;
  const Machine& machine = context.machine;
  LoopReport report;
  report.begin = begin_offset(kernel, loop);
  report.end = end_offset(kernel, loop);
  report.line = kernel.instructions[static_cast<std::size_t>(loop.first)].line;
  report.depth = loop.depth;
  report.instructions = loop.instructions;
  report.spins = loop.spins;
  report.branches = loop.branches;
  report.path = loop.path;
  report.role = loop.role;
  LoopCode code = loop_code(kernel, loop.path, machine, known);
  if (options.sub_partitions < kSubPartitions) share(code, options.sub_partitions);
  std::vector<std::string_view> opcodes;
  opcodes.reserve(code.costs.size());
  for (std::size_t i = 0; i < code.costs.size(); ++i) {
    const Instruction& instruction = *code.instructions[i];
    for (std::size_t p = 0; p < report.pipes.size(); ++p) report.pipes[p] += code.costs[i].uses[p];
    report.unlisted += !code.costs[i].listed;
    report.uncalibrated += !code.costs[i].measured;
    count_bytes(instruction, report);
    opcodes.push_back(instruction.known() ? instruction.mnemonic : "?");
    if (instruction.has_word) ++report.stalls[instruction.control.stall];
  }
  std::sort(opcodes.begin(), opcodes.end());
  for (auto first = opcodes.begin(); first != opcodes.end();) {
    const auto last = std::find_if(first, opcodes.end(), [&](std::string_view name) { return name != *first; });
    const int count = static_cast<int>(last - first);
    report.opcodes.emplace_hint(report.opcodes.end(), *first, count);
    report.mix[std::string(first->substr(0, first->find('.')))] += count;
    first = last;
  }
  const auto largest = std::max_element(report.pipes.begin(), report.pipes.end());
  report.bound_cycles = *largest;
  report.bound_by = static_cast<Pipe>(largest - report.pipes.begin());
  const bool has_operands = std::any_of(code.instructions.begin(), code.instructions.end(),
                                        [](const Instruction* i) { return !i->operands.empty(); });
  if (has_operands) {
    report.dependency_cycles = dependency_cycles(code);
    report.loads = load_distance(code);
  }
  const auto of_role = options.role_warps.find(loop.role);
  report.warps = of_role != options.role_warps.end() ? of_role->second : options.warps;
  simulate(code, machine, report);
  for (const UnitPair& pair : options.pairs) report.interleavings.push_back(interleaving(code, pair));
  report.unroll = unroll_factor(code);
  report.reused = reused_operands(code);
  report.lints = lint_loop(context, loop, code);
  return report;
}

}  // namespace

double LoopReport::least_cycles() const {
  return std::max(bound_cycles * warps, dependency_cycles.value_or(0));
}

std::optional<double> LoopReport::slack() const {
  if (!simulated_cycles || bound_cycles <= 0) return std::nullopt;
  return *simulated_cycles / (bound_cycles * warps);
}

Result<void> check_pairs(const std::vector<UnitPair>& pairs, const Program& program) {
  const auto is_unit = [&](const std::string& name) {
    for (int p = 1; p < kPipes; ++p) {
      if (name_of(static_cast<Pipe>(p)) == name) return true;
    }
    if (is_opcode(name.substr(0, name.find('.')))) return true;
    return std::any_of(program.kernels.begin(), program.kernels.end(), [&](const Kernel& kernel) {
      return std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                         [&](const Instruction& i) { return i.known() && i.is(name); });
    });
  };
  for (const UnitPair& pair : pairs) {
    for (const std::string& name : {pair.first, pair.second}) {
      if (is_unit(name)) continue;
      std::string pipes;
      for (int p = 1; p < kPipes; ++p) pipes += fmt::format(" {}", name_of(static_cast<Pipe>(p)));
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' is no instruction that is known and no pipe; pipes:{}", name, pipes), "--pair"};
    }
  }
  return {};
}

namespace {

Result<KernelReport> analyse_kernel(const Kernel& kernel, const PtxFunction* ptx, const AnalysisOptions& options,
                                    std::map<const Machine*, KnownMnemonics>& known) {
  const std::string& arch = kernel.arch.empty() ? options.arch : kernel.arch;
  if (arch.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "the text does not say which architecture it is of; give --arch (sm_80, sm_90a, sm_100a, sm_103a)",
                 kernel.name};
  const auto machine = Machine::of(arch);
  if (!machine.ok()) return Error{ErrorCode::kInvalidArgument, machine.error().text, kernel.name};
  KernelReport report;
  report.kernel = &kernel;
  report.flow = analyse_flow(kernel);
  take_products(kernel, **machine, report.flow);
  report.local = local_memory(kernel, report.flow);
  LiveBits live(kernel, report.flow);
  const LoopContext context{kernel, report.flow, report.local, **machine, live};
  for (const Loop& loop : report.flow.loops)
    report.loops.push_back(report_loop(context, loop, known[machine->get()], options));
  report.calibrated = std::all_of(report.loops.begin(), report.loops.end(),
                                  [](const LoopReport& loop) { return loop.spins || loop.uncalibrated == 0; });
  report.lints_not_run = lints_not_run(kernel, ptx);
  report.lints = lint_kernel(kernel, report.flow, ptx);
  if (ptx != nullptr) {
    auto from_ptx = lint_ptx(*ptx, **machine);
    std::move(from_ptx.begin(), from_ptx.end(), std::back_inserter(report.lints));
  }
  return report;
}

}  // namespace

Result<KernelReport> analyse_kernel(const Kernel& kernel, const PtxFunction* ptx, const AnalysisOptions& options) {
  std::map<const Machine*, KnownMnemonics> known;
  return analyse_kernel(kernel, ptx, options, known);
}

Result<std::vector<KernelReport>> analyse(const Program& program, const AnalysisOptions& options) {
  std::vector<PtxFunction> functions;
  for (const PtxText& ptx : program.ptx) {
    auto read = read_ptx(*ptx.text);
    std::move(read.begin(), read.end(), std::back_inserter(functions));
  }
  std::unordered_map<std::string_view, const PtxFunction*> by_name;  // the first of each name
  for (const PtxFunction& function : functions) by_name.emplace(function.name, &function);
  std::map<const Machine*, KnownMnemonics> known;
  std::vector<KernelReport> reports;
  reports.reserve(program.kernels.size());
  for (const Kernel& kernel : program.kernels) {
    const auto ptx = by_name.find(kernel.name);
    PINCH_ASSIGN(report, analyse_kernel(kernel, ptx == by_name.end() ? nullptr : ptx->second, options, known));
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace pinch::sass
