#include "workbench/check/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "src/core/subprocess.h"
#include "workbench/check/environment.h"
#include "workbench/check/sha256.h"

namespace pinch::check {

namespace fs = std::filesystem;

std::string program_file(const std::string& name, const std::string& folder) {
  std::error_code ignored;
  if (name.find('/') != std::string::npos) {
    const std::string file = folder.empty() || name.front() == '/' ? name : folder + "/" + name;
    return fs::is_regular_file(file, ignored) ? file : "";
  }
  const char* variable = std::getenv("PATH");
  const std::string path = variable == nullptr ? "" : variable;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string file = path.substr(at, end - at) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file, ignored)) return file;
    at = end + 1;
  }
  return {};
}

std::string ProgramRun::identity() const {
  std::string text = ending;
  for (const auto& [name, hash] : outputs) text += fmt::format("\n{} {}", name, hash);
  return text;
}

Result<std::map<std::string, std::string>> hash_folder(const std::string& folder) {
  std::map<std::string, std::string> hashes;
  if (folder.empty()) return hashes;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (!at->is_regular_file()) continue;
    PINCH_ASSIGN(hash, sha256_file(at->path()));
    hashes[at->path().lexically_relative(folder)] = hash;
  }
  if (failed) {
    const bool absent = failed == std::errc::no_such_file_or_directory;
    return Error{absent ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot be read: " + failed.message(), folder};
  }
  return hashes;
}

Result<ProgramRun> run_program(const Program& program, const std::string& outputs,
                               const std::function<bool()>& stop_requested) {
  std::error_code failed;
  fs::remove_all(outputs, failed);
  fs::create_directories(outputs, failed);
  if (failed) return Error{ErrorCode::kIo, "cannot be created: " + failed.message(), outputs};
  Command command;
  command.argv = program.argv;
  command.timeout_s = program.timeout_s;
  command.environment = program.environment;
  command.environment.emplace_back("PINCH_OUTPUTS", fs::absolute(outputs, failed).string());
  if (!program.inputs.empty()) {
    command.environment.emplace_back("PINCH_INPUTS", fs::absolute(program.inputs, failed).string());
  }
  PINCH_ASSIGN(finished, run(command, stop_requested));
  if (finished.ending == Ending::kStopped) return Error{ErrorCode::kInterrupted, "stopped", ""};
  ProgramRun result;
  result.ended_well = finished.succeeded();
  // Without the figures that differ from run to run: endings are compared.
  result.ending = finished.ending == Ending::kTimedOut      ? fmt::format("no end after {:.3g} s", program.timeout_s)
                  : finished.ending == Ending::kOutOfMemory ? "out of memory"
                                                            : finished.describe();
  result.err = finished.err;
  PINCH_ASSIGN(hashes, hash_folder(outputs));
  result.outputs = std::move(hashes);
  if (result.outputs.empty()) result.outputs["stdout"] = sha256(finished.out);
  return result;
}

Result<nlohmann::ordered_json> record(const Program& program, const std::string& folder,
                                      const std::function<bool()>& stop_requested) {
  PINCH_ASSIGN(inputs, hash_folder(program.inputs));
  PINCH_ASSIGN(result, run_program(program, folder + "/outputs", stop_requested));
  if (!result.ended_well) {
    return Error{ErrorCode::kIllegal, fmt::format("the baseline {}\n{}", result.ending, result.err),
                 program.argv.front()};
  }
  nlohmann::ordered_json variables = run_variables();
  for (const auto& [name, value] : program.environment) variables[name] = value;
  const std::string file = program_file(program.argv.front());
  std::string binary;
  if (!file.empty()) {
    PINCH_ASSIGN(hash, sha256_file(file));
    binary = hash;
  }
  std::tm now = {};
  const std::time_t seconds = std::time(nullptr);
  ::gmtime_r(&seconds, &now);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &now);
  nlohmann::ordered_json manifest{
      {"command", program.argv},      {"recorded_at", stamp},   {"program", {{"file", file}, {"sha256", binary}}},
      {"environment", environment()}, {"variables", variables}, {"inputs", inputs},
      {"outputs", result.outputs}};
  const std::string path = folder + "/manifest.json";
  std::ofstream out(path);
  out << manifest.dump(2) << '\n';
  if (!out.flush()) return Error{ErrorCode::kIo, "cannot be written", path};
  return manifest;
}

}  // namespace pinch::check
