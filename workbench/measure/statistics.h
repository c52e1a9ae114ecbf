// Order statistics of timing samples. Times are skewed and have outliers, so nothing here uses a mean or a variance.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pinch::measure {

struct Summary {
  std::size_t count = 0;
  double min = 0;
  double q1 = 0;
  double median = 0;
  double q3 = 0;
  double max = 0;
};

struct Interval {
  double low = 0;
  double high = 0;
};

/// The p-quantile, 0 <= p <= 1, linear between neighbouring order statistics (Hyndman and Fan 1996, type 7).
/// `sorted`: ascending and not empty.
double quantile(std::span<const double> sorted, double p);

/// Quartiles of the values, in any order. Nothing to summarise gives a Summary whose count is 0.
Summary summarize(std::vector<double> values);

/// Confidence interval of the median that assumes no distribution: the narrowest symmetric pair of order statistics
/// whose binomial coverage is at least 95%. Below 6 values no pair reaches 95%, and the range is returned (5: 93.8%).
/// `sorted`: ascending and not empty.
Interval median_interval(std::span<const double> sorted);

/// Half the width of median_interval over the median: how well the median is known, as a fraction. 0 values: infinity.
double relative_noise(std::vector<double> values);

/// |median(a) / median(b) - 1| of two runs of one subject: what the protocol cannot tell apart. Empty side: infinity.
double spread(std::vector<double> a, std::vector<double> b);

}  // namespace pinch::measure
