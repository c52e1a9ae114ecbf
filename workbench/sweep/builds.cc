#include "workbench/sweep/builds.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "src/core/subprocess.h"
#include "workbench/check/environment.h"
#include "workbench/check/program.h"
#include "workbench/check/sha256.h"
#include "workbench/sweep/trial.h"

namespace pinch::sweep {
namespace {

namespace fs = std::filesystem;

// "${defines}" alone becomes one argument a define.
Result<std::vector<std::string>> arguments(const Subject& subject, const Values& values) {
  std::vector<std::string> list;
  for (const std::string& word : subject.build->command) {
    if (word == "${defines}") {
      for (std::string& define : defines(subject, values)) list.push_back(std::move(define));
      continue;
    }
    PINCH_ASSIGN(text, substitute(word, values));
    list.push_back(std::move(text));
  }
  return list;
}

}  // namespace

std::vector<std::string> defines(const Subject& subject, const Values& values) {
  std::vector<std::string> list;
  for (const Knob& knob : subject.knobs) {
    if (knob.kind != KnobKind::kDefine) continue;
    list.push_back(fmt::format("-D{}={}", knob.target, to_string(values.find(knob.name)->second)));
  }
  return list;
}

Result<std::string> build_key(const Subject& subject) {
  std::string key;
  std::vector<std::string> files = subject.build->sources;
  if (std::string compiler = check::program_file(subject.build->command.front(), subject.folder); !compiler.empty())
    files.push_back(std::move(compiler));
  for (const std::string& file : files) {
    PINCH_ASSIGN(hash, check::sha256_file(file));
    key += hash + '\n';
  }
  for (const auto& [name, value] : check::build_variables()) key += fmt::format("{}={}\n", name, value);
  return key;
}

Result<Built> build(const Subject& subject, const Values& knobs, const std::string& folder,
                    const std::function<bool()>& stop_requested) {
  Values values = knobs;
  std::string joined;
  for (const std::string& define : defines(subject, values)) joined += (joined.empty() ? "" : " ") + define;
  values["defines"] = joined;
  values["binary"] = subject.build->binary;
  PINCH_ASSIGN(for_key, arguments(subject, values));
  std::string key;
  for (const std::string& word : for_key) key += word + '\n';
  PINCH_ASSIGN(rest, build_key(subject));
  key += rest;
  const std::string place = folder + "/" + check::sha256(key).substr(0, 32);
  Built built;
  built.binary = place + "/" + subject.build->binary;
  std::error_code failed;
  if (!fs::exists(built.binary, failed)) {
    static std::atomic<int> counter = 0;
    const std::string part = fmt::format("{}.part{}-{}", place, ::getpid(), counter++);
    fs::create_directories(part, failed);
    if (failed) return Error{ErrorCode::kIo, "cannot be created: " + failed.message(), part};
    values["binary"] = part + "/" + subject.build->binary;
    Command command;
    PINCH_ASSIGN(argv, arguments(subject, values));
    command.argv = std::move(argv);
    command.folder = subject.folder;
    command.timeout_s = subject.build->timeout_s;
    const auto finished = run(command, stop_requested);
    if (!finished.ok()) {
      built.failure = finished.error().message();
    } else if (finished->ending == Ending::kStopped) {
      fs::remove_all(part, failed);
      return Error{ErrorCode::kInterrupted, "stopped while building", ""};
    } else if (!finished->succeeded()) {
      built.failure = readable(fmt::format("the build {}\n{}", finished->describe(), finished->err));
    } else if (!fs::exists(to_string(values["binary"]), failed)) {
      built.failure = "the build succeeded and left no file at ${binary}";
    }
    if (!built.failure.empty()) {
      fs::remove_all(part, failed);
      built.binary.clear();
      return built;
    }
    built.compile_s = finished->wall_s;
    fs::rename(part, place, failed);
    if (failed) fs::remove_all(part, failed);  // another one was faster
  }
  PINCH_ASSIGN(hash, check::sha256_file(built.binary));
  built.sha256 = hash;
  return built;
}

}  // namespace pinch::sweep
