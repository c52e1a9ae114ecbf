#include "workbench/check/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "src/core/file_error.h"
#include "src/core/json_text.h"
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
    std::error_code none;  // a link that leads in a circle is no file
    if (!at->is_regular_file(none)) continue;
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
  Sha256 out;
  std::ofstream kept;
  if (!program.stdout_file.empty()) kept.open(program.stdout_file, std::ios::binary);
  command.stdout_seen = [&](std::string_view piece) {
    out.add(piece);
    if (kept.is_open()) kept.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  };
  PINCH_ASSIGN(finished, run(command, stop_requested));
  if (!program.stdout_file.empty() && !(kept.is_open() && kept.flush())) {
    return Error{ErrorCode::kIo, "cannot be written", program.stdout_file};
  }
  if (finished.ending == Ending::kStopped) return Error{ErrorCode::kInterrupted, "stopped", ""};
  ProgramRun result;
  result.ended_well = finished.succeeded();
  // Without the figures that differ from run to run: endings are compared.
  result.ending = finished.ending == Ending::kTimedOut      ? fmt::format("no end after {:.3g} s", program.timeout_s)
                  : finished.ending == Ending::kOutOfMemory ? "out of memory"
                                                            : finished.describe();
  result.err = finished.err;
  if (fs::symlink_status(outputs, failed).type() != fs::file_type::directory) {  // what a link leads to is not ours
    result.ended_well = false;
    result.ending += ", and PINCH_OUTPUTS is no folder any more";
    return result;
  }
  PINCH_ASSIGN(hashes, hash_folder(outputs));
  result.outputs = std::move(hashes);
  if (result.outputs.empty()) result.outputs["stdout"] = out.digits();
  return result;
}

namespace {

// What may be replaced: no folder, an empty one, or one that holds a recording and nothing else.
Result<void> check_replaceable(const std::string& folder) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (status.type() == fs::file_type::not_found) return {};
  const auto refuse = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}; a recording goes into a new or empty folder, or replaces an earlier one", what),
                 folder};
  };
  if (status.type() != fs::file_type::directory) return refuse("is no folder");
  bool manifest = false, empty = true;
  std::string other;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    empty = false;
    if (name == "manifest.json") {
      manifest = true;
    } else if (name != "outputs") {
      other = name;
    }
  }
  if (failed) return Error{ErrorCode::kIo, "cannot be read: " + failed.message(), folder};
  if (empty) return {};
  if (!other.empty()) return refuse(fmt::format("holds {}", quote_name(other)));
  if (!manifest) return refuse("holds no manifest.json");
  std::ifstream file(folder + "/manifest.json");
  const auto document = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("outputs") || !document.contains("recorded_at")) {
    return refuse("holds a manifest.json that is no recording's");
  }
  return {};
}

// A folder beside another, on the same file system, that goes away with its owner.
class Staging {
 public:
  static Result<Staging> beside(const fs::path& folder) {
    std::error_code failed;
    fs::create_directories(folder.parent_path(), failed);
    std::string path = folder.parent_path() / ".pinch_record_XXXXXX";
    if (failed || ::mkdtemp(path.data()) == nullptr) {
      return os_error(path, "be created", failed ? failed.value() : errno);
    }
    return Staging(std::move(path));
  }
  Staging(Staging&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Staging& operator=(Staging&&) = delete;
  ~Staging() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string recording() const { return path_ + "/recording"; }
  [[nodiscard]] std::string stdout_file() const { return path_ + "/stdout"; }

  // The recording takes the folder's place; what was there goes with the staging.
  [[nodiscard]] Result<void> take_place_of(const std::string& folder) const {
    PINCH_TRY(check_replaceable(folder));  // the program may have written there meanwhile
    std::error_code failed, absent;
    const std::string before = path_ + "/before";
    fs::rename(folder, before, absent);
    fs::rename(recording(), folder, failed);
    if (!failed) return {};
    if (!absent) fs::rename(before, folder, absent);
    return Error{ErrorCode::kIo, "cannot be replaced: " + failed.message(), folder};
  }

 private:
  explicit Staging(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace

Result<nlohmann::ordered_json> record(const Program& program, const std::string& folder,
                                      const std::function<bool()>& stop_requested) {
  PINCH_ASSIGN(inputs, hash_folder(program.inputs));
  std::error_code failed;
  // A link to a folder stays one; "a/." and "a/" are a.
  fs::path place = fs::weakly_canonical(fs::absolute(folder, failed), failed);
  if (failed) return Error{ErrorCode::kIo, "cannot be found: " + failed.message(), folder};
  if (!place.has_filename()) place = place.parent_path();
  PINCH_TRY(check_replaceable(place));
  PINCH_ASSIGN(staging, Staging::beside(place));
  const std::string outputs = staging.recording() + "/outputs";
  Program here = program;
  here.stdout_file = staging.stdout_file();
  PINCH_ASSIGN(result, run_program(here, outputs, stop_requested));
  if (!result.ended_well) {
    return Error{ErrorCode::kIllegal, fmt::format("the baseline {}\n{}", result.ending, result.err),
                 program.argv.front()};
  }
  const bool left_file = fs::symlink_status(outputs + "/stdout", failed).type() != fs::file_type::not_found;
  if (result.outputs.size() == 1 && result.outputs.contains("stdout") && !left_file) {
    fs::rename(here.stdout_file, outputs + "/stdout", failed);
    if (failed) return Error{ErrorCode::kIo, "cannot be written: " + failed.message(), outputs + "/stdout"};
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
  const std::string path = staging.recording() + "/manifest.json";
  std::ofstream out(path);
  out << json_text(manifest, 2) << '\n';
  if (!out.flush()) return Error{ErrorCode::kIo, "cannot be written", path};
  out.close();
  PINCH_TRY(staging.take_place_of(place));
  return manifest;
}

}  // namespace pinch::check
