// A machine model: what an instruction can do on one device, each figure with its unit, its proof or its source.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"

namespace pinch::probe {

/// Better ones replace worse ones when models are merged.
enum class Origin { kAssumed, kCited, kMeasured };
[[nodiscard]] std::string_view name_of(Origin origin);

struct Entry {
  std::string name;             ///< "ex2.f32", "fma.512.latency"
  std::string opcode;           ///< "MUFU.EX2", "vfmadd231ps"; empty for memory and clocks
  std::string also = {};        ///< another that the operation takes as well, in turn: the value is of the mix
  std::string group;            ///< unit that it shares with the others of the group; empty where not known
  std::optional<double> value;  ///< none where it was not proved
  std::string unit;             ///< one of units()
  double spread = 0;            ///< (most - least) / least of repeats; 0 for what was not measured here
  Origin origin = Origin::kMeasured;
  std::string method;
  bool proved = false;
  std::string proof;                ///< what the timed loop held: opcode x count; or why there is none
  std::string source;               ///< who measured it, or where a cited value stands
  std::string device, date, tools;  ///< of the measurement, or of the citation: "ptxas 13.0, driver 13000"
  std::string mark;  ///< what spoils it or left it without a value: "spread 8% over 5%: shared or throttled"
};

/// Two kinds of instruction in one loop.
struct Overlap {
  std::string first, second;
  /// (time of the first alone + time of the second alone) / time of the mix: 1 where they share one unit, `most` where
  /// neither waits for the other, which is 2 for equal times.
  std::optional<double> overlap;  ///< none where it was not measured
  double most = 2;                ///< (sum of both times) / (the longer, or the time to issue both)
  double spread = 0;
  bool proved = false;
  std::string mark;  ///< as of an entry
};

struct Model {
  std::string name, device, date;
  std::string arch = {};   ///< of a GPU, "sm_90a"; else empty
  std::string applies_to;  ///< regular expression of the devices that a cited model speaks of; else empty
  std::map<std::string, std::string> tools;  ///< "ptxas": "13.0"
  std::vector<Entry> entries;
  std::vector<Overlap> pairs;

  [[nodiscard]] const Entry* find(std::string_view name) const;
};

/// Above this spread an entry is marked: the device was shared, throttled or its clock is not to be trusted.
inline constexpr double kMaxSpread = 0.05;
void mark_spread(Entry& entry);
void mark_spread(Overlap& pair);

/// The date of a model measured now, "2026-11-30", in UTC.
[[nodiscard]] std::string today();

/// Gives a measured entry its source, and the device, date and tools of the model that it belongs to.
void state_origin(Entry& entry, const Model& model);

/// "lanes/clk/SM", "bytes/clk/SM", "instructions/cycle/core", "cycles", "GB/s", "GHz", "ratio".
[[nodiscard]] const std::vector<std::string>& units();

[[nodiscard]] nlohmann::ordered_json to_json(const Model& model);
/// Errors: kCorrupt, naming `where` and the field that is missing, empty or wrong.
Result<Model> parse_model(std::string_view json, const std::string& where);

/// Errors: kInvalidArgument, naming both, where two models are of two devices: `where` is the file of `into`.
Result<void> may_merge(const Model& into, const Model& other, const std::string& where);

/// Takes every entry of `other` that `into` lacks or has from a worse origin; a measured entry also replaces a measured
/// one, and so does a pair, but a marked one none that is not. One line for each entry that both have: which was kept.
std::vector<std::string> merge(Model& into, const Model& other);

/// What a pair says of the units of its two: one where the mix takes as long as both in turn, two where it takes no
/// longer than the slower of them; either within kMaxSpread; the first, which raises a bound, with all of its own
/// spread and from below too. Between and below them, where it is marked, or where the times are very unequal, it says
/// nothing.
enum class Sharing { kUnknown, kOneUnit, kApart };
[[nodiscard]] Sharing sharing_of(const Overlap& pair);

/// Names entries that share a unit, as the pairs say. Entries without a pair keep their group.
void group_by_overlap(Model& model);

}  // namespace pinch::probe
