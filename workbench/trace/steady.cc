#include "workbench/trace/steady.h"

#include <algorithm>
#include <cmath>

#include "workbench/measure/statistics.h"

namespace pinch::trace {
namespace {

constexpr double kLeastBand = 0.05;  // of the level
constexpr double kDrift = 0.10;
constexpr double kOutOfBand = -4;   // against +1 in band: a stretch may hold one in five
constexpr double kNormal = 1.4826;  // median distance of a normal distribution to its standard deviation

}  // namespace

void SteadyFinder::add(std::uint64_t begin, std::uint64_t end) {
  if (filled_ == 0) open_ = {0, begin, end};
  open_.mean += static_cast<double>(end - begin);
  open_.end = end;
  ++count_;
  if (++filled_ < batch_size_) return;
  open_.mean /= static_cast<double>(batch_size_);
  batches_.push_back(open_);
  filled_ = 0;
  if (batches_.size() < kMostBatches) return;
  halve(batches_);
  batch_size_ *= 2;
}

void SteadyFinder::halve(std::vector<Batch>& batches) {
  for (std::size_t i = 0; i < batches.size() / 2; ++i) {
    const Batch &a = batches[2 * i], &b = batches[2 * i + 1];
    batches[i] = {(a.mean + b.mean) / 2, a.begin, b.end};
  }
  batches.resize(batches.size() / 2);
}

Stretch SteadyFinder::find() const {
  constexpr std::size_t kFewestMeans = 16;
  Stretch stretch = find_in(batches_, /*single=*/true);
  std::vector<Batch> batches = batches_;
  while (!stretch.found && batches.size() >= 2 * kFewestMeans) {
    halve(batches);
    if (const Stretch means = find_in(batches, /*single=*/false); means.found) stretch = means;
  }
  return stretch;
}

Stretch SteadyFinder::find_in(const std::vector<Batch>& batches, bool single) {
  Stretch stretch;
  const std::size_t n = batches.size();
  if (n < kFewest) return stretch;
  std::vector<double> values, distances;
  for (const Batch& batch : batches) values.push_back(batch.mean);
  stretch.level = measure::summarize(values).median;
  for (const double value : values) distances.push_back(std::abs(value - stretch.level));
  const double deviation = kNormal * measure::summarize(distances).median;
  const double band = std::max(kLeastBand * stretch.level, 3 * deviation);

  // The stretch with the largest sum of scores (Kadane).
  double sum = 0, best = 0;
  std::size_t begin = 0, first = 0, last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (sum <= 0) {
      sum = 0;
      begin = i;
    }
    sum += distances[i] <= band ? 1 : kOutOfBand;
    if (sum > best) {
      best = sum;
      first = begin;
      last = i + 1;
    }
  }
  if (last == 0) return stretch;
  stretch.begin = batches[first].begin;
  stretch.end = batches[last - 1].end;
  if (2 * (last - first) < n) return stretch;
  const auto at = [&](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::size_t middle = (first + last) / 2;
  const double early = measure::summarize({at(first), at(middle)}).median,
               late = measure::summarize({at(middle), at(last)}).median;
  // Medians of two halves differ by chance: each has a standard error of 1.25 deviations over the root of its count.
  const double chance = 3 * 1.25 * deviation * std::sqrt(2.0 / static_cast<double>(middle - first));
  stretch.found = std::abs(early - late) <= std::max(kDrift * stretch.level, single ? chance : 0);
  return stretch;
}

}  // namespace pinch::trace
