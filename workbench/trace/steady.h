// Where a series of periods is steady: found in the series, not assumed.
#pragma once

#include <cstdint>
#include <vector>

namespace pinch::trace {

/// A part of a series.
struct Stretch {
  bool found = false;
  std::uint64_t begin = 0, end = 0;  ///< ticks: its first period's begin, its last one's end
  double level = 0;                  ///< the period it is steady at
};

/// The longest stretch in which periods keep to one level: at most one in five is further from the median of all than a
/// twentieth of it or three times their usual distance (1.4826 x the median distance), whichever is more. It must hold
/// half of all periods, and its two halves must have levels within 10% of each other, or within what chance explains: a
/// series that drifts, or that has no level which half of it keeps, has no steady state. Steps of a loop in a loop keep
/// to no period one by one, but their means do: where periods fail, means of 2, 4, 8 ... are tried, as long as there
/// are 16, and chance excuses none of their drift.
class SteadyFinder {
 public:
  void add(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Stretch find() const;

  static constexpr std::uint64_t kFewest = 8;  ///< periods; fewer tell no state

 private:
  // Means of batches of equally many periods: two neighbours become one when there are too many, so that a track of any
  // length takes the same memory.
  static constexpr std::size_t kMostBatches = 1024;
  struct Batch {
    double mean = 0;
    std::uint64_t begin = 0, end = 0;
  };
  static Stretch find_in(const std::vector<Batch>& batches, bool single);
  static void halve(std::vector<Batch>& batches);

  std::vector<Batch> batches_;
  Batch open_;  // `mean` is its sum yet
  std::uint64_t batch_size_ = 1, filled_ = 0, count_ = 0;
};

}  // namespace pinch::trace
