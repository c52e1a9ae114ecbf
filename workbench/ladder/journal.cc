#include "workbench/ladder/journal.h"

#include <utility>

namespace pinch::ladder {

StoreJournal::StoreJournal(store::TuneStore* store, const store::TuneKey& key, Warn warn)
    : store_(store), warn_(std::move(warn)) {
  if (store_ == nullptr) return;
  const Result<std::int64_t> begun = store_->begin(key);
  keep(begun);
  if (begun) run_ = *begun;
}

template <class T>
void StoreJournal::keep(const Result<T>& written) {
  if (written.ok()) return;
  warn_(written.error());
  store_ = nullptr;
}

void StoreJournal::point(const store::Point& point) {
  if (store_ != nullptr) keep(store_->add_point(run_, point));
}

void StoreJournal::samples(std::span<const store::TuneStore::TacticSamples> round) {
  if (store_ != nullptr) keep(store_->add_samples(run_, round));
}

void StoreJournal::verdict(const store::Point& point) {
  if (store_ != nullptr) keep(store_->set_verdict(run_, point.tactic, point.verdict, point.why));
}

void StoreJournal::finish(std::string_view details) {
  if (store_ != nullptr) keep(store_->finish(run_, details));
}

}  // namespace pinch::ladder
