// pinch check: is a changed program still right, how often does it differ from itself, and which setting did it.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/progress_bar.h"
#include "src/core/json_text.h"
#include "src/core/temporary_folder.h"
#include "workbench/check/bisect.h"
#include "workbench/check/flake.h"
#include "workbench/check/gate.h"
#include "workbench/check/program.h"

namespace pinch::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kCheckExamples = R"(Examples:
  pinch check record --out baseline --inputs inputs -- ./kernel
  pinch check compare --change reorder --baseline baseline --candidate changed
  pinch check compare --change algebra --baseline a.npy --candidate b.npy --reference fp64.npy
  pinch check compare --change algebra --baseline baseline --candidate changed --inputs inputs -- ./kernel_in_fp64
  pinch check flake --rate 0.05 --confidence 0.95 -- ./kernel
  pinch check bisect --pass tile=16,stages=1 --fail tile=64,stages=3 -- ./kernel --tile '${tile}' '${stages}'

The program finds its inputs in $PINCH_INPUTS and leaves its outputs in $PINCH_OUTPUTS; without files there its stdout counts.)";

struct ProgramOptions {
  check::Program program;
  void add_to(CLI::App& command, const std::string& what = "The program and its arguments, after --",
              bool required = true) {
    command.add_option("--inputs", program.inputs, "Folder of saved inputs, given to the program as PINCH_INPUTS")
        ->check(CLI::ExistingDirectory)
        ->type_name("FOLDER");
    command.add_option("--timeout", program.timeout_s, "Seconds until a run is ended")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command.add_option("command", program.argv, what)->required(required)->type_name("CMD");
  }
};

int finish(const JsonOption& json, const ordered_json& document, const std::string& text, int status) {
  fmt::print(json.on_stdout() ? stderr : stdout, "{}", text);
  std::fflush(stdout);
  const auto written = json.write(document);
  return written ? status : report(written.error());
}

// --- record
// -----------------------------------------------------------------------------------------------------------

struct RecordOptions {
  ProgramOptions program;
  std::string out;
  JsonOption json;
};

int record(const RecordOptions& options) {
  const InterruptGuard interrupt;
  const auto manifest = check::record(options.program.program, options.out, [&] { return interrupt.requested(); });
  if (!manifest) return report(manifest.error());
  std::string text = fmt::format("recorded in {}\n", options.out);
  for (const auto& [name, hash] : (*manifest)["outputs"].items()) {
    text += fmt::format("  {}  {}\n", hash.get<std::string>().substr(0, 16), name);
  }
  return finish(options.json, *manifest, text, kOk);
}

// --- compare
// ----------------------------------------------------------------------------------------------------------

struct CompareOptions {
  check::Change change = check::Change::kReorder;
  std::string baseline, candidate, reference, tensor, dtype, shape, intermediate;
  check::Formats formats;
  ProgramOptions program;  ///< that makes the reference; none
  JsonOption json;
};

Result<DType> type_of(const std::string& name, const std::string& option) {
  const auto type = check::parse_type(name);
  if (type) return *type;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is none of bf16, f16, f32, f64, e4m3, e5m2, e2m1, u8", name), option};
}

Result<std::optional<check::Array::Layout>> raw_layout(const CompareOptions& options) {
  if (options.dtype.empty() && options.shape.empty()) return std::optional<check::Array::Layout>{};
  PINCH_ASSIGN(type, type_of(options.dtype, "--dtype"));
  check::Array::Layout layout{type, {}};
  for (std::size_t at = 0; at < options.shape.size();) {
    char* end = nullptr;
    const long long size = std::strtoll(options.shape.c_str() + at, &end, 10);
    at = static_cast<std::size_t>(end - options.shape.c_str());
    if (size < 0 || (*end != 'x' && *end != '\0') || end == options.shape.c_str()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' is no shape; write 64x128", options.shape),
                   "--shape"};
    }
    layout.shape.push_back(size);
    ++at;
  }
  return std::optional(layout);
}

ordered_json difference_json(const check::Difference& difference) {
  ordered_json ulps = ordered_json::object();
  for (std::size_t i = 0; i < difference.ulps.size(); ++i) {
    const std::string name = i < check::kUlpEdges.size() ? fmt::format("<={}", check::kUlpEdges[i]) : "more";
    ulps[name] = difference.ulps[i];
  }
  return {{"elements", difference.elements},
          {"differing", difference.differing},
          {"rel_l2", difference.rel_l2},
          {"max_abs", difference.max_abs},
          {"cosine", difference.cosine},
          {"nonfinite", difference.nonfinite},
          {"mask_differs", difference.mask_differs},
          {"ulps", ulps}};
}

ordered_json worst_json(const check::Difference& difference) {
  if (difference.worst.empty()) return nullptr;
  const auto number = [](double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
  };
  ordered_json worst{{"index", difference.worst}};
  if (difference.worst.size() >= 2) {  // of a product: the row of the left operand, the column of the right one
    worst["row"] = difference.worst[difference.worst.size() - 2];
    worst["column"] = difference.worst.back();
  }
  worst["candidate"] = number(difference.worst_a);
  worst["expected"] = number(difference.worst_b);
  return worst;
}

struct Pair {
  std::string name, baseline, candidate, reference;
};

// Two files, or two folders of `record` (or of plain outputs) with the same files in them.
Result<std::vector<Pair>> pairs_of(const CompareOptions& options) {
  std::error_code ignored;
  const auto outputs = [&](const std::string& path) {
    return fs::is_directory(path + "/outputs", ignored) ? path + "/outputs" : path;
  };
  const std::string baseline = outputs(options.baseline), candidate = outputs(options.candidate);
  const std::string reference = options.reference.empty() ? "" : outputs(options.reference);
  if (!fs::is_directory(baseline, ignored)) {
    const bool one_of_many = fs::is_directory(reference, ignored);
    return std::vector<Pair>{
        {"", baseline, candidate, one_of_many ? reference + "/" + fs::path(baseline).filename().string() : reference}};
  }
  PINCH_ASSIGN(files, check::hash_folder(baseline));
  PINCH_ASSIGN(others, check::hash_folder(candidate));
  std::vector<Pair> pairs;
  for (const auto& [name, hash] : files) {
    if (!others.contains(name)) return Error{ErrorCode::kNotFound, fmt::format("has no output {}", name), candidate};
    pairs.push_back(
        {name, baseline + "/" + name, candidate + "/" + name, reference.empty() ? "" : reference + "/" + name});
  }
  if (pairs.empty()) return Error{ErrorCode::kNotFound, "has no outputs", baseline};
  for (const auto& [name, hash] : others) {
    if (!files.contains(name))
      return Error{ErrorCode::kNotFound, fmt::format("has no output {}, which {} has", name, candidate), baseline};
  }
  return pairs;
}

// What a folder's manifest says of its inputs; none where it is no recording. Errors: kCorrupt where its outputs are no
// longer those that were recorded.
Result<std::optional<ordered_json>> recorded_inputs(const std::string& folder) {
  std::ifstream file(folder + "/manifest.json");
  if (!file) return std::optional<ordered_json>{};
  const auto manifest = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("outputs") || !manifest.contains("inputs")) {
    return std::optional<ordered_json>{};
  }
  PINCH_ASSIGN(hashes, check::hash_folder(folder + "/outputs"));
  const auto now = ordered_json::parse(json_text(ordered_json(hashes)));
  for (const auto& [name, hash] : manifest["outputs"].items()) {
    if (now.contains(name) && now[name] == hash) continue;
    return Error{ErrorCode::kCorrupt,
                 fmt::format("output {} {}; record it again", name,
                             now.contains(name) ? "has changed since it was recorded" : "is not there any more"),
                 folder};
  }
  return std::optional(manifest["inputs"]);
}

// Recordings of one program on two inputs differ for no fault of its own.
Result<void> check_recordings(const CompareOptions& options) {
  PINCH_ASSIGN(baseline, recorded_inputs(options.baseline));
  const auto same_inputs = [&](const std::optional<ordered_json>& inputs, const std::string& where) -> Result<void> {
    if (!baseline || !inputs || *baseline == *inputs) return {};
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("its inputs are not those of {}; record both with the same --inputs", options.baseline),
                 where};
  };
  PINCH_ASSIGN(candidate, recorded_inputs(options.candidate));
  PINCH_TRY(same_inputs(candidate, options.candidate));
  PINCH_ASSIGN(reference, recorded_inputs(options.reference));
  PINCH_TRY(same_inputs(reference, options.reference));
  const std::string& given = options.program.program.inputs;
  if (given.empty()) return {};
  PINCH_ASSIGN(hashes, check::hash_folder(given));
  return same_inputs(ordered_json::parse(json_text(ordered_json(hashes))), given);
}

// Without a type, bytes can be equal or not, and no more.
Result<std::optional<check::Array::Layout>> as_bytes(const std::string& path) {
  const std::string kind = fs::path(path).extension();
  if (kind == ".npy" || kind == ".safetensors") return std::optional<check::Array::Layout>{};
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed) return Error{ErrorCode::kNotFound, "cannot be read: " + failed.message(), path};
  return std::optional(check::Array::Layout{DType::kU8, {static_cast<std::int64_t>(size)}});
}

Result<check::Gate> judge_pair(const CompareOptions& options, const Pair& pair,
                               std::optional<check::Array::Layout> raw) {
  if (!raw && options.change == check::Change::kReorder) {
    PINCH_ASSIGN(bytes, as_bytes(pair.baseline));
    PINCH_ASSIGN(others, as_bytes(pair.candidate));
    if (bytes && others && bytes->shape != others->shape) {
      check::Gate gate;
      gate.reason = fmt::format("{} bytes where the baseline has {}", others->shape[0], bytes->shape[0]);
      return gate;
    }
    raw = bytes;
  }
  PINCH_ASSIGN(baseline, check::Array::open(pair.baseline, options.tensor, raw));
  PINCH_ASSIGN(candidate, check::Array::open(pair.candidate, options.tensor, raw));
  std::optional<check::Array> reference;
  if (!pair.reference.empty()) {
    // A raw reference may be of another type than the outputs; a .npy says its own.
    PINCH_ASSIGN(opened, check::Array::open(pair.reference, options.tensor, raw));
    reference = std::move(opened);
  }
  return check::judge(options.change, baseline, candidate, reference ? &*reference : nullptr, options.formats);
}

// Runs the reference program, whose outputs bear the names of the baseline's.
Result<void> make_reference(CompareOptions& options, const std::string& folder) {
  const InterruptGuard interrupt;
  const check::Program& program = options.program.program;
  PINCH_ASSIGN(run, check::run_program(program, folder, [&] { return interrupt.requested(); }));
  if (!run.ended_well) {
    return Error{ErrorCode::kIllegal, fmt::format("the reference {}\n{}", run.ending, run.err), program.argv.front()};
  }
  options.reference = folder;
  return {};
}

int compare(CompareOptions& options) {
  const auto scratch = TemporaryFolder::create();
  if (!scratch) return report(scratch.error());
  if (!options.program.program.argv.empty()) {
    if (!options.reference.empty()) {
      return report({ErrorCode::kInvalidArgument, "give --reference or a command that makes it, not both", ""});
    }
    const auto made = make_reference(options, scratch->path() + "/outputs");
    if (!made) return made.error().code == ErrorCode::kInterrupted ? kSignalled : report(made.error());
  }
  const auto raw = raw_layout(options);
  if (!raw) return report(raw.error());
  if (!options.intermediate.empty()) {
    const auto type = type_of(options.intermediate, "--intermediate");
    if (!type) return report(type.error());
    options.formats.intermediate = *type;
  }
  if (const auto comparable = check_recordings(options); !comparable) return report(comparable.error());
  const auto pairs = pairs_of(options);
  if (!pairs) return report(pairs.error());
  ordered_json document, files = ordered_json::array();
  std::string text;
  bool passed = true;
  for (const Pair& pair : *pairs) {
    const auto gate = judge_pair(options, pair, *raw);
    if (!gate) return report(gate.error());
    const check::Difference& difference = gate->candidate;
    ordered_json entry{{"verdict", gate->passed ? "pass" : "fail"},
                       {"gate", check::to_string(options.change)},
                       {"reason", gate->reason},
                       {"bitwise", difference.bitwise},
                       {"rel_l2", difference.rel_l2},
                       {"max_abs", difference.max_abs},
                       {"cosine", difference.cosine},
                       {"worst", worst_json(difference)},
                       {"pattern", difference.pattern},
                       {"candidate", difference_json(difference)}};
    if (gate->baseline) {
      entry["baseline"] = difference_json(*gate->baseline);
      if (gate->excess) entry["ratio_95"] = {gate->excess->low, gate->excess->high};
    }
    if (gate->absolute_bound) entry["absolute_bound"] = *gate->absolute_bound;
    if (!pair.name.empty()) entry["output"] = pair.name;
    text += fmt::format("{}{}: {}\n", pair.name.empty() ? "" : pair.name + " ", gate->passed ? "pass" : "FAIL",
                        gate->reason);
    text += fmt::format("  rel_l2 {:.3g}, max {:.3g}, {} of {} elements differ{}\n", difference.rel_l2,
                        difference.max_abs, difference.differing, difference.elements,
                        difference.pattern.empty() ? "" : " (" + difference.pattern + ")");
    if (difference.differing > 0) {
      text += fmt::format("  worst [{}]: {} where {} is expected\n  units in the last place:",
                          fmt::join(difference.worst, ", "), difference.worst_a, difference.worst_b);
      for (std::size_t i = 0; i < difference.ulps.size(); ++i) {
        text += fmt::format(" {} {}", i < check::kUlpEdges.size() ? fmt::format("<={}:", check::kUlpEdges[i]) : "more:",
                            difference.ulps[i]);
      }
      text += '\n';
    }
    if (difference.nonfinite > 0) text += fmt::format("  {} elements are NaN or infinite\n", difference.nonfinite);
    // The document is the worst output's, with all of them beside it.
    if (document.is_null() || (passed && !gate->passed)) document = entry;
    passed = passed && gate->passed;
    files.push_back(std::move(entry));
  }
  if (files.size() > 1) document["outputs"] = std::move(files);
  return finish(options.json, document, text, passed ? kOk : kFailed);
}

// --- flake
// ------------------------------------------------------------------------------------------------------------

struct FlakeOptions {
  ProgramOptions program;
  int runs = 0;
  double rate = 0.05, confidence = 0.95;
  std::string baseline;
  JsonOption json;
};

Result<std::optional<check::Flake>> flake_baseline(const std::string& path) {
  if (path.empty()) return std::optional<check::Flake>{};
  std::ifstream file(path);
  const auto document = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("runs") || !document["runs"].is_number_integer() ||
      !document.contains("differing") || !document["differing"].is_number_integer()) {
    return Error{ErrorCode::kCorrupt, "is no document of `pinch check flake --json FILE`", path};
  }
  const auto runs = document["runs"].get<std::int64_t>(), differing = document["differing"].get<std::int64_t>();
  if (runs < 1 || runs > std::numeric_limits<int>::max() || differing < 0 || differing >= runs) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} of {} runs cannot differ from the most frequent result", differing, runs), path};
  }
  return std::optional(check::Flake{static_cast<int>(runs), {}, static_cast<int>(differing)});
}

int flake(FlakeOptions& options) {
  const auto baseline = flake_baseline(options.baseline);
  if (!baseline) return report(baseline.error());
  const int runs = options.runs > 0 ? options.runs : check::runs_needed(options.rate, options.confidence);
  const InterruptGuard interrupt;
  const auto scratch = TemporaryFolder::create();
  if (!scratch) return report(scratch.error());
  auto bar = std::make_unique<ProgressBar>();
  std::vector<std::string> results;
  std::map<std::string, std::string> endings;
  for (int i = 0; i < runs; ++i) {
    const auto result = check::run_program(options.program.program, scratch->path() + "/outputs",
                                           [&] { return interrupt.requested(); });
    if (!result && result.error().code == ErrorCode::kInterrupted) break;
    if (!result) return report(result.error());
    results.push_back(result->identity());
    endings[results.back()] = result->ending;
    bar->show(i + 1, runs, fmt::format("run {} of {}", i + 1, runs));
  }
  bar.reset();
  if (results.empty()) return kSignalled;
  const check::Flake found = check::cluster(results);
  const std::string_view verdict = check::verdict(found, *baseline);
  const double upper = check::rate_upper(found.differing, found.runs, 0.95);
  const double missed = check::missed_probability(options.rate, found.runs);
  auto clusters = ordered_json::array();
  std::string text =
      fmt::format("{}: {} of {} runs differ from the most frequent result\n", verdict, found.differing, found.runs);
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [identity, count] : found.clusters) order.emplace_back(-count, identity);
  std::sort(order.begin(), order.end());
  bool all_well = true;
  for (const auto& [count, identity] : order) {
    const std::string hashes = identity.substr(std::min(identity.find('\n'), identity.size() - 1) + 1);
    clusters.push_back({{"runs", -count}, {"ending", endings[identity]}, {"outputs", hashes}});
    text += fmt::format("  {:>4} x {}  {}\n", -count, endings[identity], hashes.substr(0, 60));
    all_well = all_well && endings[identity] == "exited with 0";
  }
  text += fmt::format(
      "  the rate is below {:.3g} with 95% confidence; a fault of {} is missed by {} runs {:.0f}% of the time\n", upper,
      options.rate, found.runs, 100 * missed);
  if (!all_well) text += "  some runs did not end well\n";
  ordered_json document{{"runs", found.runs},
                        {"clusters", clusters},
                        {"differing", found.differing},
                        {"rate_upper_95", upper},
                        {"missed_probability", {{"rate", options.rate}, {"p", missed}}},
                        {"verdict", verdict},
                        {"ended_well", all_well}};
  if (*baseline) {
    document["baseline"] = {
        {"runs", (*baseline)->runs},
        {"differing", (*baseline)->differing},
        {"p", check::fisher_p((*baseline)->differing, (*baseline)->runs, found.differing, found.runs)}};
  }
  if (interrupt.requested()) return finish(options.json, document, text, kSignalled);
  return finish(options.json, document, text, verdict == "stable" && all_well ? kOk : kFailed);
}

// --- bisect
// -----------------------------------------------------------------------------------------------------------

struct BisectOptions {
  ProgramOptions program;
  std::string pass, fail;
  double error_rate = 0.05;
  JsonOption json;
};

using Settings = std::vector<std::pair<std::string, std::string>>;

Result<Settings> settings_of(const std::string& text, const std::string& option) {
  Settings settings;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("'{}': write KNOB=VALUE,KNOB=VALUE", part), option};
    }
    settings.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    at = end + 1;
  }
  return settings;
}

int bisect(const BisectOptions& options) {
  const auto pass = settings_of(options.pass, "--pass");
  if (!pass) return report(pass.error());
  const auto fail = settings_of(options.fail, "--fail");
  if (!fail) return report(fail.error());
  std::vector<std::size_t> differing;
  const bool same_knobs =
      pass->size() == fail->size() && std::equal(pass->begin(), pass->end(), fail->begin(),
                                                 [](const auto& a, const auto& b) { return a.first == b.first; });
  for (std::size_t i = 0; same_knobs && i < pass->size(); ++i) {
    if ((*pass)[i].second != (*fail)[i].second) differing.push_back(i);
  }
  if (differing.empty()) {
    return report({ErrorCode::kInvalidArgument,
                   "give the same knobs in the same order to --pass and --fail, with values that differ", ""});
  }
  const InterruptGuard interrupt;
  const auto scratch = TemporaryFolder::create();
  if (!scratch) return report(scratch.error());
  const auto fails = [&](const std::vector<std::size_t>& on) -> Result<bool> {
    Settings settings = *pass;
    for (const std::size_t i : on) settings[differing[i]].second = (*fail)[differing[i]].second;
    check::Program program = options.program.program;
    for (const auto& [name, value] : settings) {
      for (std::string& word : program.argv) {
        const std::string place = "${" + name + "}";
        for (std::size_t at = 0; (at = word.find(place, at)) != std::string::npos; at += value.size())
          word.replace(at, place.size(), value);
      }
      program.environment.emplace_back(name, value);
    }
    PINCH_ASSIGN(result,
                 check::run_program(program, scratch->path() + "/outputs", [&] { return interrupt.requested(); }));
    return !result.ended_well;
  };
  const auto result = check::bisect(differing.size(), options.error_rate, fails);
  if (!result) return result.error().code == ErrorCode::kInterrupted ? kSignalled : report(result.error());
  auto needed = ordered_json::array();
  std::string text = "these together make it fail, none can be left out:\n";
  for (const std::size_t i : result->needed) {
    const auto& [name, value] = (*fail)[differing[i]];
    needed.push_back({{"knob", name}, {"pass", (*pass)[differing[i]].second}, {"fail", value}});
    text += fmt::format("  {}={} (passes with {})\n", name, value, (*pass)[differing[i]].second);
  }
  text += fmt::format(
      "{} settings tried in {} runs; the failing one fails in {:.0f}% of its runs, so each was run {} times; "
      "probability of a wrong answer at most {:.2g}\n",
      result->tests, result->runs, 100 * result->failure_rate, result->repeats, result->error_rate);
  return finish(options.json,
                {{"needed", needed},
                 {"tests", result->tests},
                 {"runs", result->runs},
                 {"failure_rate", result->failure_rate},
                 {"repeats", result->repeats},
                 {"error_rate", result->error_rate}},
                text, kOk);
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("check", "Is a changed program still right, and does it agree with itself");
  command->footer(kCheckExamples);
  command->require_subcommand(0, 1);
  command->callback([command] {
    if (command->get_subcommands().empty()) throw CLI::RequiredError("record, compare, flake or bisect");
  });

  auto* recorder = command->add_subcommand("record", "Run a baseline and keep its outputs with their hashes");
  auto record_options = std::make_shared<RecordOptions>();
  recorder->add_option("--out", record_options->out, "Folder to write")->required()->type_name("FOLDER");
  record_options->program.add_to(*recorder);
  record_options->json.add_to(*recorder);
  recorder->callback([record_options, &status] { status = record(*record_options); });

  auto* comparer = command->add_subcommand("compare", "Hold a candidate's outputs against the baseline's");
  auto compare_options = std::make_shared<CompareOptions>();
  add_enum(*comparer, "--change", compare_options->change, {check::Change::kReorder, check::Change::kAlgebra},
           "What the change claims: reorder must be equal to the bit, algebra may not have a larger error");
  comparer->add_option("--baseline", compare_options->baseline, "File, or folder of `record`")
      ->required()
      ->type_name("A");
  comparer->add_option("--candidate", compare_options->candidate, "The same of the changed program")
      ->required()
      ->type_name("B");
  comparer
      ->add_option("--reference", compare_options->reference,
                   "The same in FP32 or FP64, what algebra is judged against")
      ->type_name("R");
  comparer->add_option("--tensor", compare_options->tensor, "Tensor of .safetensors files")->type_name("NAME");
  comparer->add_option("--dtype", compare_options->dtype, "Type of raw files")->type_name("TYPE");
  comparer->add_option("--shape", compare_options->shape, "Shape of raw files, as 64x128")->type_name("SHAPE");
  comparer
      ->add_option("--intermediate", compare_options->intermediate,
                   "Narrowest type that values pass through; default the output's")
      ->type_name("TYPE");
  comparer->add_option("--terms", compare_options->formats.terms, "Products summed for one element")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  compare_options->program.add_to(*comparer, "A program that makes the reference, after --, instead of --reference",
                                  /*required=*/false);
  compare_options->json.add_to(*comparer);
  comparer->callback([compare_options, &status] { status = compare(*compare_options); });

  auto* flaker = command->add_subcommand("flake", "Run a program often on the same inputs and count its results");
  auto flake_options = std::make_shared<FlakeOptions>();
  flaker->add_option("--runs", flake_options->runs, "How often; default what --rate and --confidence need")
      ->check(CLI::Range(1, 1'000'000));
  flaker->add_option("--rate", flake_options->rate, "Rate of a fault that must not stay hidden")
      ->check(CLI::Range(1e-6, 0.999))
      ->capture_default_str();
  flaker->add_option("--confidence", flake_options->confidence, "How surely it must show")
      ->check(CLI::Range(0.01, 0.999999))
      ->capture_default_str();
  flaker
      ->add_option("--baseline", flake_options->baseline,
                   "Document of an earlier `flake --json FILE` of the unchanged program")
      ->type_name("FILE");
  flake_options->program.add_to(*flaker);
  flake_options->json.add_to(*flaker);
  flaker->callback([flake_options, &status] { status = flake(*flake_options); });

  auto* bisecter = command->add_subcommand("bisect", "Find which of the settings that differ make a program fail");
  auto bisect_options = std::make_shared<BisectOptions>();
  bisecter->add_option("--pass", bisect_options->pass, "A setting that works: KNOB=VALUE,...")
      ->required()
      ->type_name("SETTING");
  bisecter->add_option("--fail", bisect_options->fail, "One that fails, of the same knobs")
      ->required()
      ->type_name("SETTING");
  bisecter
      ->add_option("--error-rate", bisect_options->error_rate,
                   "Probability of a wrong answer that is accepted for a flaky fault")
      ->check(CLI::Range(1e-6, 0.5))
      ->capture_default_str();
  bisect_options->program.add_to(*bisecter);
  bisect_options->json.add_to(*bisecter);
  bisecter->callback([bisect_options, &status] { status = bisect(*bisect_options); });
}

}  // namespace pinch::cli
