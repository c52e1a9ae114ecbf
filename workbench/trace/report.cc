#include "workbench/trace/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace pinch::trace {
namespace {

using nlohmann::ordered_json;

std::string percent(double fraction) {
  return fmt::format("{:.1f}%", 100 * fraction);
}

std::string inflation_text(const Cost& cost, Level level) {
  const auto inflation = cost.inflation(level);
  if (!inflation) return fmt::format("{} not measured", to_string(level));
  const measure::Interval known = cost.inflation_interval(level);
  return fmt::format("{} {:+.1f}% ({:+.1f} to {:+.1f})", to_string(level), 100 * *inflation, 100 * known.low,
                     100 * known.high);
}

std::string first_reason(const Cost& cost) {
  for (const LevelTimes& times : cost.times) {
    if (!times.why.empty()) return " (" + times.why + ")";
  }
  return "";
}

std::string warnings(const Analysis& a, const Cost& cost) {
  std::string text;
  const auto warn = [&](bool when, const std::string& what) {
    if (when) text += "  ! " + what + "\n";
  };
  warn(a.steady_groups < a.groups,
       fmt::format("no steady state in {} of {} groups: figures there are of the whole trace",
                   a.groups - a.steady_groups, a.groups));
  warn(a.lost_events > 0, fmt::format("{} events were lost; larger buffers keep them", a.lost_events));
  warn(a.lost_tracks > 0, fmt::format("{} threads or warps found no buffer", a.lost_tracks));
  warn(a.unfinished_tracks > 0, fmt::format("{} tracks never ended", a.unfinished_tracks));
  warn(a.stray_events > 0, fmt::format("{} waits or phases were outside any step", a.stray_events));
  warn(a.backward_stamps > 0, fmt::format("{} stamps were before their predecessors", a.backward_stamps));
  warn(a.missed_wraps > 0,
       fmt::format("the clocks of {} tracks wrapped unseen: their times are too short", a.missed_wraps));
  warn(a.clock_varies && a.unit == "ns", "the clock's rate is not constant");
  for (const RoleReport& role : a.roles)
    warn(role.unmarked, role.name + " has no mark of a wait: what it waits for counts as busy");
  if (!cost.inflation(Level::kCoarse)) {
    warn(true, fmt::format("what tracing cost is not known{}: read shares, not absolute times", first_reason(cost)));
  } else {
    warn(!cost.absolute(),
         fmt::format("coarse tracing cost more than {}: read shares, not absolute times", percent(kMostInflation)));
  }
  warn(a.level == Level::kDetailed, "a detailed trace: take absolute times from a coarse one");
  return text;
}

}  // namespace

std::string to_table(const Analysis& a, const Cost& cost) {
  std::string text =
      fmt::format("{}, {} trace: {} events of {} tracks in {} groups on {} units\n",
                  a.program.empty() ? "program" : a.program, to_string(a.level), a.events, a.tracks, a.groups, a.units);
  text += fmt::format("{:<14} {:>9} {:>11} {:>11} {:>11} {:>7} {:>7}  waits\n", "role", "steps", "period", "p99",
                      "busy a step", "busy", "outside");
  for (const RoleReport& role : a.roles) {
    if (role.steps == 0) continue;
    std::string waits;
    for (const auto& wait : role.waits)
      waits += fmt::format("{}{} {}", waits.empty() ? "" : ", ", wait.name, percent(wait.fraction));
    text += fmt::format("{:<14} {:>9} {:>11.1f} {:>11.1f} {:>11.1f} {:>7} {:>7}  {}\n", role.name, role.steps,
                        role.period_median, role.period_p99, role.busy_median, percent(role.busy),
                        percent(role.outside), waits.empty() ? "-" : waits);
  }
  text += fmt::format("critical  {}, busier than the next role by {} of its time; periods in {}\n", a.critical_role,
                      percent(a.critical_margin), a.unit);
  if (!a.matrix.role.empty()) {
    text +=
        fmt::format("matrix    {} busy {}, bubbles {} ({}, median {:.1f}, longest {:.1f} {}){}\n", a.matrix.role,
                    percent(a.matrix.busy), percent(a.matrix.bubbles), a.matrix.bubble_count, a.matrix.bubble_median,
                    a.matrix.bubble_longest, a.unit, a.matrix.has_p ? ", waits for P " + percent(a.matrix.wait_p) : "");
  }
  text += fmt::format("steady    {} of {} groups, {} of their time; before {:.1f} us, after {:.1f} us\n",
                      a.steady_groups, a.groups, percent(a.steady_share), a.startup_ns * 1e-3, a.tail_ns * 1e-3);
  std::string uneven;
  for (const RoleReport& role : a.roles) {
    if (role.slowest_track > 0)
      uneven += fmt::format("{}{} {:.3f}", uneven.empty() ? "" : ", ", role.name, role.slowest_track);
  }
  if (a.units > 1)
    uneven += fmt::format("{}unit {} {:.3f}", uneven.empty() ? "" : "; ", a.slowest_unit, a.unit_imbalance);
  if (!uneven.empty()) text += "uneven    slowest over median track or unit: " + uneven + "\n";
  text += fmt::format("cost      {}, {}", inflation_text(cost, Level::kCoarse), inflation_text(cost, Level::kDetailed));
  if (const auto& base = cost.times[0].ns; base.size() > 2)
    text += fmt::format("; untraced known to {} over {} rounds, timed by {}", percent(cost.noise()), base.size(),
                        cost.timed_by);
  return text + "\n" + warnings(a, cost);
}

ordered_json to_json(const Analysis& a, const Cost& cost) {
  const auto number = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json(nullptr);
  };
  const auto interval = [&](Level level) -> ordered_json {
    if (!cost.inflation(level)) return nullptr;
    const measure::Interval known = cost.inflation_interval(level);
    return {known.low, known.high};
  };
  auto roles = ordered_json::array();
  for (const RoleReport& role : a.roles) {
    ordered_json waits = ordered_json::object();
    for (const auto& wait : role.waits) waits[wait.name] = wait.fraction;
    roles.push_back({{"name", role.name},
                     {"steps", role.steps},
                     {"period_median", role.period_median},
                     {"period_p99", role.period_p99},
                     {"busy", role.busy},
                     {"waits", std::move(waits)},
                     {"busy_median", role.busy_median},
                     {"outside", role.outside},
                     {"blamed", role.blamed},
                     {"tracks", role.tracks},
                     {"steady_steps", role.steady_steps},
                     {"slowest_track", role.slowest_track},
                     {"unfinished", role.unfinished},
                     {"unmarked", role.unmarked}});
  }
  ordered_json matrix = nullptr;
  if (!a.matrix.role.empty()) {
    matrix = {{"role", a.matrix.role},
              {"busy", a.matrix.busy},
              {"wait_p", a.matrix.has_p ? ordered_json(a.matrix.wait_p) : ordered_json(nullptr)},
              {"bubbles",
               {{"fraction", a.matrix.bubbles},
                {"count", a.matrix.bubble_count},
                {"median", a.matrix.bubble_median},
                {"longest", a.matrix.bubble_longest}}}};
  }
  ordered_json times = ordered_json::object(), why = ordered_json::object();
  for (std::size_t level = 0; level < cost.times.size(); ++level) {
    const std::string name(to_string(static_cast<Level>(level)));
    times[name] = cost.times[level].ns;
    if (!cost.times[level].why.empty()) why[name] = cost.times[level].why;
  }
  return {
      {"instrumented", true},
      {"program", a.program},
      {"level", to_string(a.level)},
      {"inflation",
       {{"coarse", number(cost.inflation(Level::kCoarse))}, {"detailed", number(cost.inflation(Level::kDetailed))}}},
      {"inflation_interval", {{"coarse", interval(Level::kCoarse)}, {"detailed", interval(Level::kDetailed)}}},
      {"absolute", cost.absolute() && a.level == Level::kCoarse},
      {"roles", std::move(roles)},
      {"critical_role", a.critical_role},
      {"critical_margin", a.critical_margin},
      {"unit", a.unit},
      {"matrix", std::move(matrix)},
      {"steady",
       {{"groups", a.groups},
        {"found", a.steady_groups},
        {"share", a.steady_share},
        {"startup_ns", a.startup_ns},
        {"tail_ns", a.tail_ns},
        {"span_ns", a.span_ns}}},
      {"units", {{"count", a.units}, {"slowest", a.slowest_unit}, {"slowest_over_median", a.unit_imbalance}}},
      {"tracks", a.tracks},
      {"events", a.events},
      {"lost_events", a.lost_events},
      {"lost_tracks", a.lost_tracks},
      {"unfinished_tracks", a.unfinished_tracks},
      {"stray_events", a.stray_events},
      {"backward_stamps", a.backward_stamps},
      {"missed_wraps", a.missed_wraps},
      {"cost",
       {{"timed_by", cost.timed_by},
        {"untraced_noise", number(cost.times[0].ns.size() < 3 ? std::nullopt : std::optional(cost.noise()))},
        {"ns", times},
        {"not_measured", why}}}};
}

namespace {

Result<ordered_json> compare_checked(const ordered_json& a, const ordered_json& b) {
  for (const ordered_json* document : {&a, &b}) {
    if (!document->is_object() || document->value("instrumented", false) != true || !document->contains("roles") ||
        !document->contains("unit")) {
      return Error{ErrorCode::kInvalidArgument, "not a document of pinch trace --json", document == &a ? "A" : "B"};
    }
  }
  if (a.at("unit") != b.at("unit")) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("A is in {} and B in {}; compare two traces of one kind", a.at("unit").dump(), b.at("unit").dump()),
        ""};
  }
  ordered_json result{{"instrumented", true},
                      {"unit", a.at("unit")},
                      {"critical_role", {a.at("critical_role"), b.at("critical_role")}},
                      {"period_moved", nullptr},
                      {"wait_moved", nullptr},
                      {"roles", ordered_json::array()}};
  double most_period = 0, most_wait = 0;
  for (const ordered_json& x : a.at("roles")) {
    const auto y = std::find_if(b.at("roles").begin(), b.at("roles").end(),
                                [&](const ordered_json& r) { return r.at("name") == x.at("name"); });
    if (y == b.at("roles").end() || x.at("steps") == 0 || (*y)["steps"] == 0) continue;
    const double before = x.at("period_median"), after = (*y)["period_median"];
    const double change = before > 0 ? after / before - 1 : 0;
    if (std::abs(change) > std::abs(most_period)) {
      most_period = change;
      result["period_moved"] = {{"role", x.at("name")}, {"change", change}};
    }
    ordered_json waits = ordered_json::object();
    for (const ordered_json* side : {&x, &*y}) {
      for (const auto& [cause, share] : (*side)["waits"].items()) {
        if (waits.contains(cause)) continue;
        const double from = x.at("waits").value(cause, 0.0), to = (*y)["waits"].value(cause, 0.0);
        waits[cause] = {from, to};
        if (std::abs(to - from) > std::abs(most_wait)) {
          most_wait = to - from;
          result["wait_moved"] = {{"role", x.at("name")}, {"wait", cause}, {"change", to - from}};
        }
      }
    }
    result["roles"].push_back({{"name", x.at("name")},
                               {"period_median", {before, after}},
                               {"period_change", change},
                               {"busy", {x.at("busy"), (*y)["busy"]}},
                               {"waits", std::move(waits)}});
  }
  if (result["roles"].empty()) {
    return Error{ErrorCode::kInvalidArgument, "the two traces share no role", ""};
  }
  return result;
}

}  // namespace

Result<ordered_json> compare(const ordered_json& a, const ordered_json& b) {
  try {
    return compare_checked(a, b);
  } catch (const nlohmann::json::exception& error) {  // a field is missing, or of another type
    return Error{ErrorCode::kInvalidArgument, fmt::format("not a document of pinch trace --json: {}", error.what()),
                 ""};
  }
}

std::string compare_table(const ordered_json& c) {
  std::string text = fmt::format("{:<14} {:>11} {:>11} {:>8} {:>17}  waits (A to B)\n", "role", "period A", "period B",
                                 "change", "busy A to B");
  for (const ordered_json& role : c["roles"]) {
    std::string waits;
    for (const auto& [cause, share] : role["waits"].items())
      waits += fmt::format("{}{} {} to {}", waits.empty() ? "" : ", ", cause, percent(share[0].get<double>()),
                           percent(share[1].get<double>()));
    text += fmt::format("{:<14} {:>11.1f} {:>11.1f} {:>+7.1f}% {:>17}  {}\n", role["name"].get<std::string>(),
                        role["period_median"][0].get<double>(), role["period_median"][1].get<double>(),
                        100 * role["period_change"].get<double>(),
                        percent(role["busy"][0].get<double>()) + " to " + percent(role["busy"][1].get<double>()),
                        waits.empty() ? "-" : waits);
  }
  const auto a = c["critical_role"][0].get<std::string>(), b = c["critical_role"][1].get<std::string>();
  text += a == b ? fmt::format("critical  {} in both\n", a) : fmt::format("critical  {} in A, {} in B\n", a, b);
  if (!c["period_moved"].is_null()) {
    text += fmt::format("moved     the period of {} by {:+.1f}%", c["period_moved"]["role"].get<std::string>(),
                        100 * c["period_moved"]["change"].get<double>());
    if (!c["wait_moved"].is_null()) {
      text += fmt::format("; the wait of {} for {} by {:+.1f} points of its time",
                          c["wait_moved"]["role"].get<std::string>(), c["wait_moved"]["wait"].get<std::string>(),
                          100 * c["wait_moved"]["change"].get<double>());
    }
    text += "\n";
  }
  return text + "periods in " + c["unit"].get<std::string>() +
         "; how much two traces of one build differ is yours to measure: trace it twice\n";
}

}  // namespace pinch::trace
