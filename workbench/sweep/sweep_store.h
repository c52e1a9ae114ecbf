// Trials in the SQLite file: each is there, on the disk, before the next one starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/store/database.h"
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
  friend auto operator<=>(const TrialKey&, const TrialKey&) = default;
};

struct StoredTrial {
  TrialKey key;
  Trial trial;
};

class SweepStore {
 public:
  /// Opens or creates the file. Errors: kIo, kCorrupt; kUnsupported where another version laid the tables out.
  static Result<SweepStore> open(const std::string& path);

  /// The sweep of this key, started now if it is new. `forget` drops what it holds. Kills what a killed run of it left
  /// running.
  Result<std::int64_t> begin(const std::string& key, const std::string& subject, std::uint64_t seed, bool forget);
  /// Every trial of the sweep, in the order they ended.
  Result<std::vector<StoredTrial>> trials(std::int64_t sweep);
  /// Durable when it returns. Of two under one key the first stays.
  Result<void> add(std::int64_t sweep, const StoredTrial& stored);
  /// This process has no part in the sweep any more.
  Result<void> leave(std::int64_t sweep);

 private:
  explicit SweepStore(store::Database database) : database_(std::move(database)) {}
  store::Database database_;
};

/// What PINCH_SWEEP of a sweep's processes begins with.
std::string process_token(std::int64_t sweep, const std::string& key, int pid);

}  // namespace pinch::sweep
