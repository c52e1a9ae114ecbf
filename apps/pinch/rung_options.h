// Which rungs of the ladder a command climbs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "workbench/ladder/finding.h"

namespace pinch::cli {

struct RungOptions {
  std::string until;
  std::vector<std::string> only, skip;

  /// --until --only --skip
  void add_to(CLI::App& command) {
    command.add_option("--until", until, "Climb to this rung and no further")->type_name("RUNG");
    command.add_option("--only", only, "Climb these rungs alone, as in throughput,tactic")
        ->type_name("RUNG")
        ->delimiter(',');
    command.add_option("--skip", skip, "Leave these rungs out")->type_name("RUNG")->delimiter(',');
  }
  [[nodiscard]] Result<ladder::Selection> selection() const { return ladder::Selection::create(until, only, skip); }
};

}  // namespace pinch::cli
