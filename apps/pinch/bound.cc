// pinch bound: from counts of instructions and a machine model to cycles by unit, and what bounds next.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "apps/pinch/cli.h"
#include "workbench/probe/bound.h"

namespace pinch::cli {
namespace {

struct BoundOptions {
  std::string machine, counts, sass, kernel;
  std::optional<int> loop;  ///< the first
  std::vector<std::string> moves;
  JsonOption json;
};

Result<std::string> read_text(const std::string& path, const char* otherwise) {
  if (std::filesystem::is_directory(path))
    return Error{ErrorCode::kNotFound, fmt::format("is a folder; give {}", otherwise), path};
  std::ifstream file(path);
  if (!file) return Error{ErrorCode::kNotFound, fmt::format("cannot be read; give {}", otherwise), path};
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// An architecture that the program carries ("sm_90a"), or a file of either schema.
Result<probe::Bound> bound_on(const std::string& machine, const probe::Counts& counts, int sub_partitions) {
  if (machine.rfind("sm_", 0) == 0) {
    const auto rates = sass::Machine::of(machine);
    if (!rates) return Error{ErrorCode::kInvalidArgument, rates.error().text, "--machine"};
    return probe::bound(counts, **rates, sub_partitions);
  }
  PINCH_ASSIGN(text, read_text(machine, "sm_80, sm_90a, sm_100a, sm_103a, or a file that `pinch probe --out` wrote"));
  if (text.find("\"pinch-gpu-rates/1\"") != std::string::npos) {
    PINCH_ASSIGN(rates, sass::Machine::parse(text, machine));
    return probe::bound(counts, rates, sub_partitions);
  }
  if (text.find("\"pinch-machine/1\"") != std::string::npos)
    return Error{ErrorCode::kInvalidArgument,
                 "holds constants of a kernel's time, not rates of instructions; give a file that `pinch probe --out` "
                 "wrote, as data/machines/h200-rates.json is",
                 machine};
  PINCH_ASSIGN(model, probe::parse_model(text, machine));
  return probe::bound(counts, model, sub_partitions);
}

// A name without a rate that was typed, and is not in `noted` already, is an error that names what exists.
Result<probe::Bound> bound_typed(const std::string& machine, const probe::Counts& counts, int sub_partitions,
                                 const std::vector<std::string>& noted) {
  PINCH_ASSIGN(result, bound_on(machine, counts, sub_partitions));
  for (const std::string& name : result.without_rate) {
    if (std::find(noted.begin(), noted.end(), name) == noted.end())
      return bound_on(machine, {{name, 1}}, sub_partitions).error();
  }
  return result;
}

nlohmann::ordered_json to_json(const probe::Bound& bound) {
  auto units = nlohmann::ordered_json::object(), next = nlohmann::ordered_json::array();
  for (const auto& [name, cycles] : bound.units) units[name] = cycles;
  for (const auto& step : bound.next)
    next.push_back({{"relieved", step.relieved}, {"bound_by", step.by}, {"bound_cycles", step.cycles}});
  nlohmann::ordered_json document{
      {"units", units}, {"bound_by", bound.by}, {"bound_cycles", bound.cycles}, {"next", next}};
  if (!bound.counted_as.empty()) document["counted_as"] = bound.counted_as;
  for (const auto& [name, list] : {std::pair("without_rate", &bound.without_rate),
                                   {"rates_as_stated", &bound.rates_as_stated},
                                   {"units_as_stated", &bound.units_as_stated},
                                   {"sharing_unknown", &bound.sharing_unknown}}) {
    if (!list->empty()) document[name] = *list;
  }
  return document;
}

std::vector<std::string> notes_of(const probe::Bound& bound) {
  std::vector<std::string> notes;
  for (const auto& [name, entry] : bound.counted_as) notes.push_back(fmt::format("{} counted as {}", name, entry));
  const auto add = [&](const std::vector<std::string>& names, const char* note) {
    for (const std::string& name : names) notes.push_back(name + note);
  };
  const bool has_issue = bound.units.count("issue") > 0;
  add(bound.without_rate, has_issue ? " has no rate: its issue slots alone count" : " has no rate: it counts nothing");
  add(bound.rates_as_stated, " has no measured rate of its own: it costs what is stated for the architecture");
  add(bound.units_as_stated, " is of the unit that is stated for the architecture; no pair shows it");
  add(bound.sharing_unknown, ": no pair decides whether they share a unit; added up apart, which may be too low");
  return notes;
}

void print(const probe::Bound& bound) {
  for (const auto& [name, cycles] : bound.units)
    fmt::print("{:<14} {:>10.1f} cycles{}\n", name, cycles, name == bound.by ? "  <- bound" : "");
  for (const std::string& note : notes_of(bound)) fmt::print("{}\n", note);
  for (const auto& step : bound.next)
    fmt::print("without {}: {:.1f} cycles, bound by {}\n", step.relieved, step.cycles, step.by);
}

// The bound as given and after each of the moves, which add up; `move` returns the bound that one leaves.
int run_moves(const BoundOptions& options, const probe::Bound& before,
              const std::function<Result<probe::Bound>(const std::string&)>& move) {
  auto document = to_json(before);
  auto moves = nlohmann::ordered_json::array();
  std::string lines;
  std::vector<std::string> known = notes_of(before);
  for (const std::string& text : options.moves) {
    const auto after = move(text);
    if (!after) return report(after.error());
    lines += fmt::format("moving {}: {:.1f} -> {:.1f} cycles, then bound by {}\n", text, before.cycles, after->cycles,
                         after->by);
    for (const std::string& note : notes_of(*after)) {
      if (std::find(known.begin(), known.end(), note) != known.end()) continue;
      lines += note + "\n";
      known.push_back(note);
    }
    auto entry = to_json(*after);
    entry["move"] = text;
    moves.push_back(std::move(entry));
  }
  if (!options.json.on_stdout()) {
    print(before);
    fmt::print("{}", lines);
  }
  if (!moves.empty()) document["moves"] = moves;
  const auto written = options.json.write(document);
  return written ? static_cast<int>(kOk) : report(written.error());
}

// Counts that were typed or are a loop's, by the rates of --machine.
int run_counts(const BoundOptions& options, probe::Counts counts, int sub_partitions) {
  const auto before = options.sass.empty() ? bound_typed(options.machine, counts, sub_partitions, {})
                                           : bound_on(options.machine, counts, sub_partitions);
  if (!before) return report(before.error());
  return run_moves(options, *before, [&](const std::string& move) -> Result<probe::Bound> {
    PINCH_ASSIGN(moved, probe::move_counts(counts, move));
    counts = std::move(moved);
    return bound_typed(options.machine, counts, sub_partitions, before->without_rate);
  });
}

// One loop that `pinch sass` reported, whose cycles by pipe it holds; or its counts on another machine.
int run_loop(const BoundOptions& options) {
  const auto text = read_text(options.sass, "a document of `pinch sass FILE --json`");
  if (!text) return report(text.error());
  auto loop = probe::loop_cost(*text, options.sass, options.kernel, options.loop.value_or(0));
  if (!loop) return report(loop.error());
  if (!options.machine.empty()) return run_counts(options, loop->counts, loop->sub_partitions);
  return run_moves(options, probe::bound(*loop), [&](const std::string& move) -> Result<probe::Bound> {
    PINCH_ASSIGN(moved, probe::move_in_loop(*loop, move));
    *loop = std::move(moved);
    return probe::bound(*loop);
  });
}

int run(const BoundOptions& options) {
  if (!options.sass.empty()) return run_loop(options);
  if (!options.kernel.empty() || options.loop)
    return report({ErrorCode::kInvalidArgument, "--kernel and --loop are of a document; give --sass too", ""});
  if (options.machine.empty() || options.counts.empty())
    return report({ErrorCode::kInvalidArgument, "give --machine and --counts, or --sass and --kernel", ""});
  auto counts = probe::parse_counts(options.counts);
  if (!counts) return report(counts.error());
  return run_counts(options, std::move(*counts), sass::kSubPartitions);
}

}  // namespace

void add_bound(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("bound", "Turn counts of instructions into cycles by unit, with a machine model");
  auto options = std::make_shared<BoundOptions>();
  auto* machine =
      command->add_option("--machine", options->machine, "sm_80, sm_90a, sm_100a, sm_103a, or a machine model file");
  machine->type_name("ARCH|FILE");
  auto* counts = command->add_option(
      "--counts", options->counts, "Warp instructions of one sub-partition, or those of a core: MUFU.EX2=128,F2FP=64");
  counts->type_name("NAME=N,...");
  command
      ->add_option("--sass", options->sass,
                   "Instead: a document of `pinch sass --json`; with --machine, its counts by those rates")
      ->type_name("FILE")
      ->excludes(counts);
  command->add_option("--kernel", options->kernel, "Kernel of that document")->type_name("NAME");
  command->add_option("--loop", options->loop, "Loop of that kernel, from 0 (default 0)");
  command
      ->add_option("--move", options->moves,
                   "FROM:PERCENT:TO=N: what moving PERCENT of FROM to N of TO each would leave")
      ->type_name("FROM:PERCENT:TO=N");
  options->json.add_to(*command);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace pinch::cli
