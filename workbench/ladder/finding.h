// What a rung of the ladder says: whether its class of fix can still bring something, and how much at most.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"

namespace pinch::ladder {

/// In the order in which they are climbed, the cheapest question first.
enum class Rung : std::uint8_t { kThroughput, kPipeline, kSchedule, kAlgebra, kHandoff, kTactic, kProof };
inline constexpr std::array kRungs = {Rung::kThroughput, Rung::kPipeline, Rung::kSchedule, Rung::kAlgebra,
                                      Rung::kHandoff,    Rung::kTactic,   Rung::kProof};
std::string_view to_string(Rung rung);

enum class Answer : std::uint8_t {
  kHeadroom,       ///< something can be had here: at most bound_percent
  kRuledOut,       ///< nothing can be had here beyond bound_percent, which is noise
  kNotApplicable,  ///< the question makes no sense for this subject
  kNotMeasured,    ///< `command` would answer it
};
std::string_view to_string(Answer answer);

struct Finding {
  Rung rung = Rung::kThroughput;
  Answer answer = Answer::kNotMeasured;
  /// Percent of the default's time that this class of fix can save at most. The bounds of one ladder are of disjoint
  /// parts of that time, and add up to no more than 100, but for what a trace's marks may hide or make: a part of
  /// kPipeline's bound that is in others' too. Where it is kNotMeasured, such a bound is all that is known.
  std::optional<double> bound_percent;
  std::string why;                                                     ///< one sentence
  nlohmann::ordered_json evidence = nlohmann::ordered_json::object();  ///< numbers, and where they are stored
  std::string command;                                                 ///< that measures it, or measures it again
};

/// The finding with most headroom: the one thing to try next. Null where there is none.
const Finding* next_to_try(std::span<const Finding> findings);

/// Which rungs are to be answered.
class Selection {
 public:
  /// Rungs by name: those up to and with `until`, of those only `only`, of those not `skip`; an empty `until` or `only`
  /// is no limit. Errors: kInvalidArgument for a name that is no rung, or where nothing is left.
  static Result<Selection> create(const std::string& until, const std::vector<std::string>& only,
                                  const std::vector<std::string>& skip);
  Selection() { asked_.fill(true); }

  [[nodiscard]] bool asks(Rung rung) const { return asked_[static_cast<std::size_t>(rung)]; }
  /// "--skip pipeline": what left others out; empty where all are asked.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::array<bool, kRungs.size()> asked_{};
  std::string text_;
};

}  // namespace pinch::ladder
