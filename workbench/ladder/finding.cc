#include "workbench/ladder/finding.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/core/nearest.h"

namespace pinch::ladder {
namespace {

const std::vector<std::string>& rung_names() {
  static const std::vector<std::string> kNames = {"throughput", "pipeline", "schedule", "algebra",
                                                  "handoff",    "tactic",   "proof"};
  return kNames;
}

Result<std::size_t> place_of_rung(const std::string& name, const char* option) {
  const auto& names = rung_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is no rung; {} The rungs: {}", name, did_you_mean(name, names, 1), fmt::join(names, ", ")),
      option};
}

}  // namespace

std::string_view to_string(Rung rung) {
  return rung_names()[static_cast<std::size_t>(rung)];
}

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::kHeadroom:
      return "headroom";
    case Answer::kRuledOut:
      return "ruled_out";
    case Answer::kNotApplicable:
      return "not_applicable";
    case Answer::kNotMeasured:
      return "not_measured";
  }
  return "";
}

const Finding* next_to_try(std::span<const Finding> findings) {
  const Finding* next = nullptr;
  for (const Finding& finding : findings) {
    if (finding.answer != Answer::kHeadroom) continue;
    if (next == nullptr || finding.bound_percent > next->bound_percent) next = &finding;
  }
  return next;
}

Result<Selection> Selection::create(const std::string& until, const std::vector<std::string>& only,
                                    const std::vector<std::string>& skip) {
  Selection selection;
  const auto say = [&](const std::string& words) { selection.text_ += (selection.text_.empty() ? "" : " ") + words; };
  if (!until.empty()) {
    PINCH_ASSIGN(last, place_of_rung(until, "--until"));
    std::fill(selection.asked_.begin() + static_cast<std::ptrdiff_t>(last) + 1, selection.asked_.end(), false);
    say("--until " + until);
  }
  if (!only.empty()) {
    std::array<bool, kRungs.size()> kept{};
    for (const std::string& name : only) {
      PINCH_ASSIGN(place, place_of_rung(name, "--only"));
      kept[place] = selection.asked_[place];
    }
    selection.asked_ = kept;
    say(fmt::format("--only {}", fmt::join(only, ",")));
  }
  for (const std::string& name : skip) {
    PINCH_ASSIGN(place, place_of_rung(name, "--skip"));
    selection.asked_[place] = false;
  }
  if (!skip.empty()) say(fmt::format("--skip {}", fmt::join(skip, ",")));
  if (std::none_of(selection.asked_.begin(), selection.asked_.end(), [](bool asked) { return asked; }))
    return Error{ErrorCode::kInvalidArgument, "no rung is left to climb", selection.text_};
  return selection;
}

}  // namespace pinch::ladder
