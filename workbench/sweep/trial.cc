#include "workbench/sweep/trial.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/core/json_text.h"
#include "src/core/subprocess.h"
#include "workbench/check/gate.h"
#include "workbench/check/sha256.h"

namespace pinch::sweep {
namespace {

using measure::Verdict;

Result<std::vector<double>> checked(std::vector<double> samples) {
  for (const double sample : samples) {
    if (!(std::isfinite(sample) && sample > 0)) {
      return Error{ErrorCode::kCorrupt, fmt::format("the metric is {}; a number above 0 is needed", sample), ""};
    }
  }
  if (samples.empty()) return Error{ErrorCode::kCorrupt, "the metric is an empty list", ""};
  return samples;
}

Result<std::vector<double>> number_in(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const char* begin = text.data() + std::min(first, text.size());
  double value = 0;
  if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc()) {
    return Error{ErrorCode::kCorrupt, fmt::format("the metric '{}' is no number", text.substr(0, 40)), ""};
  }
  return checked({value});
}

// The last line that is a JSON object with the key.
Result<std::vector<double>> json_metric(const Metric& metric, const std::string& out) {
  for (std::size_t end = out.size(); end > 0;) {
    const auto newline = out.rfind('\n', end - 1);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const std::string_view line = std::string_view(out).substr(begin, end - begin);
    end = newline == std::string::npos ? 0 : newline;
    if (line.find('{') == std::string_view::npos) continue;
    const auto document = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains(metric.name)) continue;
    if (const auto traced = document.find("instrumented"); traced != document.end() && *traced == true) {
      return Error{ErrorCode::kIllegal, "the program says that it is instrumented: its times rank nothing", ""};
    }
    const auto& value = document[metric.name];
    std::vector<double> samples;
    for (const auto& each : value.is_array() ? value : nlohmann::json::array({value})) {
      if (!each.is_number())
        return Error{ErrorCode::kCorrupt, fmt::format("the metric '{}' is no number", metric.name), ""};
      samples.push_back(each.get<double>());
    }
    return checked(std::move(samples));
  }
  return Error{ErrorCode::kNotFound, fmt::format("no line of stdout is a JSON object with \"{}\"", metric.name), ""};
}

std::string program_failure(const Finished& finished) {
  std::string text = finished.describe();
  if (finished.left_behind > 0) text += fmt::format(", leaving {} processes", finished.left_behind);
  return text;
}

Verdict verdict_of(const Finished& finished) {
  switch (finished.ending) {
    case Ending::kSignalled:
      return Verdict::kCrashed;
    case Ending::kTimedOut:
      return Verdict::kTimeout;
    case Ending::kOutOfMemory:
      return Verdict::kOutOfMemory;
    default:
      return finished.code == 0 ? Verdict::kOk : Verdict::kLaunchFailed;
  }
}

// The job's limits are Slurm's: the queue's waiting is no time of the program's.
void through_slurm(const Subject& subject, const std::string& token, Command& command) {
  const auto seconds = static_cast<long>(std::ceil(subject.timeout_s));
  std::vector<std::string> argv = {"srun",
                                   "--quiet",
                                   "--ntasks=1",
                                   "--unbuffered",
                                   "--chdir=" + subject.folder,
                                   "--job-name=" + token,
                                   fmt::format("--time={}:{:02}", seconds / 60, seconds % 60)};
  if (subject.memory_bytes > 0)
    argv.push_back(fmt::format("--mem={}M", std::max<std::uint64_t>(1, subject.memory_bytes >> 20)));
  if (subject.gpus > 0) argv.push_back(fmt::format("--gpus={}", subject.gpus));
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  command.argv = std::move(argv);
  command.timeout_s = 0;
  command.memory_bytes = 0;
}

// What srun's exit code and words say of the task.
void read_slurm(Finished& finished, const Subject& subject) {
  if (finished.succeeded()) return;
  const auto says = [&](std::string_view words) { return finished.err.find(words) != std::string::npos; };
  if (says("DUE TO TIME LIMIT")) {
    finished.ending = Ending::kTimedOut;
    finished.wall_s = subject.timeout_s;
  } else if (says("oom_kill") || says("oom-kill") || says("Out Of Memory")) {
    finished.ending = Ending::kOutOfMemory;
  } else if (finished.ending == Ending::kExited && finished.code > 128) {
    finished.ending = Ending::kSignalled;
    finished.signal = finished.code - 128;
  }
}

Result<check::Array> open_output(const Output& output, const Values& values, const std::string& folder) {
  std::optional<check::Array::Layout> raw;
  if (output.dtype) {
    PINCH_ASSIGN(shape, shape_of(output.shape, values));
    raw = check::Array::Layout{*output.dtype, std::move(shape)};
  }
  return check::Array::open(folder + "/" + output.file, output.tensor, raw);
}

}  // namespace

std::string readable(const std::string& bytes) {
  return nlohmann::json::parse(json_text(nlohmann::json(bytes))).get<std::string>();
}

Result<std::vector<double>> read_metric(const Metric& metric, const std::string& out, const std::string& outputs_folder,
                                        double wall_s) {
  switch (metric.kind) {
    case MetricKind::kWall:
      return std::vector<double>{wall_s};
    case MetricKind::kJson:
      return json_metric(metric, out);
    case MetricKind::kRegex: {
      const auto tail = std::string_view(out).substr(out.size() - std::min<std::size_t>(out.size(), 1 << 16));
      const auto number = metric.pattern->first_group(tail);
      if (!number) {
        return Error{ErrorCode::kNotFound,
                     fmt::format("stdout has nothing that matches '{}'", metric.pattern->expression()), ""};
      }
      return number_in(std::string(*number));
    }
    case MetricKind::kFile: {
      const std::string path = outputs_folder + "/" + metric.file;
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(path, ignored)) {  // a pipe would wait for ever, a device never ends
        return Error{ErrorCode::kNotFound, fmt::format("no regular file {} in PINCH_OUTPUTS", metric.file), ""};
      }
      std::ifstream file(path);
      std::string text(1 << 16, '\0');
      file.read(text.data(), static_cast<std::streamsize>(text.size()));
      text.resize(static_cast<std::size_t>(file.gcount()));
      return number_in(text);
    }
  }
  return Error{ErrorCode::kNotFound, "no metric", ""};
}

Result<Trial> run_trial(const Subject& subject, const Setting& setting, const std::function<bool()>& stop_requested) {
  Trial trial;
  const auto failed = [&](Verdict verdict, std::string detail) {
    trial.verdict = verdict;
    trial.detail = readable(detail);
    return trial;
  };
  Values values = setting.values;
  values["inputs"] = setting.inputs;
  values["outputs"] = setting.outputs;
  values["device"] = setting.device;
  values["binary"] = setting.binary;
  Command command;
  for (const std::string& word : subject.command) {
    auto text = substitute(word, values);
    if (!text.ok()) return failed(Verdict::kLaunchFailed, text.error().message());
    command.argv.push_back(std::move(*text));
  }
  command.folder = subject.folder;
  command.timeout_s = subject.timeout_s;
  command.memory_bytes = subject.memory_bytes;
  command.cpus = subject.cpus;
  command.environment = subject.environment;
  for (const Knob& knob : subject.knobs) {
    if (knob.kind == KnobKind::kEnv) command.environment.emplace_back(knob.target, to_string(values[knob.name]));
  }
  command.environment.emplace_back("PINCH_INPUTS", setting.inputs);
  command.environment.emplace_back("PINCH_OUTPUTS", setting.outputs);
  command.environment.emplace_back("PINCH_SWEEP", setting.token);
  if (!setting.device.empty()) {
    command.environment.emplace_back("PINCH_DEVICE", setting.device);
    command.environment.emplace_back("CUDA_VISIBLE_DEVICES", setting.device);
    command.environment.emplace_back("CUDA_DEVICE_ORDER", "PCI_BUS_ID");  // as nvidia-smi and the stored rows count
  }
  if (setting.poison) {
    command.environment.emplace_back("PINCH_POISON", "1");
    command.environment.emplace_back("MALLOC_PERTURB_", "165");
  }
  if (setting.engine == Engine::kSlurm) through_slurm(subject, setting.token, command);
  auto finished = run(command, stop_requested);
  if (!finished.ok()) return failed(Verdict::kLaunchFailed, finished.error().message());
  if (finished->ending == Ending::kStopped) {
    if (setting.engine == Engine::kSlurm) {  // a killed srun leaves its job
      Command cancel;
      cancel.argv = {"scancel", "--name=" + setting.token};
      cancel.timeout_s = 10;
      static_cast<void>(run(cancel));
    }
    return Error{ErrorCode::kInterrupted, "stopped", ""};
  }
  if (setting.engine == Engine::kSlurm) read_slurm(*finished, subject);
  trial.wall_s = finished->wall_s;
  trial.err = readable(finished->err);
  if (const Verdict verdict = verdict_of(*finished); verdict != Verdict::kOk) {
    return failed(verdict, program_failure(*finished));
  }
  if (finished->left_behind > 0)
    trial.detail = fmt::format("left {} processes, which were killed", finished->left_behind);
  std::error_code none;  // a link that leads in a circle is no file
  if (std::filesystem::symlink_status(setting.outputs, none).type() != std::filesystem::file_type::directory) {
    return failed(Verdict::kWrong, "PINCH_OUTPUTS is no folder any more; leave it where it is and write into it");
  }
  // The marks of pinch/trace.h and pinch/trace.cuh leave it where they are compiled in.
  if (std::filesystem::exists(setting.outputs + "/pinch_instrumented", none)) {
    return failed(Verdict::kWrong,
                  "instrumented: built with PINCH_TRACE_LEVEL above 0, whose times rank nothing; build it without");
  }
  auto samples = read_metric(subject.metric, finished->out, setting.outputs, finished->wall_s);
  if (!samples.ok()) return failed(Verdict::kWrong, "no metric: " + samples.error().message());
  trial.samples = std::move(*samples);
  hash_outputs(subject, values, setting.outputs, trial);
  return trial;
}

void hash_outputs(const Subject& subject, const Values& values, const std::string& folder, Trial& trial) {
  for (const Output& output : subject.outputs) {
    const auto array = open_output(output, values, folder);
    if (!array.ok()) {
      trial.verdict = Verdict::kWrong;
      trial.detail = fmt::format("output {}: {}", output.name, array.error().text);
      return;
    }
    trial.outputs[output.name] = check::sha256(array->view().bytes);
    if (const auto at = subject.nan_allowed ? std::nullopt : array->first_nan()) {
      trial.verdict = Verdict::kWrong;
      trial.detail = fmt::format("output {}: NaN at element {}; check.nan = true allows it", output.name, *at);
      return;
    }
  }
}

void judge_outputs(const Subject& subject, const Values& values, const std::string& folder,
                   const std::string& baseline_folder, Trial& trial) {
  for (const Output& output : subject.outputs) {
    const auto ours = open_output(output, values, folder);
    const auto theirs = open_output(output, values, baseline_folder);
    if (!ours.ok() || !theirs.ok()) {
      trial.verdict = Verdict::kWrong;
      trial.detail = fmt::format("output {}: {}", output.name, (ours.ok() ? theirs : ours).error().text);
      return;
    }
    const auto gate = check::judge(subject.change, *theirs, *ours, nullptr);
    if (gate.ok() && gate->passed) continue;
    trial.verdict = Verdict::kWrong;
    trial.detail =
        fmt::format("output {} against the default's: {}", output.name, gate.ok() ? gate->reason : gate.error().text);
    if (gate.ok() && gate->candidate.differing > 0) {
      const check::Difference& difference = gate->candidate;
      trial.detail += fmt::format("; worst at [{}]: {} instead of {}", fmt::join(difference.worst, ", "),
                                  difference.worst_a, difference.worst_b);
    }
    return;
  }
}

}  // namespace pinch::sweep
