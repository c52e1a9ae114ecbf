#include "workbench/trace/counts.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pinch::trace {
namespace {

constexpr int kBits = 10;  // of a value that tell its bucket, after the leading one

std::size_t bucket_of(std::uint64_t value) {
  if (value < (std::uint64_t{1} << (kBits + 1))) return static_cast<std::size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - (kBits + 1);
  return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(value >> shift);
}

}  // namespace

void Counts::add(std::uint64_t value) {
  const std::size_t at = bucket_of(value);
  if (at >= buckets_.size()) buckets_.resize(at + 1);
  ++buckets_[at].count;
  buckets_[at].sum += static_cast<double>(value);
  ++count_;
  sum_ += static_cast<double>(value);
}

double Counts::quantile(double p) const {
  const auto rank = static_cast<std::uint64_t>(std::max(1.0, std::ceil(p * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (const Bucket& bucket : buckets_) {
    seen += bucket.count;
    if (seen >= rank) return bucket.sum / static_cast<double>(bucket.count);
  }
  return 0;
}

void Counts::merge(const Counts& other) {
  if (buckets_.size() < other.buckets_.size()) buckets_.resize(other.buckets_.size());
  for (std::size_t i = 0; i < other.buckets_.size(); ++i) {
    buckets_[i].count += other.buckets_[i].count;
    buckets_[i].sum += other.buckets_[i].sum;
  }
  count_ += other.count_;
  sum_ += other.sum_;
}

}  // namespace pinch::trace
