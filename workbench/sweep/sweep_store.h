// Trials in the SQLite file: each is written before the next one starts, and flushed to the disk while that one runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "workbench/store/database.h"
#include "workbench/store/flusher.h"
#include "workbench/sweep/trial.h"

namespace pinch::sweep {

/// What a trial was run for.
enum class Role : std::uint8_t { kSample, kTwin, kConfirm };
std::string_view to_string(Role role);

struct TrialKey {
  std::string problem;  ///< problem_text
  std::string point;    ///< Space::text
  Role role = Role::kSample;
  int round = 0;
  std::string device = {};  ///< that it ran on; empty: none was named
  friend auto operator<=>(const TrialKey&, const TrialKey&) = default;
};

struct StoredTrial {
  TrialKey key;
  Trial trial;
};

/// What a start of a sweep stores of itself.
struct SweepStart {
  std::string key;  ///< what the sweep is known by
  std::string subject;
  std::uint64_t seed = 0;
  std::string environment;  ///< JSON: this machine and program, as every row of this start refers to it
  bool forget = false;      ///< drop what the sweep holds
};

class SweepStore {
 public:
  /// Opens or creates the file. Errors: kIo, kCorrupt; kUnsupported where another version laid the tables out.
  static Result<SweepStore> open(const std::string& path);

  /// Makes this process the one that runs the sweep, until leave() or its end however it comes. While another process
  /// does, `wait` is called with its id some times a second; false gives up. Kills what a killed start left running.
  /// Errors: kInterrupted where `wait` gave up; kIo.
  Result<void> begin(const SweepStart& start, const std::function<bool(int pid)>& wait = {});
  /// What PINCH_SWEEP of this start's processes is.
  [[nodiscard]] std::string token() const;
  /// Every trial of the sweep, in the order they ended.
  Result<std::vector<StoredTrial>> trials();
  /// The starts that the sweep's trials are from, in their order: [{started_at, trials, environment}].
  Result<nlohmann::ordered_json> starts();
  /// When it returns the trial outlives this process however that ends; a moment later, a power cut. Of two under one
  /// key the first stays.
  Result<void> add(const StoredTrial& stored);
  /// When it returns everything is on the disk.
  Result<void> leave();

 private:
  // A byte of FILE-lock for each sweep: the system releases it whatever ends the process.
  class Lock {
   public:
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    Lock(Lock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Lock& operator=(Lock&&) = delete;
    ~Lock();
    /// 0: taken; else the process that has it; -1: it cannot be locked (errno).
    [[nodiscard]] int take(std::int64_t byte) const;
    void release(std::int64_t byte) const;

   private:
    int descriptor_;
  };
  SweepStore(store::Database database, std::unique_ptr<store::Flusher> flusher, Lock lock)
      : database_(std::move(database)), flusher_(std::move(flusher)), lock_(std::move(lock)) {}

  store::Database database_;
  std::unique_ptr<store::Flusher> flusher_;
  Lock lock_;
  std::string key_;
  std::int64_t sweep_ = 0, start_ = 0;
};

}  // namespace pinch::sweep
