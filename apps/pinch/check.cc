// pinch check: a baseline is kept, how often does a program differ from itself, and which setting did it.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/check_options.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/progress_bar.h"
#include "src/core/temporary_folder.h"
#include "workbench/check/bisect.h"
#include "workbench/check/flake.h"
#include "workbench/check/program.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kCheckExamples = R"(Examples:
  pinch check record --out baseline --inputs inputs -- ./kernel
  pinch check compare --change reorder --baseline baseline --candidate changed
  pinch check compare --change algebra --baseline a.npy --candidate b.npy --reference fp64.npy
  pinch check compare --change algebra --baseline baseline --candidate changed --inputs inputs -- ./kernel_in_fp64
  pinch check flake --rate 0.05 --confidence 0.95 -- ./kernel
  pinch check bisect --pass tile=16,stages=1 --fail tile=64,stages=3 -- ./kernel --tile '${tile}' '${stages}'

The program finds its inputs in $PINCH_INPUTS and leaves its outputs in $PINCH_OUTPUTS; without files there its stdout counts.)";

// --- record

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
  return finish_check(options.json, *manifest, text, kOk);
}

// --- flake

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
  if (interrupt.requested()) return finish_check(options.json, document, text, kSignalled);
  return finish_check(options.json, document, text, verdict == "stable" && all_well ? kOk : kFailed);
}

// --- bisect

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
  return finish_check(options.json,
                      {{"needed", needed},
                       {"tests", result->tests},
                       {"runs", result->runs},
                       {"failure_rate", result->failure_rate},
                       {"repeats", result->repeats},
                       {"error_rate", result->error_rate}},
                      text, kOk);
}

}  // namespace

int finish_check(const JsonOption& json, const ordered_json& document, const std::string& text, int status) {
  fmt::print(json.on_stdout() ? stderr : stdout, "{}", text);
  std::fflush(stdout);
  const auto written = json.write(document);
  return written ? status : report(written.error());
}

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

  add_check_compare(*command, status);

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
