// pinch probe: what a unit can really do, measured, and proved in the machine code that was timed.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/progress_bar.h"
#include "src/core/atomic_file.h"
#include "workbench/pattern/pattern.h"
#include "workbench/probe/cpu_probe.h"
#include "workbench/probe/cuda_probe.h"

namespace pinch::cli {
namespace {

struct ProbeOptions {
  bool list = false, prove = false, quick = false, pairs = true;
  std::string device = "cpu", arch, only, name, disassembler;
  JsonOption json, out;
};

// "90a" is sm_90a.
std::string full_arch(const std::string& arch) {
  if (arch.empty()) return "sm_90a";
  return arch[0] >= '0' && arch[0] <= '9' ? "sm_" + arch : arch;
}

int list(const ProbeOptions& options) {
  const auto only = Pattern::compile(options.only, "--only");
  if (!only) return report(only.error());
  auto document =
      nlohmann::ordered_json{{"cpu", nlohmann::ordered_json::array()}, {"cuda", nlohmann::ordered_json::array()}};
  for (const probe::CpuProbe& p : probe::cpu_probes()) {
    if (!only->found_in(p.name)) continue;
    document["cpu"].push_back(
        {{"name", p.name}, {"opcode", p.operation.mnemonic}, {"about", p.about}, {"runs_here", probe::runs_here(p)}});
    if (!options.json.on_stdout())
      fmt::print("cpu   {:<18} {:<16} {}{}\n", p.name, p.operation.mnemonic, p.about,
                 probe::runs_here(p) ? "" : " (not on this CPU)");
  }
  for (const probe::CudaProbe& p : probe::cuda_probes()) {
    if (!only->found_in(p.name)) continue;
    document["cuda"].push_back({{"name", p.name}, {"opcode", p.opcode}, {"from_sm", p.min_sm}, {"ptx", p.ptx}});
    if (!options.json.on_stdout()) fmt::print("cuda  {:<18} {:<16} sm_{} on\n", p.name, p.opcode, p.min_sm);
  }
  const auto written = options.json.write(document);
  return written ? static_cast<int>(kOk) : report(written.error());
}

probe::CudaOptions cuda_options(const ProbeOptions& options, ProgressBar& bar) {
  probe::CudaOptions made;
  made.arch = full_arch(options.arch);
  made.only = options.only;
  made.pairs = options.pairs;
  made.disassembler = options.disassembler;
  made.progress = [&bar](double done, double total, const std::string& what) { bar.show(done, total, what); };
  return made;
}

int prove(const ProbeOptions& options) {
  ProgressBar bar;
  const auto module = probe::build_cuda(cuda_options(options, bar));
  if (!module) return report(module.error());
  nlohmann::ordered_json document{{"arch", module->arch},
                                  {"ptxas", module->ptxas},
                                  {"mnemonics_from", module->names},
                                  {"nvdisasm", module->nvdisasm},
                                  {"probes", nlohmann::ordered_json::array()}};
  int failed = 0, proved = 0;
  for (const probe::CudaKernel& kernel : module->kernels) {
    for (std::size_t p = 0; p < kernel.probes.size(); ++p) {
      const probe::Proof& proof = kernel.proofs[p];
      document["probes"].push_back({{"name", kernel.probes[p]->name},
                                    {"kernel", kernel.name},
                                    {"chains", kernel.chains},
                                    {"opcode", proof.opcode},
                                    {"expected", proof.expected},
                                    {"found", proof.found},
                                    {"others", proof.others},
                                    {"base_opcode_only", proof.base_only},
                                    {"proved", proof.proved()}});
      ++(proof.proved() ? proved : failed);
      if (!proof.proved() && !options.json.on_stdout())
        fmt::print("not_proved {:<14} {} chains: {}\n", kernel.probes[p]->name, kernel.chains, to_string(proof));
    }
  }
  if (!options.json.on_stdout())
    fmt::print("{}: {} loops proved{}, {} not, by {}, ptxas {}\n", module->arch, proved,
               module->names == "opcode map" ? " (base opcode only)" : "", failed, module->names, module->ptxas);
  const auto written = options.json.write(document);
  if (!written) return report(written.error());
  return failed == 0 ? kOk : kFailed;
}

void print_table(const probe::Model& model) {
  fmt::print("{}, {}\n", model.device, model.date);
  for (const probe::Entry& e : model.entries) {
    fmt::print("{:<24} {:>10} {:<22} {:>5.1f}%  {}{}\n", e.name,
               e.value    ? fmt::format("{:.2f}", *e.value)
               : e.proved ? "none"
                          : "not_proved",
               e.unit, 100 * e.spread, e.proof, e.mark.empty() ? "" : "  [" + e.mark + "]");
  }
  for (const probe::Overlap& p : model.pairs)
    fmt::print("{:<32} overlap {} of {:.2f}{}\n", p.first + " + " + p.second,
               p.overlap ? fmt::format("{:.2f}", *p.overlap) : "none", p.most,
               p.mark.empty() ? "" : "  [" + p.mark + "]");
  std::map<std::string, std::string> groups;
  for (const probe::Entry& e : model.entries) {
    if (!e.group.empty()) groups[e.group] += (groups[e.group].empty() ? "" : " ") + e.name;
  }
  for (const auto& [group, names] : groups) {
    if (names.find(' ') != std::string::npos) fmt::print("one unit ({}): {}\n", group, names);
  }
}

// The model of an earlier run at `path`, if there is one.
Result<std::optional<probe::Model>> earlier_at(const JsonOption& out) {
  if (!out.given() || out.on_stdout()) return std::optional<probe::Model>();
  std::ifstream file(out.path());
  if (!file) return std::optional<probe::Model>();
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  PINCH_ASSIGN(earlier, probe::parse_model(text, out.path()));
  return std::optional<probe::Model>(std::move(earlier));
}

// What is asked for may take minutes: whether it can be written is known before.
Result<std::optional<probe::Model>> prepare(const ProbeOptions& options) {
  if (options.out.on_stdout() && options.json.on_stdout())
    return Error{ErrorCode::kInvalidArgument, "--out - and --json - both print the model; give one of them", ""};
  PINCH_TRY(options.out.may_write());
  PINCH_TRY(options.json.may_write());
  return earlier_at(options.out);
}

void merge_into(probe::Model earlier, probe::Model& model, const std::string& name) {
  for (const std::string& line : merge(earlier, model)) fmt::print(stderr, "{}\n", line);
  if (!name.empty() && name != earlier.name) {
    fmt::print(stderr, "the model of that file is called '{}' from here on, no longer '{}'\n", name, earlier.name);
    earlier.name = name;
  }
  earlier.device = model.device;
  if (!model.arch.empty()) earlier.arch = model.arch;
  earlier.date = model.date;
  earlier.tools = model.tools;
  group_by_overlap(earlier);
  model = std::move(earlier);
}

int measure(const ProbeOptions& options) {
  const auto earlier = prepare(options);
  if (!earlier) return report(earlier.error());
  ProgressBar bar;
  Result<probe::Model> model = Error{};
  if (options.device == "cpu") {
    probe::CpuOptions cpu;
    cpu.only = options.only;
    cpu.pairs = options.pairs;
    cpu.quick = options.quick;
    cpu.progress = [&bar](double done, double total, const std::string& what) { bar.show(done, total, what); };
    measure::SystemClock clock;
    model = probe::measure_cpu(cpu, clock);
  } else {
    const probe::CudaOptions cuda = cuda_options(options, bar);
    const auto module = probe::build_cuda(cuda);
    if (!module) return report(module.error());
    model = probe::measure_cuda(*module, cuda);
  }
  if (!model) return report(model.error());
  if (!options.name.empty()) model->name = options.name;
  if (options.out.given()) {
    if (earlier->has_value()) {
      // What was measured is not lost where the file is another device's: it is printed still.
      if (const auto may = may_merge(**earlier, *model, options.out.path()); !may) {
        print_table(*model);
        return report(may.error());
      }
      merge_into(**earlier, *model, options.name);
    }
    if (const auto written = options.out.write(to_json(*model)); !written) return report(written.error());
  }
  if (!options.json.on_stdout() && !options.out.on_stdout()) print_table(*model);
  const auto written = options.json.write(to_json(*model));
  return written ? static_cast<int>(kOk) : report(written.error());
}

// Options that what is asked for has no use for.
Result<void> check(const ProbeOptions& options) {
  const bool measures = !options.list && !options.prove, compiles = options.prove || options.device == "cuda";
  const auto unused = [](const char* option, const char* of) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{} is of {}; leave it out", option, of), ""};
  };
  if (!measures && options.out.given()) return unused("--out", "a measurement, not of --list or --prove");
  if (!measures && !options.name.empty()) return unused("--name", "a measurement, not of --list or --prove");
  if ((options.list || !compiles) && !options.arch.empty()) return unused("--arch", "--device cuda or --prove");
  if ((options.list || !compiles) && !options.disassembler.empty())
    return unused("--disassembler", "--device cuda or --prove");
  if (options.quick && (!measures || options.device != "cpu")) return unused("--quick", "a measurement of the CPU");
  return {};
}

int run(ProbeOptions& options) {
  if (const auto checked = check(options); !checked) return report(checked.error());
  if (options.list) return list(options);
  if (options.prove) return prove(options);
  return measure(options);
}

}  // namespace

void add_probe(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("probe", "Measure what instructions can do, proved in the machine code that was timed");
  auto options = std::make_shared<ProbeOptions>();
  command->add_flag("--list", options->list, "Print every probe; needs no device");
  command->add_flag("--prove", options->prove, "Compile the CUDA probes and count their opcodes in SASS; needs no GPU");
  command->add_option("--device", options->device, "What is measured")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--arch", options->arch, "Architecture of the CUDA probes: 80, 90a (default), 100a, 103a");
  command->add_option("--only", options->only, "Probes whose name matches this regular expression")->type_name("REGEX");
  command->add_flag("--pairs,!--no-pairs", options->pairs, "Mixes of two instructions too; the default");
  command->add_flag("--quick", options->quick,
                    "Of the CPU: fewer repeats and no memory beyond the second level, under 20 s");
  options->out.add_to(*command, "--out", "Machine model to write; merged with what it holds");
  command->add_option("--name", options->name, "Name of the machine model, new or merged");
  command
      ->add_option("--disassembler", options->disassembler,
                   "Path of nvdisasm; 'none' names opcodes by the built-in map")
      ->type_name("PATH|none");
  options->json.add_to(*command);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace pinch::cli
