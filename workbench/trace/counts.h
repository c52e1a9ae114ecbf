// Order statistics of any number of whole numbers in constant memory.
#pragma once

#include <cstdint>
#include <vector>

namespace pinch::trace {

/// Counts values in buckets of 1/1024 of their size, and exactly below 2048. A quantile is the mean of the bucket that
/// holds it, so it is exact where all values of the bucket are one, and within 0.1% elsewhere.
class Counts {
 public:
  void add(std::uint64_t value);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  /// The value with a share p of the others below it (nearest rank); 0 where there is none.
  [[nodiscard]] double quantile(double p) const;
  void merge(const Counts& other);

 private:
  struct Bucket {
    std::uint64_t count = 0;
    double sum = 0;
  };
  std::vector<Bucket> buckets_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace pinch::trace
