// pinch tactics cliff.
#pragma once

#include <CLI/CLI.hpp>

namespace pinch::cli {

/// Adds the subcommand to `tactics`.
void add_tactics_cliff(CLI::App& tactics, int& status);

}  // namespace pinch::cli
