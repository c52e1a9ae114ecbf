#include "pinch/version.h"

#include <fmt/core.h>

#include <memory>

#include "apps/pinch/cli.h"

namespace pinch::cli {

void add_version(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("version", "Print the version, the source revision and the compiler");
  auto json = std::make_shared<JsonOption>();
  json->add_to(*command);
  command->callback([json, &status] {
    if (!json->on_stdout()) fmt::print("pinch {} ({}, {})\n", version(), git_sha(), compiler());
    const auto written =
        json->write({{"name", "pinch"}, {"version", version()}, {"git_sha", git_sha()}, {"compiler", compiler()}});
    status = written ? kOk : report(written.error());
  });
}

}  // namespace pinch::cli
