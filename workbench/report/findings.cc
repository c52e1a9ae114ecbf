#include "workbench/report/findings.h"

#include <fmt/core.h>

namespace pinch::report {

using ladder::Answer;
using ladder::Finding;
using nlohmann::ordered_json;

namespace {

ordered_json bound_json(const Finding& finding) {
  return finding.bound_percent ? ordered_json(*finding.bound_percent) : ordered_json(nullptr);
}

}  // namespace

ordered_json findings_json(std::span<const Finding> findings) {
  auto rows = ordered_json::array();
  for (const Finding& finding : findings) {
    rows.push_back(
        {{"rung", to_string(finding.rung)},
         {"verdict", to_string(finding.answer)},
         {"bound_percent", bound_json(finding)},
         {"evidence", finding.evidence},
         {"command", finding.answer == Answer::kNotApplicable ? ordered_json(nullptr) : ordered_json(finding.command)},
         {"why", finding.why}});
  }
  return rows;
}

ordered_json next_json(std::span<const Finding> findings) {
  const Finding* next = ladder::next_to_try(findings);
  if (next == nullptr) return nullptr;
  return {{"rung", to_string(next->rung)}, {"bound_percent", bound_json(*next)}};
}

std::string findings_table(std::span<const Finding> findings) {
  std::string text = fmt::format("{:<11} {:<14} {:>7}\n", "rung", "verdict", "at most");
  for (const Finding& finding : findings) {
    const std::string bound = finding.bound_percent ? fmt::format("{:.1f}%", *finding.bound_percent) : "-";
    text += fmt::format("{:<11} {:<14} {:>7}  {}\n", to_string(finding.rung), to_string(finding.answer), bound,
                        finding.why);
    if (finding.answer == Answer::kNotMeasured) text += fmt::format("{:<35} {}\n", "", finding.command);
  }
  const Finding* next = ladder::next_to_try(findings);
  return text + (next == nullptr ? "next      nothing: no rung found headroom\n"
                                 : fmt::format("next      {}, which can bring {:.1f}% at most\n", to_string(next->rung),
                                               *next->bound_percent));
}

}  // namespace pinch::report
