// The command line: one file a subcommand. Results go to stdout, progress and prose to stderr.
#include <fmt/core.h>

#include <exception>
#include <new>

#include "apps/pinch/cli.h"

int main(int argc, char** argv) {
  using namespace pinch::cli;
  CLI::App app("Finds what pinches a low-precision kernel, picks its launch tactic, tunes it and proves every change.",
               "pinch");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 ok, 1 a check or gate failed, 2 usage, 3 environment (no GPU, no tool, no permission).");
  int status = kOk;
  add_version(app, status);
  try {
    app.parse(argc, argv);
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
