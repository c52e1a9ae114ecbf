#include "workbench/ladder/climb.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace pinch::ladder {
namespace {

using nlohmann::ordered_json;

// Of one class of knobs: what its best setting takes off the time, the classes before it already chosen.
struct Gain {
  bool has_knobs = false;
  std::size_t settings = 0, settled = 0;  ///< that need this class of knobs to be reached
  const Setting* best = nullptr;          ///< null where none is faster beyond the band
  double percent = 0;                     ///< of the default's time
};

class Climb {
 public:
  explicit Climb(const Evidence& evidence) : evidence_(evidence), settings_(evidence.settings) {
    if (settings_.list.empty() || settings_.list.front().time <= 0) return;
    standard_ = best_ = &settings_.list.front();
    for (const Rung rung : {Rung::kAlgebra, Rung::kHandoff, Rung::kTactic}) gain(rung);
    room_percent_ = left_percent_ = 100 * best_->time / standard_->time;
    if (const auto* limit = std::get_if<Limit>(&evidence_.limit))
      room_percent_ = std::max(0.0, left_percent_ - 100 * limit->time / standard_->time);
  }

  std::vector<Finding> findings() {
    std::vector<Finding> all(kRungs.size());
    for (const Rung rung : kRungs) at(all, rung).rung = rung;
    pipeline(at(all, Rung::kPipeline));
    schedule(at(all, Rung::kSchedule));
    algebra(at(all, Rung::kAlgebra));
    knobs(at(all, Rung::kHandoff));
    knobs(at(all, Rung::kTactic));
    throughput(at(all, Rung::kThroughput));  // the rest
    proof(at(all, Rung::kProof));
    return all;
  }

 private:
  static Finding& at(std::vector<Finding>& all, Rung rung) { return all[static_cast<std::size_t>(rung)]; }
  [[nodiscard]] Gain& gain_of(Rung rung) { return gains_[static_cast<std::size_t>(rung)]; }
  [[nodiscard]] Rung rung_of(const std::string& knob) const {
    const auto found = settings_.rungs.find(knob);
    return found == settings_.rungs.end() ? Rung::kTactic : found->second;
  }
  [[nodiscard]] double band_percent() const { return 100 * settings_.band; }

  // The last rung among whose knobs the setting differs from the default; none where it is the default.
  [[nodiscard]] std::optional<Rung> last_difference(const Setting& setting) const {
    std::optional<Rung> last;
    const auto differs = [&](const auto& from, const auto& to) {
      for (const auto& [knob, value] : from) {
        const auto other = to.find(knob);
        if (other == to.end() || other->second != value) last = std::max(last, std::optional(rung_of(knob)));
      }
    };
    differs(setting.knobs, standard_->knobs);
    differs(standard_->knobs, setting.knobs);
    return last;
  }

  void gain(Rung rung) {
    Gain& found = gain_of(rung);
    const Setting* fastest = nullptr;
    for (const Setting& setting : settings_.list) {
      for (const auto& [knob, value] : setting.knobs) found.has_knobs = found.has_knobs || rung_of(knob) == rung;
      if (last_difference(setting) != rung) continue;
      ++found.settings;
      found.settled += setting.settled ? 1 : 0;
      if (setting.time > 0 && (fastest == nullptr || setting.time < fastest->time)) fastest = &setting;
    }
    if (fastest == nullptr || best_->time <= fastest->time * (1 + settings_.band)) return;
    found.best = fastest;
    found.percent = 100 * (best_->time - fastest->time) / standard_->time;
    best_ = fastest;
  }

  void silent(Finding& finding, const Silence& silence) {
    finding.answer = silence.answer;
    finding.why = silence.why;
  }

  // A share of the time, of which no more can be saved than is above the limit and no rung before claims: headroom
  // where that is more than noise.
  void share(Finding& finding, double percent, const std::string& found, const std::string& nothing) {
    finding.bound_percent = std::clamp(percent, 0.0, std::max(0.0, room_percent_ - claimed_percent_));
    const bool is_more = *finding.bound_percent > band_percent();
    finding.answer = is_more ? Answer::kHeadroom : Answer::kRuledOut;
    if (is_more) claimed_percent_ += *finding.bound_percent;
    finding.why = percent <= band_percent() ? nothing
                  : is_more                 ? found
                                            : found + "; but what is above the limit is noise, or is another rung's";
  }

  // A wait that the marks may hide is not ruled out, and one that they may make is not taken from another rung.
  void pipeline(Finding& finding) {
    const auto* waiting = std::get_if<Waiting>(&evidence_.waiting);
    if (waiting == nullptr) return silent(finding, std::get<Silence>(evidence_.waiting));
    finding.evidence = waiting->evidence;
    finding.evidence["waiting_share"] = waiting->share;
    const bool is_seen = 100 * waiting->share > band_percent();
    finding.why = fmt::format("the working role waits for {} {:.1f}% of its time",
                              is_seen ? waiting->for_whom + " in" : "nobody beyond", 100 * waiting->share);
    // Where the marks' cost is not known, all above the limit may be hidden; of that only what is seen is promised.
    const double slowed = waiting->slowed.value_or(0);
    const double at_most = std::min(1.0, waiting->share * (1 + slowed) + slowed);
    finding.bound_percent = std::min(at_most * left_percent_, room_percent_);
    if ((waiting->slowed ? *finding.bound_percent : room_percent_) <= band_percent())
      finding.answer = Answer::kRuledOut;
    else
      finding.answer = is_seen ? Answer::kHeadroom : Answer::kNotMeasured;
    if (waiting->slowed) {
      finding.why += fmt::format("; its marks slow it by up to {:.1f}% and may hide or make as much: {:.1f}% at most",
                                 100 * slowed, 100 * at_most);
    } else {
      finding.why += "; what its marks cost is not known, and waits that they hide are not counted";
      if (finding.answer == Answer::kNotMeasured) finding.bound_percent.reset();
    }
    if (finding.answer == Answer::kRuledOut && room_percent_ <= band_percent())
      finding.why += "; but what is above the limit is noise";
    if (finding.answer == Answer::kHeadroom)
      claimed_percent_ = std::min(sure_share(*waiting) * left_percent_, *finding.bound_percent);
  }

  // Of the untraced time, what is waited even if the marks made as much of it as they slow the whole.
  static double sure_share(const Waiting& waiting) {
    const double slowed = waiting.slowed.value_or(0);
    return std::max(0.0, waiting.share * (1 + slowed) - slowed);
  }

  // Of the time in which the code runs: where it waits for another role, its own instructions are not what it takes.
  [[nodiscard]] double running_percent() const {
    const auto* waiting = std::get_if<Waiting>(&evidence_.waiting);
    return left_percent_ * (waiting != nullptr ? 1 - sure_share(*waiting) : 1);
  }

  void schedule(Finding& finding) {
    const Code* code = std::get_if<Code>(&evidence_.code);
    if (code == nullptr) return silent(finding, std::get<Silence>(evidence_.code));
    finding.evidence = code->evidence;
    share(finding, code->schedule_share * running_percent(), code->schedule_words,
          "the compiler's order is as fast as the busiest pipe allows");
  }

  void algebra(Finding& finding) {
    const Code* code = std::get_if<Code>(&evidence_.code);
    const Gain& measured = gain_of(Rung::kAlgebra);
    if (code == nullptr && !measured.has_knobs) {
      const Answer answer = std::get<Silence>(evidence_.code).answer;
      return silent(finding, {answer, "no knob changes what is computed, and no GPU code was read for patterns"});
    }
    if (measured.has_knobs) knobs(finding);
    if (code == nullptr) return;
    Finding read;
    share(read, code->algebra_share * running_percent(), code->algebra_words,
          "no pattern of instructions that need not exist was found");
    for (const auto& [key, value] : code->evidence.items()) finding.evidence[key] = value;
    if (measured.settings == 0) {
      finding.answer = read.answer;
      finding.bound_percent = read.bound_percent;
      finding.why = read.why;
      return;
    }
    finding.why += "; in the machine code: " + read.why;
    if (read.answer != Answer::kHeadroom) return;
    finding.answer = Answer::kHeadroom;
    finding.bound_percent = measured.percent + *read.bound_percent;
  }

  void knobs(Finding& finding) {
    const Gain& found = gain_of(finding.rung);
    if (standard_ == nullptr) return silent(finding, {Answer::kNotMeasured, "the default was not timed"});
    if (!found.has_knobs || found.settings == 0) {
      return silent(finding,
                    {Answer::kNotApplicable,
                     found.has_knobs ? "no other legal setting of these knobs goes with the default's other knobs"
                                     : "no knob is of this kind"});
    }
    finding.evidence = {{"settings", found.settings}, {"settled", found.settled}, {"band_percent", band_percent()}};
    const std::string reached = found.settled == found.settings
                                    ? fmt::format("all {} other legal settings", found.settings)
                                    : fmt::format("{} of {} other legal settings", found.settled, found.settings);
    if (found.best != nullptr) {
      finding.answer = Answer::kHeadroom;
      finding.bound_percent = found.percent;
      finding.evidence["default"] = standard_->name;
      finding.evidence["best"] = found.best->name;
      finding.evidence["times"] = {standard_->time, found.best->time};
      finding.why = fmt::format("{} takes {:.1f}% less than the default; {} were tried", found.best->name,
                                found.percent, reached);
    } else if (found.settled == found.settings) {
      finding.answer = Answer::kRuledOut;
      finding.bound_percent = band_percent();
      finding.why = fmt::format("{} were tried, and none is faster by more than {:.1f}%", reached, band_percent());
    } else {
      finding.answer = Answer::kNotMeasured;
      finding.why =
          fmt::format("{} were tried, and none of those is faster by more than {:.1f}%", reached, band_percent());
    }
  }

  void throughput(Finding& finding) {
    const auto* limit = std::get_if<Limit>(&evidence_.limit);
    const Code* code = std::get_if<Code>(&evidence_.code);
    if (limit == nullptr && code != nullptr) {
      finding.answer = Answer::kRuledOut;  // of units: their share of the loop is in the evidence
      finding.evidence = code->evidence;
      finding.why = fmt::format("{} bounds the loop; units that are not it are ruled out", code->binds);
      return;
    }
    if (limit == nullptr) return silent(finding, std::get<Silence>(evidence_.limit));
    if (standard_ == nullptr) return silent(finding, {Answer::kNotMeasured, "the default was not timed"});
    finding.evidence = limit->evidence;
    finding.evidence["limit"] = limit->time;
    finding.evidence["time"] = best_->time;
    const bool many = limit->unit.back() == 's';
    const std::string binds = fmt::format("{} bind{} at {:.0f}% of {} rate", limit->unit, many ? "" : "s",
                                          100 * std::min(1.0, limit->time / best_->time), many ? "their" : "its");
    share(finding, room_percent_ - claimed_percent_, binds,
          binds + "; what is above that is noise, or is another rung's");
  }

  void proof(Finding& finding) {
    const auto* checks = std::get_if<Checks>(&evidence_.checks);
    if (checks == nullptr) return silent(finding, std::get<Silence>(evidence_.checks));
    finding.answer = Answer::kRuledOut;
    finding.evidence = checks->evidence;
    finding.evidence["checked"] = checks->checked;
    finding.evidence["wrong"] = checks->wrong;
    finding.why = checks->wrong.empty() ? fmt::format("every one of {} outputs compared is right", checks->checked)
                                        : fmt::format("{} of {} settings are wrong and out: {}", checks->wrong.size(),
                                                      checks->checked, checks->wrong.front());
  }

  const Evidence& evidence_;
  const Settings& settings_;
  const Setting* standard_ = nullptr;  ///< null where it was not timed
  const Setting* best_ = nullptr;
  std::array<Gain, kRungs.size()> gains_{};
  double left_percent_ = 100;   ///< of the default's time, once the best knobs are chosen
  double room_percent_ = 100;   ///< of that, above the limit of the unit that binds
  double claimed_percent_ = 0;  ///< of that, by rungs that look into the best setting
};

}  // namespace

std::vector<Finding> climb(const Evidence& evidence, const Selection& selection) {
  std::vector<Finding> findings = Climb(evidence).findings();
  for (Finding& finding : findings) {
    finding.command = evidence.commands[static_cast<std::size_t>(finding.rung)];
    if (!selection.asks(finding.rung)) {
      const Rung rung = finding.rung;
      finding = {rung,
                 Answer::kNotMeasured,
                 std::nullopt,
                 "left out by " + selection.text(),
                 ordered_json::object(),
                 std::move(finding.command)};
    } else if (!finding.evidence.empty() && !finding.evidence.contains("file") && !evidence.stored.is_null()) {
      finding.evidence["stored"] = evidence.stored;
    }
  }
  return findings;
}

}  // namespace pinch::ladder
