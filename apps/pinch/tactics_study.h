// pinch tactics study.
#pragma once

#include <CLI/CLI.hpp>

namespace pinch::cli {

void add_tactics_study(CLI::App& tactics, int& status);

}  // namespace pinch::cli
