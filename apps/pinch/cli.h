// What every subcommand shares: where results go, how errors end the program, and how a subcommand registers itself.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "pinch/result.h"

namespace pinch::cli {

// 0 ok, 1 a check or gate failed, 2 usage, 3 environment (no GPU, no tool, no permission).
enum ExitCode : int { kOk = 0, kFailed = 1, kUsage = 2, kEnvironment = 3, kSignalled = 130 };

ExitCode exit_code(ErrorCode code);

/// Prints "pinch: error: ..." to stderr and returns the exit code of the error.
[[nodiscard]] int report(const Error& error);

/// Whether a file can be written there, asked before work of which it is to hold the result. Errors: kInvalidArgument
/// for a folder, kIo.
Result<void> may_write(const std::string& path);

/// A result into a file that the user named, whole or not at all. `what`: "JSON". Error: kIo, since the result is fine.
Result<void> write_result(const std::string& path, std::string_view text, std::string_view what);

/// The --json option of a subcommand, or another that takes a JSON document: absent, a file, or "-" for stdout.
class JsonOption {
 public:
  void add_to(CLI::App& command, const std::string& option = "--json",
              const std::string& about = "Write the result as JSON to FILE, or to stdout with -");
  [[nodiscard]] bool given() const { return !path_.empty(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// True when JSON goes to stdout, so that the table for people goes to stderr.
  [[nodiscard]] bool on_stdout() const { return path_ == "-"; }
  /// Of its file, if it goes to one.
  [[nodiscard]] Result<void> may_write() const {
    return given() && !on_stdout() ? cli::may_write(path_) : Result<void>();
  }
  /// Writes the document whole, by rename for files. Does nothing where --json was not given.
  Result<void> write(const nlohmann::ordered_json& document) const;

 private:
  std::string path_;
};

/// The folder of this project's sources: $PINCH_SOURCE, else where this program was built.
std::string project_sources();

/// A subcommand sets `status` to its exit code when it has run.
void add_bench(CLI::App& app, int& status);
void add_bound(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_gate(CLI::App& app, int& status);
void add_generate(CLI::App& app, int& status);
void add_probe(CLI::App& app, int& status);
void add_quantize(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_sass(CLI::App& app, int& status);
void add_sweep(CLI::App& app, int& status);
void add_tactics(CLI::App& app, int& status);
void add_trace(CLI::App& app, int& status);
void add_tune(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);

}  // namespace pinch::cli
