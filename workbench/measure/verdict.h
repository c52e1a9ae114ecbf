// What became of one candidate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace pinch::measure {

enum class Verdict : std::uint8_t {
  kOk,
  kIllegal,  ///< refused by a named rule
  kCompileFailed,
  kLaunchFailed,  ///< refused at its first or a later call
  kWrong,         ///< its result differs from the reference: never timed
  kUnstable,      ///< too few of its samples had the machine
  kTimeout,       ///< the budget ended before it was timed
  kCrashed,
  kOutOfMemory,
};

inline constexpr std::array<std::pair<Verdict, std::string_view>, 9> kVerdictNames = {{
    {Verdict::kOk, "ok"},
    {Verdict::kIllegal, "illegal"},
    {Verdict::kCompileFailed, "compile_failed"},
    {Verdict::kLaunchFailed, "launch_failed"},
    {Verdict::kWrong, "wrong"},
    {Verdict::kUnstable, "unstable"},
    {Verdict::kTimeout, "timeout"},
    {Verdict::kCrashed, "crashed"},
    {Verdict::kOutOfMemory, "out_of_memory"},
}};

constexpr std::string_view to_string(Verdict verdict) {
  for (const auto& [value, name] : kVerdictNames) {
    if (value == verdict) return name;
  }
  return "unknown";
}
constexpr std::optional<Verdict> parse_verdict(std::string_view text) {
  for (const auto& [value, name] : kVerdictNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace pinch::measure
