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

std::string critical_text(const Analysis& a) {
  const auto took_part = [](const RoleReport& role) { return role.steps > 0; };
  if (std::count_if(a.roles.begin(), a.roles.end(), took_part) < 2) return ", the only role";
  if (a.critical_margin < 0)
    return fmt::format(", for which the others wait, though one is busier by {} of its time",
                       percent(-a.critical_margin));
  return fmt::format(", busier than the next role by {} of its time", percent(a.critical_margin));
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
  text += fmt::format("critical  {}{}; periods in {}\n", a.critical_role, critical_text(a), a.unit);
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

// The field if it is there and of this kind; else null, and `missing` is its name.
class Fields {
 public:
  explicit Fields(const ordered_json& object) : object_(object) {}
  const ordered_json* want(const char* name, bool (ordered_json::*kind)() const) {
    const auto field = object_.is_object() ? object_.find(name) : object_.end();
    if (field != object_.end() && ((*field).*kind)()) return &*field;
    if (missing_.empty()) missing_ = name;
    return nullptr;
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  const ordered_json& object_;
  std::string missing_;
};

std::string missing_of_role(const ordered_json& role) {
  Fields fields(role);
  fields.want("name", &ordered_json::is_string);
  for (const char* number : {"steps", "period_median", "busy"}) fields.want(number, &ordered_json::is_number);
  const ordered_json* waits = fields.want("waits", &ordered_json::is_object);
  if (!fields.missing().empty()) return "roles: " + fields.missing();
  const bool shares = std::all_of(waits->begin(), waits->end(), [](const ordered_json& w) { return w.is_number(); });
  return shares ? "" : "roles: waits";
}

std::string missing_of(const ordered_json& document) {
  Fields fields(document);
  const ordered_json* instrumented = fields.want("instrumented", &ordered_json::is_boolean);
  if (instrumented != nullptr && !instrumented->get<bool>()) return "instrumented";
  for (const char* text : {"unit", "critical_role", "level", "program"}) fields.want(text, &ordered_json::is_string);
  const ordered_json* roles = fields.want("roles", &ordered_json::is_array);
  if (!fields.missing().empty()) return fields.missing();
  for (const ordered_json& role : *roles) {
    if (const std::string missing = missing_of_role(role); !missing.empty()) return missing;
  }
  return "";
}

const ordered_json* role_that_took_part(const ordered_json& document, const ordered_json& name) {
  for (const ordered_json& role : document.at("roles")) {
    if (role.at("name") == name && role.at("steps") != 0) return &role;
  }
  return nullptr;
}

// Names of the roles that took part in `a` and not in `b`.
ordered_json only_in(const ordered_json& a, const ordered_json& b) {
  auto names = ordered_json::array();
  for (const ordered_json& role : a.at("roles")) {
    if (role.at("steps") != 0 && role_that_took_part(b, role.at("name")) == nullptr) names.push_back(role.at("name"));
  }
  return names;
}

std::string listed(const ordered_json& names) {
  std::string text;
  for (const ordered_json& name : names) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text;
}

}  // namespace

Result<void> check_document(const ordered_json& document, const std::string& where) {
  const std::string missing = missing_of(document);
  if (missing.empty()) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("not a document of pinch trace --json: `{}` is missing or of another kind", missing), where};
}

Result<ordered_json> compare(const ordered_json& a, const ordered_json& b) {
  PINCH_TRY(check_document(a, "A"));
  PINCH_TRY(check_document(b, "B"));
  if (a.at("unit") != b.at("unit")) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("A is in {} and B in {}; compare two traces of one kind", a.at("unit").dump(), b.at("unit").dump()),
        ""};
  }
  ordered_json result{{"instrumented", true},
                      {"unit", a.at("unit")},
                      {"program", {a.at("program"), b.at("program")}},
                      {"level", {a.at("level"), b.at("level")}},
                      {"critical_role", {a.at("critical_role"), b.at("critical_role")}},
                      {"period_moved", nullptr},
                      {"wait_moved", nullptr},
                      {"roles", ordered_json::array()},
                      {"only_in", {only_in(a, b), only_in(b, a)}}};
  double most_period = 0, most_wait = 0;
  for (const ordered_json& x : a.at("roles")) {
    const ordered_json* y = role_that_took_part(b, x.at("name"));
    if (y == nullptr || x.at("steps") == 0) continue;
    const double before = x.at("period_median"), after = y->at("period_median");
    const bool periods = before > 0 && after > 0;  // a role of one step a track has none
    const double change = periods ? after / before - 1 : 0;
    if (std::abs(change) > std::abs(most_period)) {
      most_period = change;
      result["period_moved"] = {{"role", x.at("name")}, {"change", change}};
    }
    ordered_json waits = ordered_json::object();
    for (const ordered_json* side : {&x, y}) {
      for (const auto& [cause, share] : side->at("waits").items()) {
        if (waits.contains(cause)) continue;
        const double from = x.at("waits").value(cause, 0.0), to = y->at("waits").value(cause, 0.0);
        waits[cause] = {from, to};
        if (std::abs(to - from) > std::abs(most_wait)) {
          most_wait = to - from;
          result["wait_moved"] = {{"role", x.at("name")}, {"wait", cause}, {"change", to - from}};
        }
      }
    }
    result["roles"].push_back({{"name", x.at("name")},
                               {"period_median", {before, after}},
                               {"period_change", periods ? ordered_json(change) : ordered_json(nullptr)},
                               {"busy", {x.at("busy"), y->at("busy")}},
                               {"waits", std::move(waits)}});
  }
  if (result["roles"].empty()) {
    return Error{ErrorCode::kInvalidArgument, "the two traces share no role", ""};
  }
  return result;
}

std::string compare_table(const ordered_json& c) {
  std::string text = fmt::format("{:<14} {:>11} {:>11} {:>8} {:>17}  waits (A to B)\n", "role", "period A", "period B",
                                 "change", "busy A to B");
  for (const ordered_json& role : c["roles"]) {
    std::string waits;
    for (const auto& [cause, share] : role["waits"].items())
      waits += fmt::format("{}{} {} to {}", waits.empty() ? "" : ", ", cause, percent(share[0].get<double>()),
                           percent(share[1].get<double>()));
    text += fmt::format(
        "{:<14} {:>11.1f} {:>11.1f} {:>8} {:>17}  {}\n", role["name"].get<std::string>(),
        role["period_median"][0].get<double>(), role["period_median"][1].get<double>(),
        role["period_change"].is_null() ? "-" : fmt::format("{:+.1f}%", 100 * role["period_change"].get<double>()),
        percent(role["busy"][0].get<double>()) + " to " + percent(role["busy"][1].get<double>()),
        waits.empty() ? "-" : waits);
  }
  const char* sides[] = {"A", "B"};
  for (std::size_t side = 0; side < 2; ++side) {
    if (!c["only_in"][side].empty()) text += fmt::format("only in {} {}\n", sides[side], listed(c["only_in"][side]));
  }
  if (c["program"][0] != c["program"][1])
    text += fmt::format("program   {} in A, {} in B\n", c["program"][0].get<std::string>(),
                        c["program"][1].get<std::string>());
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
  if (c["level"][0] != c["level"][1]) {
    text += fmt::format("  ! A is a {} trace and B a {} one: what marks cost is part of the difference\n",
                        c["level"][0].get<std::string>(), c["level"][1].get<std::string>());
  }
  return text + "periods in " + c["unit"].get<std::string>() +
         "; how much two traces of one build differ is yours to measure: trace it twice\n";
}

}  // namespace pinch::trace
