// pinch trace: who waits for whom inside a kernel, and what looking at it cost.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/attention_options.h"
#include "apps/pinch/cli.h"
#include "apps/pinch/gemm_options.h"
#include "apps/pinch/interrupt.h"
#include "pinch/cuda.h"
#include "src/core/temporary_folder.h"
#include "workbench/trace/analysis.h"
#include "workbench/trace/cost.h"
#include "workbench/trace/cuda_kernels.h"
#include "workbench/trace/export.h"
#include "workbench/trace/reader.h"
#include "workbench/trace/report.h"
#include "workbench/trace/subjects.h"

namespace pinch::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kTraceExamples = R"(Examples:
  pinch trace -- './pipeline_${level}'                  runs pipeline_off, pipeline_coarse and pipeline_detailed in rounds
  pinch trace --html timeline.html --keep t.trace -- ./pipeline_coarse
  pinch trace read t.trace --perfetto t.json            open t.json at ui.perfetto.dev
  pinch trace compare before.trace after.trace
  pinch trace gemm --m 64 --n 4096 --k 4096
  pinch trace gemm --device cuda --m 2048 --n 4096 --k 4096
  pinch trace attention --heads 8 --seq 1024 --causal --pv fp8
  pinch trace attention --device cuda --batch 4 --heads 16 --seq 4096

The program is marked with pinch/trace.h or pinch/trace.cuh (docs/trace.md) and writes the file that PINCH_TRACE_FILE names.)";

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  if (a.empty() || b.empty()) return false;
  if (fs::exists(a, ignored) && !fs::is_regular_file(a, ignored)) return false;  // a device holds nothing
  const auto whole = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  return fs::equivalent(a, b, ignored) || whole(a) == whole(b);
}

// Where results go; the same for a fresh trace and a kept one.
struct Outputs {
  std::string perfetto, html, csv;
  JsonOption json;

  void add_to(CLI::App& command) {
    command.add_option("--perfetto", perfetto, "Write Chrome's JSON trace format, which Perfetto opens")
        ->type_name("FILE");
    command.add_option("--html", html, "Write a page with the table and a timeline of the steady state")
        ->type_name("FILE");
    command.add_option("--csv", csv, "Write one line an event")->type_name("FILE");
    json.add_to(command);
  }

  /// Asked before anything runs: each output can be written, and is neither another nor `input`, which is read
  /// meanwhile.
  [[nodiscard]] Result<void> check(const std::string& input, const std::string& keep) const {
    std::vector<std::pair<std::string, std::string>> taken{{"the trace itself", input}};
    for (const auto& [option, path] : {std::pair<std::string, std::string>{"--keep", keep},
                                       {"--perfetto", perfetto},
                                       {"--html", html},
                                       {"--csv", csv},
                                       {"--json", json.on_stdout() ? "" : json.path()}}) {
      if (path.empty()) continue;
      if (path == "-")
        return Error{ErrorCode::kInvalidArgument, "names no file; only --json - goes to stdout", option + " -"};
      for (const auto& [what, other] : taken) {
        if (same_file(path, other))
          return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; give another file", what), option + " " + path};
      }
      PINCH_TRY(may_write(path));
      taken.emplace_back("the file of " + option, path);
    }
    return {};
  }

  [[nodiscard]] int show(const trace::Traced& traced) const {
    const trace::Cost& cost = traced.cost;
    const auto file = trace::TraceFile::open(traced.path);
    if (!file) return report(file.error());
    const auto analysis = trace::analyse(*file);
    if (!analysis) return report(analysis.error());
    std::string table = to_table(*analysis, cost);
    if (!traced.tactic.empty()) table += fmt::format("tactic    {}\n", traced.tactic);
    if (!perfetto.empty()) {
      const auto done = write_perfetto(*file, perfetto);
      if (!done) return report(done.error());
      if (done->left_out > 0) {
        fmt::print(stderr, "pinch: {} holds {} events; {} later ones are left out\n", perfetto, done->written,
                   done->left_out);
      }
    }
    if (!html.empty()) {
      if (const auto done = write_html(*file, *analysis, table, html); !done) return report(done.error());
    }
    if (!csv.empty()) {
      if (const auto done = write_csv(*file, csv); !done) return report(done.error());
    }
    fmt::print(json.on_stdout() ? stderr : stdout, "{}", table);
    std::fflush(stdout);
    auto document = to_json(*analysis, cost);
    if (!traced.tactic.empty()) document["tactic"] = traced.tactic;
    const auto written = json.write(document);
    return written ? static_cast<int>(kOk) : report(written.error());
  }
};

int keep(const std::string& from, const std::string& to) {
  if (to.empty()) return kOk;
  std::error_code failed;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  return failed ? report({ErrorCode::kIo, fmt::format("cannot keep the trace: {}", failed.message()), to})
                : static_cast<int>(kOk);
}

int show_traced(const Result<trace::Traced>& traced, const std::string& kept, const Outputs& outputs) {
  if (!traced) return report(traced.error());
  if (const int copied = keep(traced->path, kept); copied != kOk) return copied;
  return outputs.show(*traced);
}

struct RunOptions {
  trace::Program program;
  std::string level = "coarse", keep;
  Outputs outputs;
};

void add_common(CLI::App& command, std::string& level, int& rounds, std::string& keep) {
  command.add_option("--level", level, "Whose trace is analysed; the times of all levels are compared anyway")
      ->check(CLI::IsMember({"coarse", "detailed"}))
      ->capture_default_str();
  command.add_option("--rounds", rounds, "Rounds of untraced, coarse and detailed runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--keep", keep, "Keep the trace in this file")->type_name("FILE");
}

trace::Level level_of(const std::string& name) {
  return name == "coarse" ? trace::Level::kCoarse : trace::Level::kDetailed;
}

int run_program(RunOptions& options) {
  if (const auto checked = options.outputs.check("", options.keep); !checked) return report(checked.error());
  options.program.level = level_of(options.level);
  const InterruptGuard interrupt;
  const auto folder = TemporaryFolder::create();
  if (!folder) return report(folder.error());
  return show_traced(trace_program(options.program, folder->path(), [&] { return interrupt.requested(); }),
                     options.keep, options.outputs);
}

// --- the library's own kernels

struct SubjectOptions {
  std::string tactic, level = "coarse", keep;
  int rounds = 7;
  Outputs outputs;

  void add_to(CLI::App& command) {
    command.add_option("--tactic", tactic, "Trace this tactic instead of the default")->type_name("NAME");
    add_common(command, level, rounds, keep);
    outputs.add_to(command);
  }
};

int trace_one(const SubjectOptions& options, const Result<trace::Subject>& subject) {
  if (!subject) return report(subject.error());
  const InterruptGuard interrupt;
  const auto folder = TemporaryFolder::create();
  if (!folder) return report(folder.error());
  return show_traced(trace_subject(*subject, options.rounds, level_of(options.level), folder->path(),
                                   [&] { return interrupt.requested(); }),
                     options.keep, options.outputs);
}

struct GemmTraceOptions : SubjectOptions {
  GemmOptionGroup gemm;
};

// A kernel that `compile` makes a program of.
template <class Problem, class Compile>
int trace_cuda(const SubjectOptions& options, const Problem& problem, const Result<int>& ordinal,
               const Compile& compile) {
  if (!ordinal) return report(ordinal.error());
  const auto device = cuda::sm90_device(*ordinal);
  if (!device) return report(device.error());
  const InterruptGuard interrupt;
  const auto stop = [&] { return interrupt.requested(); };
  const auto folder = TemporaryFolder::create();
  if (!folder) return report(folder.error());
  auto compiled = compile(problem, trace::CudaKernel{options.tactic, project_sources(), folder->path(), *device, stop});
  if (!compiled) return report(compiled.error());
  compiled->program.rounds = options.rounds;
  compiled->program.level = level_of(options.level);
  auto traced = trace_program(compiled->program, folder->path(), stop);
  if (traced) traced->tactic = std::move(compiled->tactic);
  return show_traced(traced, options.keep, options.outputs);
}

int trace_gemm(GemmTraceOptions& options) {
  if (const auto checked = options.outputs.check("", options.keep); !checked) return report(checked.error());
  if (options.gemm.rows().size() != 1)
    return report({ErrorCode::kInvalidArgument, "one number of rows is traced at a time", "--m"});
  if (options.gemm.on_cuda()) {
    const auto problem = options.gemm.shape(options.gemm.rows().front());
    if (!problem) return report(problem.error());
    return trace_cuda(options, *problem, options.gemm.cuda_device(), trace::compile_cuda_gemm);
  }
  const auto target = options.gemm.target();
  if (!target) return report(target.error());
  const auto weights = options.gemm.weights();
  if (!weights) return report(weights.error());
  return trace_one(options,
                   trace::gemm_subject(weights->view(), options.gemm.rows().front(),
                                       {options.tactic, (*target)->resources().threads, options.gemm.output()}));
}

struct AttentionTraceOptions : SubjectOptions {
  AttentionOptionGroup attention;
};

int trace_attention(AttentionTraceOptions& options) {
  if (const auto checked = options.outputs.check("", options.keep); !checked) return report(checked.error());
  const auto problem = options.attention.problem();
  if (!problem) return report(problem.error());
  if (options.attention.on_cuda()) {
    return trace_cuda(options, *problem, options.attention.cuda_device(), trace::compile_cuda_attention);
  }
  const auto threads = options.attention.cpu_threads();
  if (!threads) return report(threads.error());
  return trace_one(options, trace::attention_subject(*problem, {options.tactic, *threads}));
}

// --- compare

// A trace file, or what --json wrote.
Result<ordered_json> document_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Error{ErrorCode::kNotFound, "cannot be opened; give a trace, or what pinch trace --json wrote", path};
  if (trace::is_trace(file)) {
    PINCH_ASSIGN(trace, trace::TraceFile::open(path));
    PINCH_ASSIGN(analysis, trace::analyse(trace));
    return to_json(analysis, {});
  }
  auto document = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return Error{ErrorCode::kCorrupt, "neither a trace nor JSON; give a trace, or what pinch trace --json wrote", path};
  PINCH_TRY(trace::check_document(document, path));
  return document;
}

int compare_two(const std::vector<std::string>& files, const JsonOption& json) {
  const auto a = document_of(files[0]);
  if (!a) return report(a.error());
  const auto b = document_of(files[1]);
  if (!b) return report(b.error());
  for (const std::string& file : files) {
    if (!json.on_stdout() && same_file(json.path(), file))
      return report({ErrorCode::kInvalidArgument, "is what is compared; give another file", "--json " + json.path()});
  }
  const auto result = trace::compare(*a, *b);
  if (!result) return report(result.error());
  fmt::print(json.on_stdout() ? stderr : stdout, "{}", trace::compare_table(*result));
  std::fflush(stdout);
  const auto written = json.write(*result);
  return written ? static_cast<int>(kOk) : report(written.error());
}

}  // namespace

void add_trace(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("trace", "Say who waits for whom inside a kernel, and what looking at it cost");
  command->footer(kTraceExamples);
  command->require_subcommand(0, 1);
  auto options = std::make_shared<RunOptions>();
  add_common(*command, options->level, options->program.rounds, options->keep);
  command->add_option("--timeout", options->program.timeout_s, "Seconds until a run is ended; without it, never")
      ->check(CLI::PositiveNumber);
  options->outputs.add_to(*command);
  command
      ->add_option("command", options->program.argv,
                   "The program and its arguments, after --; ${level} becomes off, coarse or detailed")
      ->type_name("CMD");
  command->parse_complete_callback([command] {
    if (command->get_subcommands().empty()) return;
    const std::string subcommand = command->get_subcommands().front()->get_name();
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() == 0) continue;
      throw CLI::ValidationError(
          option->get_positional() ? "words after --" : option->get_name(),
          option->get_positional() ? "trace " + subcommand + " runs no program" : "goes after " + subcommand);
    }
  });
  command->callback([command, options, &status] {
    if (!command->get_subcommands().empty()) return;
    if (options->program.argv.empty())
      throw CLI::RequiredError("A program after --, or gemm, attention, read or compare");
    status = run_program(*options);
  });

  auto* gemm = command->add_subcommand("gemm",
                                       "bf16 activations times FP4 weights: on the CPU, its weights warm, or a CUDA "
                                       "kernel compiled here with its marks");
  auto gemm_options = std::make_shared<GemmTraceOptions>();
  gemm_options->gemm.add_to(*gemm);
  gemm_options->add_to(*gemm);
  gemm->callback([gemm_options, &status] { status = trace_gemm(*gemm_options); });

  auto* attention = command->add_subcommand(
      "attention", "Attention forward: on the CPU, or a CUDA kernel compiled here with its marks");
  auto attention_options = std::make_shared<AttentionTraceOptions>();
  attention_options->attention.add_to(*attention);
  attention_options->add_to(*attention);
  attention->callback([attention_options, &status] { status = trace_attention(*attention_options); });

  auto* read = command->add_subcommand("read", "Analyse a trace that was kept");
  auto read_file = std::make_shared<std::string>();
  auto read_outputs = std::make_shared<Outputs>();
  read->add_option("file", *read_file, "The trace")->required()->type_name("FILE");
  read_outputs->add_to(*read);
  read->callback([read_file, read_outputs, &status] {
    if (const auto checked = read_outputs->check(*read_file, ""); !checked) {
      status = report(checked.error());
      return;
    }
    trace::Cost cost;
    for (trace::LevelTimes& times : cost.times) times.why = "a kept trace";
    status = read_outputs->show({std::move(cost), *read_file, {}});
  });

  auto* compare = command->add_subcommand("compare", "Say which role's period changed, and which wait moved");
  auto files = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<JsonOption>();
  compare->add_option("files", *files, "Two traces, or documents of --json")->expected(2)->required()->type_name("A B");
  json->add_to(*compare);
  compare->callback([files, json, &status] { status = compare_two(*files, *json); });
}

}  // namespace pinch::cli
