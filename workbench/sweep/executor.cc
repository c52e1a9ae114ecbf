#include "workbench/sweep/executor.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "workbench/check/environment.h"
#include "workbench/check/program.h"
#include "workbench/check/sha256.h"

namespace pinch::sweep {
namespace {

namespace fs = std::filesystem;
using measure::Verdict;

constexpr std::uintmax_t kLargestHashed = std::uintmax_t{1} << 30;

Result<void> make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return Error{ErrorCode::kIo, "cannot be created: " + failed.message(), path};
  return {};
}

// Not one that a link leads to.
bool is_folder(const std::string& path) {
  std::error_code failed;
  return fs::symlink_status(path, failed).type() == fs::file_type::directory;
}

}  // namespace

OutputFolders::~OutputFolders() {
  std::error_code ignored;
  for (const std::string& folder : idle_) fs::remove_all(folder, ignored);
}

Result<std::string> OutputFolders::take() {
  const std::lock_guard lock(mutex_);
  std::error_code ignored;
  if (!idle_.empty()) {
    std::string folder = std::move(idle_.back());
    idle_.pop_back();
    if (is_folder(folder)) return folder;
  }
  std::string folder = fmt::format("{}/{}-{}", parent_, ::getpid(), made_++);
  fs::remove_all(folder, ignored);
  PINCH_TRY(make_folder(folder));
  return folder;
}

void OutputFolders::give_back(std::string folder) {
  std::error_code failed;
  if (!is_folder(folder)) {  // a program put a link in its place: what it leads to is not ours
    fs::remove(folder, failed);
    return;
  }
  bool empty = true;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code kept;
    fs::remove_all(at->path(), kept);
    empty = empty && !kept;
  }
  if (failed || !empty) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(folder));
}

Result<std::string> sweep_key(const Subject& subject, std::string_view settings) {
  std::string parts = subject.text + '\n' + std::string(settings);
  for (const auto& [name, value] : check::run_variables()) parts += fmt::format("\n{}={}", name, value);
  const auto add = [&](const std::string& file) -> Result<void> {
    PINCH_ASSIGN(hash, check::sha256_file(file));
    parts += '\n' + hash;
    return {};
  };
  std::vector<std::string> sources = subject.sources;
  if (subject.build) {
    PINCH_ASSIGN(build, build_key(subject));
    parts += build;
  }
  for (const std::string& source : sources) PINCH_TRY(add(source));
  // What else is a file of a bearable size: the program, the arguments, the inputs.
  std::vector<std::string> files = {check::program_file(subject.command.front(), subject.folder)};
  for (auto word = subject.command.begin() + 1; word != subject.command.end(); ++word) {
    files.push_back(fs::path(*word).is_absolute() ? *word : subject.folder + "/" + *word);
  }
  for (const Input& input : subject.inputs) files.push_back(input.file);
  for (const std::string& file : files) {
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) <= kLargestHashed) PINCH_TRY(add(file));
  }
  return check::sha256(parts);
}

Result<void> ProcessExecutor::save_inputs(const Space& space) {
  inputs_.clear();
  inputs_folder_ = fmt::format("{}/inputs/{}", places_.work,
                               check::sha256(key_ + problem_text(subject_, space.problem())).substr(0, 16));
  PINCH_TRY(make_folder(inputs_folder_));
  for (const Input& input : subject_.inputs) {
    if (!input.file.empty()) {
      PINCH_ASSIGN(saved, check::save_copy(inputs_folder_, input.name, input.file));
      inputs_.push_back(saved);
      continue;
    }
    PINCH_ASSIGN(shape, shape_of(input.shape, space.problem()));
    PINCH_ASSIGN(saved, check::save_generated(inputs_folder_, input.name, input.dtype, shape, input.distribution,
                                              static_cast<std::uint64_t>(input.seed)));
    inputs_.push_back(saved);
  }
  return {};
}

Result<const Built*> ProcessExecutor::built(const Values& values) {
  // Knobs of kind arg may stand in the build command too, so every value is part of what tells builds apart.
  std::vector<std::string> key = defines(subject_, values);
  for (const std::string& word : subject_.build->command) {
    Values known = values;
    known["defines"] = std::string();
    known["binary"] = std::string();
    PINCH_ASSIGN(text, substitute(word, known));
    key.push_back(std::move(text));
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = builds_.find(key); found != builds_.end()) return &found->second;
  }
  PINCH_ASSIGN(fresh, build(subject_, values, places_.work + "/builds", stop_));
  const std::lock_guard lock(mutex_);
  return &builds_.emplace(key, std::move(fresh)).first->second;
}

Result<void> ProcessExecutor::build_all(const Space& space, const std::vector<Choice>& points) {
  if (!subject_.build) return {};
  std::map<std::vector<std::string>, Values> distinct;
  for (const Choice& choice : points) {
    PINCH_ASSIGN(values, space.values(choice));
    std::vector<std::string> key;
    for (const Knob& knob : subject_.knobs) {
      if (knob.kind != KnobKind::kEnv) key.push_back(to_string(values[knob.name]));
    }
    distinct.emplace(key, std::move(values));
  }
  std::vector<const Values*> list;
  for (const auto& [key, values] : distinct) list.push_back(&values);
  std::atomic<std::size_t> next = 0;
  std::optional<Error> error;
  std::mutex guard;
  const auto work = [&] {
    for (std::size_t at = 0; (at = next++) < list.size();) {
      const auto result = built(*list[at]);
      if (result.ok()) continue;
      const std::lock_guard lock(guard);
      if (!error) error = result.error();
      next = list.size();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < places_.build_jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) return *error;
  return {};
}

Result<void> ProcessExecutor::record_baseline(const Space& space) {
  baseline_failure_.clear();
  baseline_hashes_.clear();
  if (subject_.outputs.empty()) return {};
  baseline_folder_ = fmt::format("{}/baseline/{}", places_.work,
                                 check::sha256(key_ + problem_text(subject_, space.problem())).substr(0, 16));
  std::error_code failed;
  if (places_.fresh) fs::remove_all(baseline_folder_, failed);
  PINCH_ASSIGN(values, space.values(space.standard()));
  if (fs::is_directory(baseline_folder_, failed)) {
    Trial there;
    hash_outputs(subject_, values, baseline_folder_, there);
    baseline_hashes_ = there.outputs;
    if (there.verdict == Verdict::kOk) return {};
    fs::remove_all(baseline_folder_, failed);
  }
  PINCH_ASSIGN(folder, folders_.take());
  PINCH_ASSIGN(trial, execute(space, space.standard(), places_.device, /*poison=*/false, folder));
  baseline_hashes_ = trial.outputs;
  if (trial.verdict != Verdict::kOk) {
    baseline_failure_ = fmt::format("{}: {}", measure::to_string(trial.verdict), trial.detail);
    folders_.give_back(std::move(folder));
    return {};
  }
  PINCH_TRY(make_folder(places_.work + "/baseline"));
  fs::rename(folder, baseline_folder_, failed);
  if (failed) return Error{ErrorCode::kIo, "cannot be created: " + failed.message(), baseline_folder_};
  return {};
}

Result<void> ProcessExecutor::prepare(const Space& space, const std::vector<Choice>& points) {
  PINCH_TRY(save_inputs(space));
  PINCH_TRY(build_all(space, points));
  return record_baseline(space);
}

Result<Trial> ProcessExecutor::execute(const Space& space, const Choice& choice, const std::string& device, bool poison,
                                       const std::string& outputs) {
  PINCH_ASSIGN(values, space.values(choice));
  Setting setting;
  std::string binary_hash;
  if (subject_.build) {
    PINCH_ASSIGN(build, built(values));
    if (build->binary.empty()) {
      Trial trial;
      trial.verdict = Verdict::kCompileFailed;
      trial.detail = build->failure.substr(0, build->failure.find('\n'));
      trial.err = build->failure;
      return trial;
    }
    setting.binary = build->binary;
    binary_hash = build->sha256;
  }
  setting.values = std::move(values);
  setting.inputs = inputs_folder_;
  setting.outputs = outputs;
  setting.device = device;
  setting.token = places_.token;
  setting.engine = places_.engine;
  setting.poison = poison;
  PINCH_ASSIGN(trial, run_trial(subject_, setting, stop_));
  trial.binary = binary_hash;
  if (trial.verdict == Verdict::kOk && !baseline_hashes_.empty() && baseline_failure_.empty() &&
      trial.outputs != baseline_hashes_) {
    judge_outputs(subject_, setting.values, outputs, baseline_folder_, trial);
  }
  return trial;
}

Result<Trial> ProcessExecutor::run(const Space& space, const Choice& choice, const TrialKey& key) {
  PINCH_ASSIGN(outputs, folders_.take());
  auto trial = execute(space, choice, key.device, /*poison=*/false, outputs);
  folders_.give_back(std::move(outputs));
  return trial;
}

Result<Measured> ProcessExecutor::demonstrate(const Space& space, const Choice& choice, int times) {
  Measured point;
  point.choice = choice;
  point.text = space.text(choice);
  for (int i = 0; i < times; ++i) {
    PINCH_ASSIGN(outputs, folders_.take());
    auto trial = execute(space, choice, places_.device, /*poison=*/true, outputs);
    folders_.give_back(std::move(outputs));
    if (!trial.ok()) return trial.error();
    fold(point, {{{}, point.text, Role::kSample, i, places_.device}, std::move(*trial)}, subject_.change);
  }
  return point;
}

}  // namespace pinch::sweep
