// pinch check flake, compare and bisect on a page.
#include <fmt/core.h>

#include <algorithm>

#include "workbench/report/sections.h"

namespace pinch::report {

using nlohmann::ordered_json;

Section flake_section(const ordered_json& document, const std::string& name) {
  const double runs = document.at("runs").get<double>(), differing = document.at("differing").get<double>();
  const double upper = document.at("rate_upper_95").get<double>();
  Section section{"Flakes: " + name, {}, {}};
  const auto& missed = document.at("missed_probability");
  section.paragraphs.push_back(
      fmt::format("{}: {:.0f} of {:.0f} runs differ; the rate is below {:.3g} with 95% confidence, and a fault of {} "
                  "is missed {:.0f}% of the time.",
                  text_of(document.at("verdict")), differing, runs, upper, text_of(missed.at("rate")),
                  100 * missed.at("p").get<double>()));
  Figure figure{"Rate of other results",
                "Seen, and the one-sided 95% bound.",
                Bars{},
                {},
                {},
                {{"ending", "outputs", "runs"}, {}}};
  figure.bars->unit = "of all runs";
  figure.bars->list.push_back(
      {"differing", differing > 0 ? "headroom" : "quiet", differing / runs, differing / runs, upper});
  for (const auto& cluster : document.at("clusters"))
    figure.table.rows.push_back(
        {text_of(cluster.at("ending")), text_of(cluster.at("outputs")), text_of(cluster.at("runs"))});
  section.figures.push_back(std::move(figure));
  return section;
}

Section compare_section(const ordered_json& document, const std::string& name) {
  Section section{"Check: " + name, {}, {}};
  section.paragraphs.push_back(fmt::format("{} as {}: {}.", text_of(document.at("verdict")),
                                           text_of(document.at("gate")), text_of(document.at("reason"))));
  Figure figure{
      "Elements by distance",
      "How far an element is from the baseline's, in units in the last place.",
      Bars{},
      {},
      {},
      {{"output", "verdict", "relative L2", "largest difference", "differing", "of", "units in the last place"}, {}}};
  figure.bars->unit = "percent of the elements";
  const auto add = [&](const ordered_json& output) {
    const auto& candidate = output.at("candidate");
    const double elements = std::max(1.0, candidate.at("elements").get<double>());
    const std::string which = output.contains("output") ? text_of(output.at("output")) : "output";
    for (const auto& [edge, count] : candidate.at("ulps").items()) {
      figure.bars->list.push_back({fmt::format("{}: {}", which, edge),
                                   edge == "<=0" ? "best" : "headroom",
                                   100 * count.get<double>() / elements,
                                   {},
                                   {}});
    }
    figure.table.rows.push_back({which, text_of(output.at("verdict")), text_of(candidate.at("rel_l2")),
                                 text_of(candidate.at("max_abs")), text_of(candidate.at("differing")),
                                 text_of(candidate.at("elements")), pairs_text(candidate.at("ulps"))});
  };
  if (document.contains("outputs")) {
    for (const auto& output : document.at("outputs")) add(output);
  } else {
    add(document);
  }
  section.figures.push_back(std::move(figure));
  return section;
}

Section bisect_section(const ordered_json& document, const std::string& name) {
  Section section{"Bisect: " + name, {}, {}};
  section.paragraphs.push_back(
      fmt::format("{} settings in {} runs; the failing one fails in {:.0f}% of its runs, and a wrong answer has a "
                  "probability of at most {:.2g}.",
                  text_of(document.at("tests")), text_of(document.at("runs")),
                  100 * document.at("failure_rate").get<double>(), document.at("error_rate").get<double>()));
  Table table{{"knob", "passes with", "fails with"}, {}};
  for (const auto& knob : document.at("needed"))
    table.rows.push_back({text_of(knob.at("knob")), text_of(knob.at("pass")), text_of(knob.at("fail"))});
  section.figures.push_back(
      table_figure("What makes it fail", "All of these together; none can be left out.", std::move(table)));
  return section;
}

}  // namespace pinch::report
