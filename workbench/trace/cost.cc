#include "workbench/trace/cost.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "src/core/subprocess.h"
#include "workbench/measure/statistics.h"
#include "workbench/trace/reader.h"

namespace pinch::trace {
namespace {

constexpr std::string_view kPlace = "${level}";

const LevelTimes& times_of(const Cost& cost, Level level) {
  return cost.times[static_cast<std::size_t>(level)];
}

// Of each round, so that drift cancels.
std::vector<double> ratios_of(const Cost& cost, Level level) {
  const auto &base = times_of(cost, Level::kOff).ns, &with = times_of(cost, level).ns;
  std::vector<double> ratios;
  for (std::size_t i = 0; with.size() == base.size() && i < base.size(); ++i) ratios.push_back(with[i] / base[i]);
  return ratios;
}

std::string with_level(std::string word, std::string_view level) {
  for (std::size_t at = 0; (at = word.find(kPlace, at)) != std::string::npos; at += level.size())
    word.replace(at, kPlace.size(), level);
  return word;
}

bool names_level(const Program& program) {
  return std::any_of(program.argv.begin(), program.argv.end(),
                     [](const std::string& word) { return word.find(kPlace) != std::string::npos; });
}

struct OneRun {
  double ns = 0;
  bool own_times = false;
  Level level = Level::kOff;
};

// Runs one level; its file is `path`.
Result<OneRun> run_once(const Program& program, Level level, const std::string& path,
                        const std::function<bool()>& stop_requested) {
  Command command;
  for (const std::string& word : program.argv) command.argv.push_back(with_level(word, to_string(level)));
  command.environment = {{"PINCH_TRACE_FILE", path}, {"PINCH_TRACE", std::string(to_string(level))}};
  command.timeout_s = program.timeout_s;
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  PINCH_ASSIGN(finished, run(command, stop_requested));
  if (finished.ending == Ending::kStopped) return Error{ErrorCode::kInterrupted, "interrupted", ""};
  if (!finished.succeeded()) {
    return Error{ErrorCode::kIllegal,
                 fmt::format("{}; a program must end well to be traced. Its last words: {}", finished.describe(),
                             finished.err.empty() ? "none" : finished.err),
                 command.argv.front()};
  }
  OneRun once;
  once.ns = finished.wall_s * 1e9;
  if (!std::filesystem::exists(path)) {
    if (level == Level::kOff) return once;
    return Error{ErrorCode::kInvalidArgument,
                 "the program ended well and wrote no trace to $PINCH_TRACE_FILE; open a pinch::trace::Session "
                 "(pinch/trace.h) or CudaSession (pinch/trace.cuh) and let it end",
                 command.argv.front()};
  }
  PINCH_ASSIGN(file, TraceFile::open(path));
  once.level = file.level();
  if (!file.run_ns().empty()) {
    std::vector<double> ns(file.run_ns().begin(), file.run_ns().end());
    once.ns = measure::summarize(std::move(ns)).median;
    once.own_times = true;
  }
  return once;
}

}  // namespace

std::optional<double> Cost::inflation(Level level) const {
  std::vector<double> ratios = ratios_of(*this, level);
  if (ratios.empty()) return std::nullopt;
  return measure::summarize(std::move(ratios)).median - 1;
}

measure::Interval Cost::inflation_interval(Level level) const {
  std::vector<double> ratios = ratios_of(*this, level);
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const measure::Interval interval = measure::median_interval(ratios);
  return {interval.low - 1, interval.high - 1};
}

double Cost::noise() const {
  return measure::relative_noise(times_of(*this, Level::kOff).ns);
}

bool Cost::absolute() const {
  const auto coarse = inflation(Level::kCoarse);
  return coarse && *coarse <= kMostInflation;
}

Result<Cost> measure_cost(int rounds, const std::function<Result<double>(Level)>& time) {
  Cost cost;
  constexpr int kLevels = 3;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kLevels; ++i) {
      const int at = (round + i) % kLevels;
      LevelTimes& times = cost.times[static_cast<std::size_t>(at)];
      if (!times.why.empty()) continue;
      const auto ns = time(static_cast<Level>(at));
      if (ns) {
        times.ns.push_back(*ns);
      } else if (ns.error().code == ErrorCode::kNotFound || ns.error().code == ErrorCode::kUnsupported) {
        times.ns.clear();
        times.why = ns.error().message();
      } else {
        return ns.error();
      }
    }
  }
  return cost;
}

Result<Traced> trace_program(const Program& program, const std::string& folder,
                             const std::function<bool()>& stop_requested) {
  Traced traced;
  const auto path_of = [&](Level level) { return folder + "/" + std::string(to_string(level)) + ".trace"; };
  if (!names_level(program)) {
    traced.path = path_of(program.level);
    PINCH_ASSIGN(once, run_once(program, program.level, traced.path, stop_requested));
    traced.cost.timed_by = once.own_times ? "runs" : "process";
    traced.cost.times[static_cast<std::size_t>(once.level)].ns.push_back(once.ns);
    for (LevelTimes& times : traced.cost.times) {
      if (times.ns.empty()) times.why = "the command names no ${level}, so one build ran";
    }
    return traced;
  }
  bool own_times = true;
  auto cost = measure_cost(program.rounds, [&](Level level) -> Result<double> {
    PINCH_ASSIGN(once, run_once(program, level, path_of(level), stop_requested));
    if (once.level != level) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("asked for the {} build and got a {} one; compile it with -DPINCH_TRACE_LEVEL={}",
                               to_string(level), to_string(once.level), static_cast<int>(level)),
                   with_level(program.argv.front(), to_string(level))};
    }
    own_times = own_times && once.own_times;
    return once.ns;
  });
  if (!cost) return cost.error();
  traced.cost = std::move(*cost);
  traced.cost.timed_by = own_times ? "runs" : "process";
  const LevelTimes& wanted = times_of(traced.cost, program.level);
  if (wanted.ns.empty()) return Error{ErrorCode::kNotFound, wanted.why, std::string(to_string(program.level))};
  traced.path = path_of(program.level);
  return traced;
}

}  // namespace pinch::trace
