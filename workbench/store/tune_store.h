// Tuned picks and the raw samples behind them. Summaries are not stored: they are recomputed from the samples, so that
// a stored result and a fresh one cannot be concluded differently.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"
#include "workbench/measure/rounds.h"
#include "workbench/measure/verdict.h"
#include "workbench/store/database.h"

namespace pinch::store {

/// Everything that must be equal for a stored result to speak for this run. An empty field is unknown, and an unknown
/// field is a miss.
struct TuneKey {
  std::string device;   ///< brand, family, model, stepping, cores, caches
  std::string isa;      ///< instruction set in use
  std::string binary;   ///< hash of the program
  std::string tactics;  ///< hash of the family's tactic strings, in order
  std::string policy;   ///< how it was measured
  std::string problem;
  std::string threads;
  std::string compiler;

  [[nodiscard]] bool known() const;
  friend bool operator==(const TuneKey&, const TuneKey&) = default;
};

struct Point {
  std::string tactic;
  std::int64_t rank = 0;  ///< place by the cost model, 0 the default
  double predicted = 0;   ///< cost of the model, in `unit`
  std::string unit;
  measure::Verdict verdict = measure::Verdict::kOk;
  std::string why;  ///< of a verdict that is not ok
  std::optional<double> rel_l2;
  std::int64_t threads = 1;
  std::vector<measure::Sample> samples;  ///< of a run that is read back; written through add_samples
  std::vector<measure::Sample> twin;     ///< of the default's second entry, for the A/A spread
};

struct Run {
  std::int64_t id = 0;
  std::string started_at;  ///< UTC, ISO 8601
  std::string details;     ///< provenance, as the tool wrote it (JSON)
  std::vector<Point> points;
};

/// Writers may be many: each run has its own rows, written in short transactions.
class TuneStore {
 public:
  /// Opens or creates the file. Errors: kIo where it cannot be written, kCorrupt where it is no database,
  /// kUnsupported where another version of the program laid it out.
  static Result<TuneStore> open(const std::string& path);

  /// The newest finished run under an equal and known key.
  Result<std::optional<Run>> find(const TuneKey& key);

  /// Starts a run; it becomes findable by finish().
  Result<std::int64_t> begin(const TuneKey& key);
  Result<void> add_point(std::int64_t run, const Point& point);
  Result<void> set_verdict(std::int64_t run, std::string_view tactic, measure::Verdict verdict, std::string_view why);
  /// Appends raw samples; `twin` marks those of the default's second entry.
  struct TacticSamples {
    std::string_view tactic;
    bool twin = false;
    std::span<const measure::Sample> samples;
  };
  Result<void> add_samples(std::int64_t run, std::span<const TacticSamples> batch);
  Result<void> finish(std::int64_t run, std::string_view details);

  [[nodiscard]] Database& database() { return database_; }

 private:
  explicit TuneStore(Database database) : database_(std::move(database)) {}
  Database database_;
};

}  // namespace pinch::store
