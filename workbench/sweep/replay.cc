#include "workbench/sweep/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/core/file_error.h"

namespace pinch::sweep {
namespace {

using measure::Verdict;
using nlohmann::json;

Error broken(const std::string& path, std::string_view what) {
  return {ErrorCode::kCorrupt, fmt::format("is no cache file of Kernel Tuner: {}", what), path};
}

std::optional<Value> value_of(const json& node) {
  if (node.is_boolean()) return Value(node.get<bool>());
  if (node.is_number_integer()) return Value(node.get<std::int64_t>());
  if (node.is_number()) return Value(node.get<double>());
  if (node.is_string()) return Value(node.get<std::string>());
  return std::nullopt;
}

// A run that was cut off leaves the last brackets out, and perhaps a comma.
json parse_closed(std::string text) {
  json document = json::parse(text, nullptr, false);
  if (!document.is_discarded()) return document;
  while (!text.empty() && (std::isspace(static_cast<unsigned char>(text.back())) != 0 || text.back() == ','))
    text.pop_back();
  return json::parse(text + "}}", nullptr, false);
}

Trial trial_of(const json& entry, const std::string& objective) {
  Trial trial;
  const json& time = entry.contains(objective) ? entry[objective] : json();
  if (time.is_string()) {
    const std::string what = time.get<std::string>();
    trial.verdict = what == "InvalidConfig"             ? Verdict::kIllegal
                    : what == "CompilationFailedConfig" ? Verdict::kCompileFailed
                                                        : Verdict::kLaunchFailed;
    trial.detail = what;
    return trial;
  }
  if (time.is_number() && time.get<double>() > 0) trial.samples = {time.get<double>()};
  if (objective == "time" && entry.contains("times") && entry["times"].is_array()) {
    std::vector<double> times;
    for (const json& each : entry["times"]) {
      if (each.is_number() && each.get<double>() > 0) times.push_back(each.get<double>());
    }
    constexpr std::size_t kFewest = 3;
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    const bool of_them =
        trial.samples.empty() || (!times.empty() && *least <= trial.samples[0] && trial.samples[0] <= *most);
    if (times.size() >= kFewest && of_them) trial.samples.assign(times.begin() + 1, times.end());
  }
  if (trial.samples.empty()) {
    trial.verdict = Verdict::kWrong;
    trial.detail = fmt::format("no metric: '{}' is no number above 0", objective);
  }
  return trial;
}

}  // namespace

Result<Recording> read_recording(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return os_error(path, "be opened", errno);
  std::stringstream text;
  text << file.rdbuf();
  const json document = parse_closed(text.str());
  if (!document.is_object()) return broken(path, "it is not a JSON object");
  for (const char* key : {"tune_params_keys", "tune_params", "cache"}) {
    if (!document.contains(key)) return broken(path, fmt::format("\"{}\" is missing", key));
  }
  if (!document["tune_params_keys"].is_array() || !document["tune_params"].is_object() ||
      !document["cache"].is_object()) {
    return broken(path, "tune_params_keys is a list, tune_params and cache are objects");
  }
  Recording recording;
  Subject& subject = recording.subject;
  subject.file = path;
  const auto text_or = [&](const char* key, const char* otherwise) {  // some caches write null
    return document.contains(key) && document[key].is_string() ? document[key].get<std::string>() : otherwise;
  };
  subject.name = text_or("kernel_name", "recorded");
  recording.device = text_or("device_name", "");
  recording.absent.id = "recorded";
  recording.absent.reason = "not in the recording";
  subject.metric.kind = MetricKind::kJson;
  subject.metric.name = document.contains("objective") && document["objective"].is_string()
                            ? document["objective"].get<std::string>()
                            : "time";
  subject.metric.unit = subject.metric.name == "time" ? "ms" : "";
  subject.metric.lower_is_better = subject.metric.name.find("/s") == std::string::npos;
  for (const json& key : document["tune_params_keys"]) {
    if (!key.is_string() || !document["tune_params"].contains(key.get<std::string>())) {
      return broken(path, "tune_params has not the keys that tune_params_keys lists");
    }
    Knob knob;
    knob.name = key.get<std::string>();
    const json& values = document["tune_params"][knob.name];
    for (const json& each : values.is_array() ? values : json::array({values})) {
      const auto value = value_of(each);
      if (!value) return broken(path, fmt::format("a value of {} is no number, text or boolean", knob.name));
      knob.values.push_back(*value);
    }
    if (knob.values.empty()) return broken(path, fmt::format("{} has no values", knob.name));
    subject.knobs.push_back(std::move(knob));
  }
  const Space space(subject, {});
  std::optional<Choice> first;
  for (const auto& [name, entry] : document["cache"].items()) {
    Choice choice;
    for (const Knob& knob : subject.knobs) {
      const auto value = entry.is_object() && entry.contains(knob.name) ? value_of(entry[knob.name]) : std::nullopt;
      const auto found = std::find_if(knob.values.begin(), knob.values.end(),
                                      [&](const Value& each) { return value && same(each, *value); });
      if (found == knob.values.end())
        return broken(path, fmt::format("entry {} has no listed value of {}", quote_name(name), knob.name));
      choice.push_back(static_cast<std::uint32_t>(found - knob.values.begin()));
    }
    Trial trial = trial_of(entry, subject.metric.name);
    if (trial.verdict == Verdict::kOk && (!first || choice < *first)) first = choice;
    recording.trials[space.text(choice)] = std::move(trial);
    recording.choices.push_back(std::move(choice));
  }
  std::sort(recording.choices.begin(), recording.choices.end());
  recording.choices.erase(std::unique(recording.choices.begin(), recording.choices.end()), recording.choices.end());
  if (!first) return broken(path, "no configuration in it has a time");
  // Kernel Tuner has no default: the first configuration that worked stands for it.
  for (std::size_t i = 0; i < subject.knobs.size(); ++i) subject.knobs[i].standard = (*first)[i];
  return recording;
}

Result<std::vector<Choice>> ReplayExecutor::points(const Space& space, const Subject& subject, ProblemResult& result) {
  std::vector<Choice> list = recording_.choices;
  const auto standard = std::find(list.begin(), list.end(), space.standard());
  std::rotate(list.begin(), standard, standard + 1);
  result.combinations = space.raw_size();
  result.legal = list.size();
  const double absent = result.combinations - static_cast<double>(list.size());
  if (absent > 0) result.excluded.push_back({&recording_.absent, absent});
  PINCH_TRY(each_row(space, subject, [&](const Choice& choice) -> Result<void> {
    const bool there = std::binary_search(recording_.choices.begin(), recording_.choices.end(), choice);
    if (!there) result.refused.push_back({choice, space.text(choice), &recording_.absent});
    return {};
  }));
  return list;
}

Result<Trial> ReplayExecutor::run(const Space& space, const Choice& choice, const TrialKey& key) {
  Trial trial = recording_.trials.find(space.text(choice))->second;
  if (trial.samples.size() > 1) {
    // A round takes the next sample, the default's twin the one half the list later.
    const std::size_t shift = key.role == Role::kSample ? 0 : trial.samples.size() / 2;
    const std::size_t at = (static_cast<std::size_t>(key.round) + shift) % trial.samples.size();
    trial.samples = {trial.samples[at]};
  }
  return trial;
}

}  // namespace pinch::sweep
