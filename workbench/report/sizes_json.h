// A problem as JSON, shared by the reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "workbench/ladder/task.h"

namespace pinch::report {

/// The sizes of the work by name, then "threads" and "sm_count".
inline nlohmann::ordered_json sizes_json(const ladder::Work& work, const Resources& resources) {
  nlohmann::ordered_json problem;
  for (const auto& [name, value] : work.sizes) {
    std::visit([&, key = std::string(name)](const auto& held) { problem[key] = held; }, value);
  }
  problem["threads"] = resources.threads;
  problem["sm_count"] = resources.sm_count;
  return problem;
}

}  // namespace pinch::report
