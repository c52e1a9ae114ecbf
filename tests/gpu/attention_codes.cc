// NVFP4 codes and scales of P on a device against the CPU's: every difference is counted, given to the step of the
// computation that made it, and proved to lie at a tie.
// Usage: attention_codes check [CSV] | planted
//   check    2^x of every FP32 x that P can have, by both, through e2m1 and e4m3; then rows of random scores through
//            the kernel's own softmax, linear and log, beside the CPU's functions of kernels/attention/numerics.h
//   planted  the checker itself: an exponential off by 2^-10, a code one step off
// Exit status: 0 all explained, 1 not, 77 skipped.
//
// A row's scores go four ways, each with one thing changed: (1) the CPU's order of roundings, 2^x of degree 5; (2) the
// kernel's order, in which an exponent is one multiply-add; (3) with the exponential unit's 2^x; (4) the kernel itself,
// whose linear form has an approximate quotient too. A code that (4) has otherwise than (1) belongs to the first way
// that differs. In exact arithmetic all four are 6 * 2^(s - top) and 448 * 2^(top - m): the tie between the two codes
// must be as near to that as the roundings of (1) and (4) together can be off (bound_of).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "tests/gpu/support/attention_codes.h"
#include "tests/gpu/support/check_log.h"
#include "tests/gpu/support/cuda_check.h"

namespace pinch::gpu_test {
namespace {

using namespace attention;

constexpr int kGroups = kRowKeys / kGroup;
constexpr std::size_t kRows = 32768;

/// One group as it is multiplied. A group whose scale is 0 has no codes that count.
struct Group {
  E4m3 scale;
  E2m1 code[kGroup];
};
using Groups = std::vector<Group>;

/// What a group's exponentials are taken of.
struct Arguments {
  float element[kGroup];
  float scale;  // log form: of the group's scale
};

struct Rows {
  std::vector<float> scores;
  float scale;
  Quant quant;

  [[nodiscard]] std::size_t groups() const { return scores.size() / kGroup; }
  [[nodiscard]] const float* group(std::size_t g) const { return &scores[g * kGroup]; }
  /// Largest score of the group's row.
  [[nodiscard]] float row_top(std::size_t g) const {
    const float* row = &scores[g / kGroups * kRowKeys];
    return *std::max_element(row, row + kRowKeys);
  }
};

/// (1): the order of cpu/softmax.h.
Arguments cpu_arguments(const Rows& rows, std::size_t g) {
  const float m = rows.row_top(g) * rows.scale;
  const float* s = rows.group(g);
  Arguments to;
  const float held = larger(group_max(s) * rows.scale - m, kSmallestLog2);
  for (int i = 0; i < kGroup; ++i) {
    const float x = s[i] * rows.scale - m;
    to.element[i] = rows.quant == Quant::kLog ? x - (held - kLog2Six) : x;
  }
  to.scale = held + kLog2E4m3Max;
  return to;
}
/// (2): the order of sm90/softmax.cuh.
Arguments kernel_arguments(const Rows& rows, std::size_t g) {
  const float minus = -(rows.row_top(g) * rows.scale);
  const float* s = rows.group(g);
  Arguments to;
  const float held = larger(fma(group_max(s), rows.scale, minus), kSmallestLog2);
  const float add = rows.quant == Quant::kLog ? minus - (held - kLog2Six) : minus;
  for (int i = 0; i < kGroup; ++i) to.element[i] = fma(s[i], rows.scale, add);
  to.scale = held + kLog2E4m3Max;
  return to;
}

/// Codes of the exponentials of such arguments; quotients are divisions.
Group group_of(Quant quant, const float* e, float scale) {
  Group group;
  if (quant == Quant::kLinear) {
    const Fp4Scale by = fp4_linear_scale(group_max(e));
    group.scale = by.scale;
    for (int i = 0; i < kGroup; ++i) group.code[i] = fp4_linear_code(e[i], by);
  } else {
    group.scale = to_e4m3(scale);
    for (int i = 0; i < kGroup; ++i) group.code[i] = fp4_log_code(e[i]);
  }
  return group;
}

/// Of all rows, by a function that takes a vector of exponents to their exponentials.
template <class ArgumentsOf, class Exponentials>
Groups quantise(const Rows& rows, ArgumentsOf arguments_of, Exponentials exponentials_of) {
  constexpr std::size_t kEach = kGroup + 1;
  std::vector<float> x(rows.groups() * kEach);
  for (std::size_t g = 0; g < rows.groups(); ++g) {
    const Arguments a = arguments_of(rows, g);
    std::copy_n(a.element, kGroup, &x[g * kEach]);
    x[g * kEach + kGroup] = a.scale;
  }
  x = exponentials_of(std::move(x));
  Groups groups(rows.groups());
  for (std::size_t g = 0; g < rows.groups(); ++g)
    groups[g] = group_of(rows.quant, &x[g * kEach], x[g * kEach + kGroup]);
  return groups;
}
std::vector<float> degree5(std::vector<float> x) {
  for (float& value : x) value = exp2_poly<5>(value);
  return x;
}

/// Codes and scales from the products code * scale: the largest code of a group is 6. False where they are none such.
bool decode(const float* values, Group& group) {
  group = {};
  const float top = group_max(values), scale = top / kE2m1Max;
  group.scale = to_e4m3(scale);
  if (to_f32(group.scale) != scale) return false;
  for (int i = 0; i < kGroup && top > 0; ++i) {
    group.code[i] = to_e2m1(values[i] / scale);
    if (to_f32(group.code[i]) * scale != values[i]) return false;
  }
  return top > 0 || std::all_of(values, values + kGroup, [](float v) { return v == 0; });
}

double half_unit(double value) {
  return value == 0 ? 0 : std::ldexp(1.0, std::ilogb(value) - 24);
}

/// An exact number that is rounded to a code, and how far, relatively, ways (1) and (4) together may be off it.
struct Exact {
  double value, bound;
};
struct ExactGroup {
  Exact scale, code[kGroup];
};
// Exponents lose half a unit in the last place of each intermediate, a sum of which moves 2^x by ln 2 of it; then
// come 2^x (kEx2Ulps and kPolyError), quotients (2 units by __fdividef and half a one) and products (half a unit).
ExactGroup exact_group(const Rows& rows, std::size_t g) {
  constexpr double kLn2 = 0.6931471805599453, kUnit = 0x1p-23;
  const double by = rows.scale, m = rows.row_top(g) * rows.scale;
  const float* s = rows.group(g);
  const double top = group_max(s) * by - m, held = std::max(top, static_cast<double>(kSmallestLog2));
  const double exponentials = kEx2Ulps * kUnit + kPolyError[2];
  const double of_top = 2 * half_unit(top) + half_unit(group_max(s) * by);  // both ways' roundings of s - m
  ExactGroup exact;
  const double log2_448 = std::log2(448.0), log2_6 = std::log2(6.0);
  exact.scale.value = std::exp2(held + log2_448);
  const double of_scale =
      rows.quant == Quant::kLog ? 2 * (half_unit(held + log2_448) + std::fabs(kLog2E4m3Max - log2_448)) : 0;
  exact.scale.bound = kLn2 * (of_top + of_scale) + exponentials + kUnit;
  for (int i = 0; i < kGroup; ++i) {
    const double x = s[i] * by - m;
    exact.code[i].value = std::exp2(x - held + log2_6);
    double exponents = of_top + half_unit(s[i] * by) + 2 * half_unit(x);
    double others = 2 * exponentials + 2.5 * kUnit + kUnit;  // linear: two exponentials each way, quotient, product
    if (rows.quant == Quant::kLog) {
      const double fold = held - log2_6;
      exponents +=
          2 * half_unit(fold) + half_unit(m + fold) + 2 * half_unit(x - fold) + 2 * std::fabs(kLog2Six - log2_6);
      others = exponentials;
    }
    exact.code[i].bound = kLn2 * exponents + others;
  }
  return exact;
}

enum Cause { kArguments, kExponential, kQuotient, kCauses };
struct Tally {
  long compared = 0, by[kCauses] = {}, unexplained = 0;
  double farthest = 0;  // of the explained: distance of the tie as a part of the bound
  [[nodiscard]] long differing() const { return by[kArguments] + by[kExponential] + by[kQuotient]; }
};

/// One code by the four ways, 1 to 4.
template <class Code>
void count(Tally& tally, const Exact& exact, Code way1, Code way2, Code way3, Code way4) {
  ++tally.compared;
  if (way1 == way4) return;
  ++tally.by[!(way2 == way1) ? kArguments : !(way3 == way2) ? kExponential : kQuotient];
  const double tie = (static_cast<double>(to_f32(way1)) + static_cast<double>(to_f32(way4))) / 2;
  const double part = std::fabs(exact.value / tie - 1) / exact.bound;
  if (std::abs(way1.bits - way4.bits) != 1 || !(part <= 1)) {
    ++tally.unexplained;
  } else {
    tally.farthest = std::max(tally.farthest, part);
  }
}

struct Seen {
  Tally codes, scales;
  long undecodable = 0;  // groups of the kernel's that are no codes times a scale
  long other_bits = 0;   // log form: codes and scales of way 3 that are not the kernel's
  [[nodiscard]] bool all_explained() const {
    return codes.unexplained + scales.unexplained + undecodable + other_bits == 0 && codes.compared > 0;
  }
};
Seen compare(const Rows& rows, const std::vector<float>& of_kernel) {
  const Groups way1 = quantise(rows, cpu_arguments, degree5), way2 = quantise(rows, kernel_arguments, degree5),
               way3 = quantise(rows, kernel_arguments, exponentials);
  Seen seen;
  for (std::size_t g = 0; g < rows.groups(); ++g) {
    Group way4;
    if (!decode(&of_kernel[g * kGroup], way4)) {
      ++seen.undecodable;
      continue;
    }
    const ExactGroup exact = exact_group(rows, g);
    count(seen.scales, exact.scale, way1[g].scale, way2[g].scale, way3[g].scale, way4.scale);
    if (rows.quant == Quant::kLog) seen.other_bits += !(way3[g].scale == way4.scale);
    if (way4.scale.bits == 0) continue;
    for (int i = 0; i < kGroup; ++i) {
      count(seen.codes, exact.code[i], way1[g].code[i], way2[g].code[i], way3[g].code[i], way4.code[i]);
      if (rows.quant == Quant::kLog) seen.other_bits += !(way3[g].code[i] == way4.code[i]);
    }
  }
  return seen;
}

/// Scores that are normal with deviation `sigma` after scaling, `offset` log2 units up.
Rows random_rows(std::size_t rows, Quant quant, double sigma, double offset, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Rows to{std::vector<float>(rows * kRowKeys), static_cast<float>(1.4426950408889634 / std::sqrt(128.0)), quant};
  const auto deviation = static_cast<float>(sigma * std::sqrt(128.0)), up = static_cast<float>(offset) / to.scale;
  for (float& s : to.scores) s = up + deviation * normal(bits);
  return to;
}

void print(CheckLog& log, const std::string& what, const char* of, const Tally& t) {
  std::printf("  %-6s %9ld compared, %6ld differ: exponent %ld, exponential unit %ld, quotient %ld; unexplained %ld\n",
              of, t.compared, t.differing(), t.by[kArguments], t.by[kExponential], t.by[kQuotient], t.unexplained);
  char row[160];
  std::snprintf(row, sizeof row, ",%s,%ld,%ld,%ld,%ld,%ld,%.3f,%ld", of, t.compared, t.differing(), t.by[kArguments],
                t.by[kExponential], t.by[kQuotient], t.farthest, t.unexplained);
  log.row(what + row);
}

bool check_exponentials(CheckLog& log) {
  const AllExponentials all = compare_all_exponentials();
  std::printf(
      "2^x of every x: the unit is at most %d from the correctly rounded (%d allowed), %.3f from the exact; the host "
      "errs "
      "by %.3g (%.3g)\n",
      all.device_units, kEx2Units, all.device_ulps, all.host_error, kPolyError[2]);
  const auto report = [&](const char* of, const CodeDifferences& d) {
    std::printf("  %-6s %10llu compared, %llu differ by the unit, %llu by the host's polynomial; unexplained %llu\n",
                of, d.codes, d.by_device, d.by_host, d.unexplained);
    char row[200];
    std::snprintf(row, sizeof row, "every x,,,%s,%llu,%llu,0,%llu,0,,%llu", of, d.codes,
                  d.by_device + d.by_host + d.unexplained, d.by_device + d.by_host, d.unexplained);
    log.row(row);
    return d.codes > 0 && d.unexplained == 0;
  };
  bool right = all.device_units <= kEx2Units && all.host_error <= kPolyError[2];
  right &= report("e2m1", all.e2m1);
  right &= report("e4m3", all.e4m3);
  if (all.conversions > 0) std::printf("  %llu values convert otherwise on the device\n", all.conversions);
  std::vector<float> x;
  for (std::uint32_t bits = 0x80000000U; bits < 0xC2FE0000U; bits += 61) x.push_back(detail::f32_from_bits(bits));
  const bool same = polynomials(x) == degree5(x);
  std::printf("  2^x of degree 5 is %s on both, of %zu x\n", same ? "the same" : "NOT THE SAME", x.size());
  return right && all.conversions == 0 && same;
}

int check(const char* csv_path) {
  CheckLog log(csv_path,
               "form,sigma,log2_offset,of,compared,differ,exponent,exponential,quotient,farthest,unexplained");
  bool right = check_exponentials(log);
  std::uint32_t seed = 1;
  for (const Quant quant : {Quant::kLinear, Quant::kLog}) {
    for (const auto& [sigma, offset] : {std::pair{1.0, 0.0}, {3.0, 0.0}, {6.0, 0.0}, {3.0, 1024.0}}) {
      const Rows rows = random_rows(kRows, quant, sigma, offset, ++seed);
      const Seen seen = compare(rows, quantised_rows(rows.scores, rows.scale, quant));
      char what[64];
      std::snprintf(what, sizeof what, "%s,%g,%g", to_string(quant), sigma, offset);
      std::printf("%s, sigma %g, scores about %g\n", to_string(quant), sigma, offset);
      print(log, what, "codes", seen.codes);
      print(log, what, "scales", seen.scales);
      if (seen.undecodable > 0) std::printf("  %ld groups are no codes times a scale\n", seen.undecodable);
      if (seen.other_bits > 0) std::printf("  %ld are not what the unit's 2^x gives\n", seen.other_bits);
      right &= seen.all_explained();
    }
  }
  std::printf(right ? "every difference is explained\n" : "NOT every difference is explained\n");
  return right ? 0 : 1;
}

// Every fault must be found, and nothing without one.
int planted() {
  int missed = 0;
  const auto expect = [&](bool found, const char* what) {
    if (!found) std::printf("MISSED: %s\n", what);
    missed += !found;
  };
  const AllExponentials off = compare_all_exponentials({1 + 0x1p-10F, 0xFFFFFFFF});
  expect(off.device_units > kEx2Units && off.e2m1.unexplained > 0 && off.e4m3.unexplained > 0, "2^x off by 2^-10");
  const AllExponentials flipped = compare_all_exponentials({1, detail::f32_to_bits(-0.7F)});
  expect(flipped.e2m1.unexplained == 1, "one code of all x a step off");
  for (const Quant quant : {Quant::kLinear, Quant::kLog}) {
    const Rows rows = random_rows(1024, quant, 3, 0, 99);
    const std::vector<float> right = quantised_rows(rows.scores, rows.scale, quant);
    expect(compare(rows, right).all_explained(), "NOTHING is wrong");
    // Exponents of all but each row's largest key 2^-10 too high.
    std::vector<float> scores = rows.scores;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] != rows.row_top(i / kGroup)) scores[i] += 0x1p-10F / rows.scale;
    }
    const Seen shifted = compare(rows, quantised_rows(scores, rows.scale, quant));
    expect(shifted.codes.unexplained > 0, "exponents off by 2^-10: codes");
    expect(shifted.scales.unexplained > 0, "exponents off by 2^-10: scales");
    // One key's code a step lower: 4 becomes 3.
    std::vector<float> values = right;
    for (std::size_t i = 0;; ++i) {
      const float six = *std::max_element(&values[i / kGroup * kGroup], &values[i / kGroup * kGroup] + kGroup);
      if (six == 0 || values[i] * 6 != six * 4) continue;
      values[i] = six / 2;
      break;
    }
    expect(compare(rows, values).codes.unexplained == 1, "one code a step off");
    values = right;
    for (std::size_t g = 0;; ++g) {
      const float six = *std::max_element(&values[g * kGroup], &values[g * kGroup] + kGroup);
      if (six < 6 || six > 600) continue;
      for (int i = 0; i < kGroup; ++i) values[g * kGroup + static_cast<std::size_t>(i)] *= 2;
      break;
    }
    expect(compare(rows, values).scales.unexplained == 1, "one scale twice what it is");
  }
  return report_planted(missed);
}

int run(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode != "check" && mode != "planted") {
    std::printf("usage: attention_codes check [CSV] | planted\n");
    return 2;
  }
  skip_without_device();
  return mode == "planted" ? planted() : check(argc > 2 ? argv[2] : nullptr);
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::run(argc, argv);
}
