#include "workbench/probe/model.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <type_traits>

namespace pinch::probe {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kSchema = "pinch-probe/1";
// A pair decides only where its two ends are this far apart: more than what is within kMaxSpread of both.
constexpr double kLeastDecisive = 1.2;
static_assert(kLeastDecisive > (1 + kMaxSpread) * (1 + kMaxSpread));

double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

Origin origin_named(const std::string& name) {
  for (const Origin origin : {Origin::kAssumed, Origin::kCited, Origin::kMeasured}) {
    if (name == name_of(origin)) return origin;
  }
  throw std::invalid_argument(fmt::format("origin '{}' is none of assumed, cited, measured", name));
}

// The fields of text that every entry has.
template <class E>
auto texts(E& entry) {
  return std::array{std::pair("method", &entry.method), std::pair("proof", &entry.proof),
                    std::pair("source", &entry.source), std::pair("device", &entry.device),
                    std::pair("date", &entry.date),     std::pair("tools", &entry.tools)};
}

bool is_date(const std::string& text) {
  const std::string_view form = "0000-00-00";
  const bool formed = text.size() == form.size() &&
                      std::equal(form.begin(), form.end(), text.begin(),
                                 [](char want, char c) { return want == '0' ? c >= '0' && c <= '9' : c == want; });
  if (!formed) return false;
  const auto part = [&](std::size_t at, std::size_t size) { return std::stoi(text.substr(at, size)); };
  return std::chrono::year_month_day(std::chrono::year(part(0, 4)),
                                     std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                     std::chrono::day(static_cast<unsigned>(part(8, 2))))
      .ok();
}

bool is_too_much(const Overlap& pair) {
  return pair.overlap && *pair.overlap > (1 + kMaxSpread) * pair.most;
}

// A field of the wrong kind, or none where one must be, by its name.
template <class T>
T field(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) throw std::invalid_argument(fmt::format("an object with {} must be given", key));
  const auto found = json.find(key);
  if (found == json.end()) throw std::invalid_argument(fmt::format("{} must be given", key));
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) throw std::invalid_argument(fmt::format("{} must be a text", key));
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) throw std::invalid_argument(fmt::format("{} must be true or false", key));
  } else if constexpr (std::is_same_v<T, double>) {
    if (!found->is_number()) throw std::invalid_argument(fmt::format("{} must be a number", key));
  }
  return found->get<T>();
}

template <class T>
T field_or(const nlohmann::json& json, const char* key, T otherwise) {
  return json.contains(key) ? field<T>(json, key) : otherwise;
}

std::optional<double> number_or_none(const nlohmann::json& json, const char* key) {
  if (field<nlohmann::json>(json, key).is_null()) return std::nullopt;
  return field<double>(json, key);
}

std::string name_in(const nlohmann::json& json, const char* key) {
  auto name = field<std::string>(json, key);
  if (name.empty()) throw std::invalid_argument(fmt::format("{} must not be empty", key));
  return name;
}

nlohmann::json list_in(const nlohmann::json& json, const char* key) {
  auto list = field<nlohmann::json>(json, key);
  if (!list.is_array()) throw std::invalid_argument(fmt::format("{} must be a list", key));
  return list;
}

Entry parse_entry(const nlohmann::json& json) {
  Entry entry;
  entry.name = name_in(json, "name");
  const auto wrong = [&](const std::string& what) { throw std::invalid_argument(entry.name + ": " + what); };
  try {
    entry.value = number_or_none(json, "value");
    entry.unit = field<std::string>(json, "unit");
    entry.spread = field<double>(json, "spread");
    entry.origin = origin_named(field<std::string>(json, "origin"));
    entry.proved = field<bool>(json, "proved");
    for (const auto& [key, text] : texts(entry)) {
      *text = field<std::string>(json, key);
      if (text->empty()) throw std::invalid_argument(fmt::format("{} must be given", key));
    }
    for (const auto& [key, text] :
         {std::pair("opcode", &entry.opcode), {"also", &entry.also}, {"group", &entry.group}, {"mark", &entry.mark}})
      *text = field_or<std::string>(json, key, "");
  } catch (const std::exception& error) {
    wrong(error.what());
  }
  if (std::find(units().begin(), units().end(), entry.unit) == units().end())
    wrong(fmt::format("unit '{}' is none of {}", entry.unit, fmt::join(units(), ", ")));
  if (entry.value && !(*entry.value > 0 && std::isfinite(*entry.value))) wrong("value must be above 0, or null");
  if (!(entry.spread >= 0 && std::isfinite(entry.spread))) wrong("spread must be 0 or more");
  if (!is_date(entry.date)) wrong(fmt::format("date '{}' is no day of the form 2026-11-30", entry.date));
  if (entry.spread > kMaxSpread && entry.mark.empty()) wrong("a spread above 5% must be marked");
  const bool of_code = !entry.opcode.empty() || (entry.unit != "GB/s" && entry.unit != "GHz" && entry.unit != "ratio");
  if (entry.origin == Origin::kMeasured && entry.value && of_code && !entry.proved)
    wrong("a measured value of an instruction must be proved");
  return entry;
}

Overlap parse_pair(const nlohmann::json& json, const Model& model) {
  Overlap pair;
  pair.first = name_in(json, "first");
  pair.second = name_in(json, "second");
  const auto wrong = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("{} + {}: {}", pair.first, pair.second, what));
  };
  try {
    pair.overlap = number_or_none(json, "overlap");
    pair.most = field<double>(json, "most");
    pair.spread = field<double>(json, "spread");
    pair.proved = field<bool>(json, "proved");
    pair.mark = field_or<std::string>(json, "mark", "");
  } catch (const std::exception& error) {
    wrong(error.what());
  }
  const auto is_number = [](double v, double above) { return std::isfinite(v) && v > above; };
  if ((pair.overlap && !is_number(*pair.overlap, 0)) || !is_number(pair.most, 0) || !(pair.spread >= 0) ||
      !std::isfinite(pair.spread))
    wrong("overlap and most must be above 0, spread 0 or more");
  if (pair.spread > kMaxSpread && pair.mark.empty()) wrong("a spread above 5% must be marked");
  if (is_too_much(pair) && pair.mark.empty()) wrong("an overlap more than 5% above most must be marked");
  for (const std::string* name : {&pair.first, &pair.second}) {
    if (model.find(*name) == nullptr) wrong(*name + " is none of the entries");
  }
  for (const Overlap& p : model.pairs) {
    if ((p.first == pair.first && p.second == pair.second) || (p.first == pair.second && p.second == pair.first))
      wrong("is listed twice");
  }
  return pair;
}

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

std::string_view name_of(Origin origin) {
  constexpr std::string_view kNames[] = {"assumed", "cited", "measured"};
  return kNames[static_cast<int>(origin)];
}

const std::vector<std::string>& units() {
  static const std::vector<std::string> names = {
      "lanes/clk/SM", "instructions/cycle/core", "cycles", "GB/s", "GHz", "ratio", "bytes/clk/SM"};
  return names;
}

const Entry* Model::find(std::string_view wanted) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == wanted; });
  return found == entries.end() ? nullptr : &*found;
}

namespace {
void mark_spread(double spread, std::string& mark) {
  if (spread > kMaxSpread)
    mark =
        fmt::format("spread {:.1f}% over {:.0f}%: the device was shared or throttled", 100 * spread, 100 * kMaxSpread);
}
}  // namespace

void mark_spread(Entry& entry) {
  mark_spread(entry.spread, entry.mark);
}

void mark_spread(Overlap& pair) {
  mark_spread(pair.spread, pair.mark);
  if (pair.mark.empty() && is_too_much(pair))
    pair.mark = fmt::format("overlap {:.2f} over the most that is possible, {:.2f}: one of the two was slower alone",
                            *pair.overlap, pair.most);
}

void state_origin(Entry& entry, const Model& model) {
  entry.source = "measured by pinch probe";
  entry.device = model.device;
  entry.date = model.date;
  for (const auto& [tool, version] : model.tools)
    entry.tools += fmt::format("{}{} {}", entry.tools.empty() ? "" : ", ", tool, version);
}

ordered_json to_json(const Model& model) {
  auto entries = ordered_json::array(), pairs = ordered_json::array();
  for (const Entry& e : model.entries) {
    ordered_json one{{"name", e.name},
                     {"value", e.value ? ordered_json(rounded(*e.value)) : ordered_json(nullptr)},
                     {"unit", e.unit},
                     {"spread", rounded(e.spread)},
                     {"origin", name_of(e.origin)},
                     {"proved", e.proved}};
    for (const auto& [key, text] : texts(e)) one[key] = *text;
    for (const auto& [key, text] :
         {std::pair("opcode", &e.opcode), {"also", &e.also}, {"group", &e.group}, {"mark", &e.mark}}) {
      if (!text->empty()) one[key] = *text;
    }
    entries.push_back(std::move(one));
  }
  for (const Overlap& p : model.pairs) {
    ordered_json one{{"first", p.first},
                     {"second", p.second},
                     {"overlap", p.overlap ? ordered_json(rounded(*p.overlap)) : ordered_json(nullptr)},
                     {"most", rounded(p.most)},
                     {"spread", rounded(p.spread)},
                     {"proved", p.proved}};
    if (!p.mark.empty()) one["mark"] = p.mark;
    pairs.push_back(std::move(one));
  }
  ordered_json document{{"schema", kSchema}, {"name", model.name}, {"device", model.device}};
  if (!model.arch.empty()) document["arch"] = model.arch;
  if (!model.applies_to.empty()) document["applies_to"] = model.applies_to;
  document["date"] = model.date;
  document["tools"] = model.tools;
  document["entries"] = std::move(entries);
  document["pairs"] = std::move(pairs);
  return document;
}

Result<Model> parse_model(std::string_view text, const std::string& where) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{ErrorCode::kCorrupt, "a machine model is a JSON object", where};
  Model model;
  try {
    if (field<std::string>(json, "schema") != kSchema)
      throw std::invalid_argument(fmt::format("schema must be \"{}\"", kSchema));
    model.name = name_in(json, "name");
    model.device = name_in(json, "device");
    model.arch = field_or<std::string>(json, "arch", "");
    model.applies_to = field_or<std::string>(json, "applies_to", "");
    model.date = field_or<std::string>(json, "date", "");
    if (const auto tools = json.find("tools"); tools != json.end()) {
      if (!tools->is_object()) throw std::invalid_argument("tools must be an object of texts");
      for (const auto& [tool, version] : tools->items()) model.tools[tool] = field<std::string>(*tools, tool.c_str());
    }
    for (const auto& entry : list_in(json, "entries")) {
      model.entries.push_back(parse_entry(entry));
      const std::string& name = model.entries.back().name;
      if (model.find(name) != &model.entries.back()) throw std::invalid_argument(name + " is listed twice");
    }
    if (model.entries.empty()) throw std::invalid_argument("entries has none");
    if (json.contains("pairs")) {
      for (const auto& pair : list_in(json, "pairs")) model.pairs.push_back(parse_pair(pair, model));
    }
  } catch (const std::exception& error) {
    return Error{ErrorCode::kCorrupt, error.what(), where};
  }
  return model;
}

Result<void> may_merge(const Model& into, const Model& other, const std::string& where) {
  if (into.device == other.device) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("holds a model of '{}', and this is '{}'; give another file", into.device, other.device),
               where};
}

std::vector<std::string> merge(Model& into, const Model& other) {
  std::vector<std::string> lines;
  for (const Entry& entry : other.entries) {
    const auto mine =
        std::find_if(into.entries.begin(), into.entries.end(), [&](const Entry& e) { return e.name == entry.name; });
    if (mine == into.entries.end()) {
      into.entries.push_back(entry);
      continue;
    }
    // A measurement that failed its proof or was spoilt is no better than what is there.
    const auto rank = [](const Entry& e) { return !e.value ? -1 : static_cast<int>(e.origin); };
    const bool spoils = !entry.mark.empty() && mine->mark.empty() && mine->origin == Origin::kMeasured;
    const bool takes = rank(entry) >= rank(*mine) && rank(entry) >= 0 && !spoils;
    lines.push_back(fmt::format("{}: kept the {} value of {} over the {} one of {}", entry.name,
                                name_of(takes ? entry.origin : mine->origin), takes ? other.name : into.name,
                                name_of(takes ? mine->origin : entry.origin), takes ? into.name : other.name));
    if (takes) *mine = entry;
  }
  for (const Overlap& pair : other.pairs) {
    const auto mine = std::find_if(into.pairs.begin(), into.pairs.end(),
                                   [&](const Overlap& p) { return p.first == pair.first && p.second == pair.second; });
    const bool spoils = mine != into.pairs.end() && mine->overlap && mine->mark.empty() && !pair.mark.empty();
    if (spoils || (mine != into.pairs.end() && mine->overlap && !pair.overlap)) continue;
    std::erase_if(into.pairs, [&](const Overlap& p) { return p.first == pair.first && p.second == pair.second; });
    into.pairs.push_back(pair);
  }
  return lines;
}

Sharing sharing_of(const Overlap& pair) {
  if (!pair.proved || !pair.overlap || !pair.mark.empty() || pair.most < kLeastDecisive) return Sharing::kUnknown;
  // One unit raises a bound, so all of the repeats must say so; a mix that is slower than both in turn is more than
  // that.
  if (*pair.overlap * (1 - pair.spread) >= 1 - kMaxSpread && *pair.overlap * (1 + pair.spread) <= 1 + kMaxSpread)
    return Sharing::kOneUnit;
  return *pair.overlap * (1 + kMaxSpread) >= pair.most ? Sharing::kApart : Sharing::kUnknown;
}

void group_by_overlap(Model& model) {
  std::map<std::string, std::string> leader;
  const auto root = [&](std::string name) {
    while (leader.count(name) > 0 && leader[name] != name) name = leader[name];
    return name;
  };
  for (const Overlap& pair : model.pairs) {
    leader.try_emplace(pair.first, pair.first);
    leader.try_emplace(pair.second, pair.second);
    if (sharing_of(pair) != Sharing::kOneUnit) continue;
    const std::string a = root(pair.first), b = root(pair.second);
    leader[std::max(a, b)] = std::min(a, b);
  }
  for (Entry& entry : model.entries) {
    if (leader.count(entry.name) > 0) entry.group = root(entry.name);
  }
}

}  // namespace pinch::probe
