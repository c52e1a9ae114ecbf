// Where a rung writes as it goes, so that a crash or Ctrl-C loses at most the round in progress.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "workbench/store/tune_store.h"

namespace pinch::ladder {

class Journal {
 public:
  virtual ~Journal() = default;
  virtual void point(const store::Point& point) = 0;
  virtual void samples(std::span<const store::TuneStore::TacticSamples> round) = 0;
  virtual void verdict(const store::Point& point) = 0;
};

/// Writes one run to a store. The first failure is told to `warn`, and ends the writing but not the tune: a full disk
/// costs the cache, not the result.
class StoreJournal final : public Journal {
 public:
  using Warn = std::function<void(const Error&)>;
  /// `store` may be null: then nothing is written.
  StoreJournal(store::TuneStore* store, const store::TuneKey& key, Warn warn);
  void point(const store::Point& point) override;
  void samples(std::span<const store::TuneStore::TacticSamples> round) override;
  void verdict(const store::Point& point) override;
  /// Its number in the store; 0 where nothing is written.
  [[nodiscard]] std::int64_t run() const { return store_ != nullptr ? run_ : 0; }
  /// Makes the run findable.
  void finish(std::string_view details);

 private:
  template <class T>
  void keep(const Result<T>& written);

  store::TuneStore* store_;
  std::int64_t run_ = 0;
  Warn warn_;
};

}  // namespace pinch::ladder
