// How candidates are measured, as plain data. Its text is part of the key of a stored result: another policy is another
// measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pinch::measure {

/// State of the inputs when a call starts.
enum class Protocol : std::uint8_t {
  kCold,  ///< the weights were pushed out of the caches: each call takes other weights, with other contents
  kWarm,  ///< the same weights at every call
};
constexpr std::string_view to_string(Protocol protocol) {
  return protocol == Protocol::kCold ? "cold" : "warm";
}

struct Policy {
  std::vector<Protocol> protocols = {Protocol::kCold, Protocol::kWarm};  ///< the first one ranks
  double budget_s = 10;                                                  ///< stop after this long
  double noise_target = 0.01;    ///< or when every live candidate's median is known this well (relative_noise)
  int min_rounds = 5;            ///< but not before this many rounds
  int max_rounds = 60;           ///< and never after this many
  double min_sample_ns = 300e3;  ///< short calls are repeated to fill a sample, so that reading clocks stays below 1%
  double long_call_ns = 20e6;    ///< calls at least this long need no untimed call before the sample
  double min_cpu_share = 0.96;   ///< a sample counts when CPU time / (wall time x threads) reaches this
  double max_clock_move = 0.03;  ///< and when the clock rate moved less than this within it
  double drop_margin = 0.10;  ///< a candidate leaves when its fastest sample is this much slower than the best median
  double far_margin = 0.50;   ///< and already after far_rounds where it is slower by this much
  int far_rounds = 2;
  double tie_band = 0.02;          ///< medians closer than this are ties, even where the noise is lower
  std::size_t cold_set_bytes = 0;  ///< of the weights that cold calls walk through; 0: see cold_set_bytes(policy)
  std::uint64_t seed = 20;         ///< order of the candidates within the rounds, and the random few

  [[nodiscard]] std::string text() const;
};

}  // namespace pinch::measure
