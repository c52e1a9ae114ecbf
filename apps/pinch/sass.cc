// pinch sass: what bounds each loop of a GPU binary, with no GPU.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <new>
#include <set>
#include <vector>

#include "apps/pinch/cli.h"
#include "workbench/pattern/pattern.h"
#include "workbench/sass/diff.h"
#include "workbench/sass/input.h"
#include "workbench/sass/report_json.h"
#include "workbench/sass/report_text.h"

namespace pinch::cli {
namespace {

struct SassOptions {
  std::vector<std::string> files;
  std::string kernel, baseline;
  std::vector<std::string> archs, roles, pairs;
  sass::InputOptions input;
  sass::AnalysisOptions analysis;
  sass::GateThresholds thresholds;
  bool listing = false, list_lints = false;
  JsonOption json;
};

struct Analysed {
  sass::Program program;
  std::vector<sass::KernelReport> reports;
};

// SassOptions that arrive as text: "consumer=8", "MUFU,F2FP", "90a".
Result<void> prepare(SassOptions& options) {
  for (std::string& arch : options.archs) {
    if (arch.rfind("sm_", 0) != 0) arch.insert(0, "sm_");
    if (const auto machine = sass::Machine::of(arch); !machine.ok())
      return Error{ErrorCode::kInvalidArgument, machine.error().text, "--arch"};
  }
  if (!options.archs.empty()) {
    options.input.archs = options.archs;
    options.analysis.arch = options.archs.front();
  }
  for (const std::string& role : options.roles) {
    const auto equals = role.find('=');
    const int warps = equals == std::string::npos ? 0 : std::atoi(role.c_str() + equals + 1);
    if (equals == 0 || warps < 1 || warps > 16) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("--role '{}': give NAME=WARPS with 1 to 16 warps of one sub-partition, as in consumer=2", role),
          ""};
    }
    options.analysis.role_warps[role.substr(0, equals)] = warps;
  }
  if (!options.pairs.empty()) options.analysis.pairs.clear();
  for (const std::string& pair : options.pairs) {
    const auto comma = pair.find(',');
    if (comma == std::string::npos || comma == 0 || comma + 1 == pair.size()) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("--pair '{}': give two units as A,B, mnemonics or pipes, as in MUFU,F2FP or tensor,alu", pair),
          ""};
    }
    options.analysis.pairs.push_back({pair.substr(0, comma), pair.substr(comma + 1)});
  }
  if (!options.kernel.empty()) {
    PINCH_ASSIGN(wanted, Pattern::compile(options.kernel, "--kernel"));
    options.input.wants = [wanted](std::string_view name) { return wanted.found_in(name); };
  }
  return {};
}

// Code for another architecture than --arch names; text that names none is taken to be for the one given.
bool is_other_arch(const sass::Kernel& kernel, const std::vector<std::string>& archs) {
  const auto number = [](const std::string& arch) { return std::atoi(arch.c_str() + 3); };
  return !archs.empty() && !kernel.arch.empty() && std::none_of(archs.begin(), archs.end(), [&](const std::string& a) {
    return number(a) == number(kernel.arch);
  });
}

Result<Analysed> analyse_within_memory(const std::string& path, const SassOptions& options) {
  PINCH_ASSIGN(program, sass::read_program(path, options.input));
  for (const std::string& note : program.notes) fmt::print(stderr, "pinch: {}\n", note);
  if (program.kernels.empty())
    return Error{ErrorCode::kNotFound, fmt::format("no kernel matches --kernel '{}'", options.kernel), path};
  const std::string arch = program.kernels.front().arch;
  std::erase_if(program.kernels, [&](const sass::Kernel& k) { return is_other_arch(k, options.archs); });
  if (program.kernels.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("holds code for {} and none for --arch {}", arch, fmt::join(options.archs, ",")), path};
  }
  if (!options.pairs.empty()) PINCH_TRY(sass::check_pairs(options.analysis.pairs, program));
  auto reports = sass::analyse(program, options.analysis);
  if (!reports.ok())
    return Error{reports.error().code, reports.error().text, fmt::format("{}, {}", path, reports.error().where)};
  return Analysed{std::move(program), std::move(*reports)};
}

Result<Analysed> analyse_file(const std::string& path, const SassOptions& options) {
  try {
    return analyse_within_memory(path, options);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kInvalidArgument,
                 "not enough memory to analyse this file; it is larger than this machine can take, or made to be",
                 path};
  }
}

// All files, and every --role found in one of them.
Result<std::vector<Analysed>> analyse_files(const SassOptions& options) {
  std::vector<Analysed> all;
  std::set<std::string> roles;
  for (const std::string& path : options.files) {
    PINCH_ASSIGN(analysed, analyse_file(path, options));
    for (const sass::KernelReport& kernel : analysed.reports) {
      for (const sass::Role& role : kernel.flow.roles) roles.insert(role.name);
    }
    all.push_back(std::move(analysed));
  }
  for (const auto& [role, warps] : options.analysis.role_warps) {
    if (roles.count(role) == 0)
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("no kernel has a role '{}'; roles here: {}", role,
                               roles.empty() ? "none" : fmt::format("{}", fmt::join(roles, " "))),
                   "--role"};
  }
  return all;
}

int finish(const SassOptions& options, const nlohmann::ordered_json& document, int status) {
  const auto written = options.json.write(document);
  return written ? status : report(written.error());
}

int show(SassOptions& options) {
  if (options.list_lints) {
    for (const auto& kind : sass::lint_kinds()) fmt::print("{:<26} {}\n", kind.id, kind.about);
    return kOk;
  }
  if (options.files.empty())
    return report({ErrorCode::kInvalidArgument,
                   "give a file: a cubin, a fatbin, an object or executable built by nvcc, .ptx, .cu, or SASS text",
                   ""});
  if (const auto ready = prepare(options); !ready) return report(ready.error());
  const auto all = analyse_files(options);
  if (!all) return report(all.error());
  nlohmann::ordered_json document{{"kernels", nlohmann::ordered_json::array()}};
  bool by_map = false;
  for (const Analysed& analysed : *all) {
    for (const sass::KernelReport& kernel : analysed.reports) {
      document["kernels"].push_back(sass::to_json(kernel, options.analysis));
      by_map |= kernel.kernel->mnemonics_from == "opcode map";
      if (options.json.on_stdout()) continue;
      fmt::print("{}\n",
                 options.listing ? sass::listing(*kernel.kernel, kernel.flow) : sass::table(kernel, options.analysis));
    }
  }
  if (by_map && options.input.disassembler.empty() && !options.json.on_stdout()) {
    fmt::print(stderr,
               "pinch: names are from the opcode map and operands are not known; scripts/fetch_cuda_tools.sh installs "
               "nvdisasm\n");
  }
  return finish(options, document, kOk);
}

int compare(SassOptions& options) {
  if (const auto ready = prepare(options); !ready) return report(ready.error());
  const auto both = analyse_files(options);
  if (!both) return report(both.error());
  const auto result = sass::diff(both->at(0).reports, both->at(1).reports);
  if (!result)
    return report({result.error().code, result.error().text,
                   fmt::format("{} and {}, {}", options.files[0], options.files[1], result.error().where)});
  if (result->kernels.empty()) {
    return report(
        {ErrorCode::kInvalidArgument,
         fmt::format("no kernel of {} has a counterpart of the same arch in {}; compare two builds for one arch",
                     options.files[0], options.files[1]),
         ""});
  }
  if (!options.json.on_stdout()) fmt::print("{}", sass::to_text(*result, options.analysis));
  return finish(options, sass::to_json(*result, options.analysis), kOk);
}

int hold(SassOptions& options) {
  if (const auto ready = prepare(options); !ready) return report(ready.error());
  std::ifstream file(options.baseline);
  if (!file)
    return report({ErrorCode::kNotFound, "the baseline cannot be read; write it with: pinch sass FILE --json BASELINE",
                   options.baseline});
  const auto baseline = nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  nlohmann::ordered_json current{{"kernels", nlohmann::ordered_json::array()}};
  const auto all = analyse_files(options);
  if (!all) return report(all.error());
  for (const Analysed& analysed : *all) {
    for (const auto& kernel : analysed.reports) current["kernels"].push_back(sass::to_json(kernel, options.analysis));
  }
  auto result = sass::gate(baseline, current, options.thresholds);
  if (!result) return report({result.error().code, result.error().text, options.baseline});
  const auto list = [&](const std::vector<sass::GateFinding>& findings, const char* prefix) {
    auto made = nlohmann::ordered_json::array();
    for (const sass::GateFinding& finding : findings) {
      made.push_back({{"name", finding.kernel}, {"arch", finding.arch}, {"what", finding.what}});
      if (!options.json.on_stdout()) fmt::print("{}{} ({}): {}\n", prefix, finding.kernel, finding.arch, finding.what);
    }
    return made;
  };
  const auto unjudged = list(result->unjudged, "not judged: "), failures = list(result->failures, "");
  if (!options.json.on_stdout())
    fmt::print("{} kernels compared, {} failures\n", result->compared, result->failures.size());
  return finish(options, {{"compared", result->compared}, {"failures", failures}, {"unjudged", unjudged}},
                result->failures.empty() ? kOk : kFailed);
}

void add_common(CLI::App& command, SassOptions& options) {
  command
      .add_option("--arch", options.archs,
                  "Architectures to compile .cu and .ptx for, to read of a file that holds several, or of text that "
                  "names none: 80, 90a, 100a, 103a")
      ->delimiter(',');
  command.add_option("--opt-level", options.input.opt_level, "ptxas -O for .cu and .ptx")->check(CLI::Range(0, 3));
  command.add_option("--warps", options.analysis.warps, "Warps of one sub-partition, all in the same loop")
      ->check(CLI::Range(1, 16));
  command
      .add_option("--sub-partitions", options.analysis.sub_partitions,
                  "Sub-partitions of the SM that run the loop: what they share is busy in proportion; default 4")
      ->check(CLI::Range(1, sass::kSubPartitions));
  command.add_option("--role", options.roles, "NAME=WARPS: warps of a role instead of --warps")
      ->type_name("NAME=WARPS");
  command.add_option("--pair", options.pairs, "Two units whose alternation is counted; default MUFU,F2FP")
      ->type_name("A,B");
  command.add_option("--kernel", options.kernel, "Only kernels whose name matches this regular expression")
      ->type_name("REGEX");
  command
      .add_option("--disassembler", options.input.disassembler,
                  "Path of nvdisasm; 'none' names opcodes by the built-in map")
      ->type_name("PATH|none");
  options.json.add_to(command);
}

}  // namespace

void add_sass(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("sass", "Say what bounds each loop of a GPU binary, with no GPU");
  auto options = std::make_shared<SassOptions>();
  command
      ->add_option("file", options->files,
                   "Cubin, fatbin, object or executable with device code, .ptx, .cu, or SASS text")
      ->type_name("FILE");
  command->add_flag("--listing", options->listing,
                    "Print every instruction with its decoded control code instead of the table");
  command->add_flag("--list-lints", options->list_lints, "Print the ids of all findings");
  add_common(*command, *options);
  command->require_subcommand(0, 1);
  command->callback([command, options, &status] {
    if (command->get_subcommands().empty()) status = show(*options);
  });

  auto* diff = command->add_subcommand("diff", "Compare two builds kernel by kernel");
  auto diff_options = std::make_shared<SassOptions>();
  diff->add_option("files", diff_options->files, "The two builds")->expected(2)->required()->type_name("A B");
  add_common(*diff, *diff_options);
  diff->callback([diff_options, &status] { status = compare(*diff_options); });

  auto* gate = command->add_subcommand("gate", "Exit 1 where a kernel is worse than a stored baseline");
  auto gate_options = std::make_shared<SassOptions>();
  gate->add_option("files", gate_options->files, "The builds to judge, one or more, of any arch")
      ->required()
      ->type_name("FILE");
  gate->add_option("--baseline", gate_options->baseline, "Document of an earlier `pinch sass FILE --json F`")
      ->required()
      ->type_name("F");
  gate->add_option("--max-registers", gate_options->thresholds.registers, "Registers more that are allowed")
      ->check(CLI::NonNegativeNumber);
  gate->add_option("--max-frame", gate_options->thresholds.frame_bytes, "Bytes of frame more that are allowed")
      ->check(CLI::NonNegativeNumber);
  gate->add_option("--max-shared", gate_options->thresholds.shared_bytes,
                   "Bytes of static shared memory more that are allowed")
      ->check(CLI::NonNegativeNumber);
  gate->add_option("--max-cycles", gate_options->thresholds.cycles_percent,
                   "Percent more bound or simulated cycles of a loop that are allowed; default 2")
      ->check(CLI::NonNegativeNumber);
  gate->add_option("--max-local", gate_options->thresholds.local_accesses,
                   "Local loads and stores more that are allowed")
      ->check(CLI::NonNegativeNumber);
  gate->add_option("--max-lints", gate_options->thresholds.lints, "Findings more that are allowed")
      ->check(CLI::NonNegativeNumber);
  gate->add_flag("--allow-missing", gate_options->thresholds.allow_missing,
                 "Pass kernels of the baseline that the files do not hold");
  add_common(*gate, *gate_options);
  gate->callback([gate_options, &status] { status = hold(*gate_options); });
}

}  // namespace pinch::cli
