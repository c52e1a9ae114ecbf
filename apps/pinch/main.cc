// The command line: one file a subcommand. Results go to stdout, progress and prose to stderr.
#include <fmt/core.h>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "src/core/nearest.h"

namespace {

// The command as far as it was understood, what was not, and the nearest subcommands.
std::string unknown_argument(CLI::App& app) {
  CLI::App* command = &app;
  std::string path = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  const auto rest = app.remaining(/*recurse=*/true);
  const std::string given = rest.empty() ? "" : rest.front();
  std::vector<std::string> names;
  if (given.rfind('-', 0) == 0) {
    for (const auto* option : command->get_options()) names.push_back("--" + option->get_single_name());
  } else {
    for (const auto* subcommand : command->get_subcommands({})) names.push_back(subcommand->get_name());
  }
  return fmt::format("{}: unknown argument '{}'; {} See {} --help.", path, given, pinch::did_you_mean(given, names),
                     path);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pinch::cli;
  CLI::App app("Finds what pinches a low-precision kernel, picks its launch tactic, tunes it and proves every change.",
               "pinch");
  app.require_subcommand(0, 1);  // "exactly one" would hide which word was not understood
  app.footer("Exit codes: 0 ok, 1 a check or gate failed, 2 usage, 3 environment (no GPU, no tool, no permission).");
  int status = kOk;
  add_bench(app, status);
  add_bound(app, status);
  add_check(app, status);
  add_gate(app, status);
  add_probe(app, status);
  add_quantize(app, status);
  add_report(app, status);
  add_sass(app, status);
  add_sweep(app, status);
  add_tactics(app, status);
  add_trace(app, status);
  add_tune(app, status);
  add_version(app, status);
  add_generate(app, status);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ExtrasError&) {
    fmt::print(stderr, "pinch: error: {}\n", unknown_argument(app));
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  } catch (const std::bad_alloc&) {
    return report({pinch::ErrorCode::kOutOfMemory, "not enough memory for this problem; give smaller sizes", ""});
  } catch (const std::exception& error) {
    fmt::print(stderr, "pinch: internal error: {}\n", error.what());
    return kEnvironment;
  }
  return status;
}
