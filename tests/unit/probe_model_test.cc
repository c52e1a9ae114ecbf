// Machine models: whole, merged and grouped.
#include <gmock/gmock.h>

#include <fmt/core.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/probe_entry.h"
#include "workbench/probe/model.h"

namespace pinch::probe {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(MachineModel, ComesBackFromItsText) {
  Model model;
  model.name = "m";
  model.device = "d";
  model.date = "2026-01-02";
  model.tools["ptxas"] = "13.0";
  model.entries = {entry_of("a", 16, Origin::kMeasured), entry_of("b", 62.7, Origin::kCited)};
  model.entries[0].opcode = "MUFU.EX2";
  model.entries[0].proved = true;
  model.entries[0].proof = "64 MUFU.EX2";
  model.entries[0].spread = 0.08;
  mark_spread(model.entries[0]);
  Entry failed = entry_of("c", 1, Origin::kMeasured);
  failed.value.reset();
  failed.opcode = "MUFU.RCP";
  model.entries.push_back(failed);
  model.applies_to = "d.*";
  model.pairs = {{"a", "b", 1.02, 2, 0.01, true, ""}, {"a", "c", {}, 2, 0, true, "not measured"}};
  const std::string text = to_json(model).dump();
  const auto read = parse_model(text, "text");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(to_json(*read).dump(), text);
  EXPECT_THAT(read->entries[0].mark, HasSubstr("spread 8.0%"));
  EXPECT_FALSE(read->entries[2].value.has_value());
}

TEST(MachineModel, IsRefusedWhereItSaysTooLittle) {
  const nlohmann::json good = {{"name", "a"},       {"value", 1},      {"unit", "cycles"},     {"spread", 0},
                               {"origin", "cited"}, {"proved", false}, {"method", "m"},        {"proof", "p"},
                               {"source", "s"},     {"device", "d"},   {"date", "2026-01-02"}, {"tools", "t"}};
  const auto parse = [](const std::vector<nlohmann::json>& entries) {
    const nlohmann::json model = {{"schema", "pinch-probe/1"}, {"name", "n"}, {"device", "d"}, {"entries", entries}};
    const auto read = parse_model(model.dump(), "planted");
    return read.ok() ? std::string() : read.error().message();
  };
  EXPECT_EQ(parse({good}), "");
  for (const auto& [field, value] : good.items()) {
    nlohmann::json entry = good;
    entry.erase(field);
    EXPECT_THAT(parse({entry}), HasSubstr(field + " must be given"));
    entry[field] = nlohmann::json::array();
    EXPECT_THAT(parse({entry}), AllOf(HasSubstr(field + " must be"), Not(HasSubstr("json"))));
    if (!value.is_string()) continue;
    entry[field] = "";
    EXPECT_THAT(parse({entry}), HasSubstr(field)) << field;
  }
  const auto change = [&](const std::string& field, const nlohmann::json& value) {
    nlohmann::json entry = good;
    entry[field] = value;
    return parse({entry});
  };
  EXPECT_THAT(change("unit", "furlongs"), HasSubstr("unit 'furlongs' is none of"));
  EXPECT_THAT(change("origin", "guessed"), HasSubstr("assumed, cited, measured"));
  EXPECT_THAT(change("value", -1), HasSubstr("above 0"));
  EXPECT_THAT(change("spread", -1), HasSubstr("spread"));
  EXPECT_THAT(change("date", "yesterday"), HasSubstr("2026-11-30"));
  EXPECT_THAT(change("date", "2026-02-30"), HasSubstr("no day"));
  EXPECT_THAT(change("date", "2026-13-01"), HasSubstr("no day"));
  EXPECT_THAT(change("spread", 0.06), HasSubstr("must be marked"));
  nlohmann::json measured = good;
  measured["origin"] = "measured";
  measured["opcode"] = "FFMA";
  EXPECT_THAT(parse({measured}), HasSubstr("must be proved"));
  measured.erase("opcode");
  EXPECT_THAT(parse({measured}), HasSubstr("must be proved"));
  measured["unit"] = "GB/s";
  EXPECT_EQ(parse({measured}), "");
  const auto parse_pairs = [&](const std::vector<nlohmann::json>& pairs) {
    nlohmann::json second = good;
    second["name"] = "b";
    const nlohmann::json model = {
        {"schema", "pinch-probe/1"}, {"name", "n"}, {"device", "d"}, {"entries", {good, second}}, {"pairs", pairs}};
    const auto read = parse_model(model.dump(), "planted");
    return read.ok() ? std::string() : read.error().message();
  };
  for (const auto& [field, value] : {std::pair("overlap", -1.0), {"most", 0.0}, {"spread", -0.1}, {"spread", 0.2}}) {
    nlohmann::json pair = {{"first", "a"}, {"second", "b"}, {"overlap", 1},
                           {"most", 2},    {"spread", 0},   {"proved", true}};
    pair[field] = value;
    EXPECT_THAT(parse_pairs({pair}), HasSubstr(field)) << value;
  }
  const nlohmann::json fine = {{"first", "a"}, {"second", "b"}, {"overlap", 1},
                               {"most", 2},    {"spread", 0},   {"proved", true}};
  EXPECT_EQ(parse_pairs({fine}), "");
  nlohmann::json other = fine;
  std::swap(other["first"], other["second"]);
  EXPECT_THAT(parse_pairs({fine, other}), HasSubstr("listed twice"));
  other["first"] = "";
  EXPECT_THAT(parse_pairs({other}), HasSubstr("first must not be empty"));
  other["first"] = "fnord";
  EXPECT_THAT(parse_pairs({other}), HasSubstr("fnord is none of the entries"));
  other = fine;
  other["overlap"] = 2.11;
  EXPECT_THAT(parse_pairs({other}), HasSubstr("above most must be marked"));
  other["mark"] = "why";
  EXPECT_EQ(parse_pairs({other}), "");
  for (const char* text : {R"({"schema":"pinch-probe/1","name":"n","device":"d","entries":{}})", R"({"schema":1})",
                           R"({"schema":"pinch-probe/1","name":"n","device":"d","entries":[1]})",
                           R"({"schema":"pinch-probe/1","name":"","device":"d","entries":[]})",
                           R"({"schema":"pinch-probe/1","name":"n","device":"d","entries":[],"pairs":{}})",
                           R"({"schema":"pinch-probe/1","name":"n","device":"d","entries":[],"tools":[]})"}) {
    const auto read = parse_model(text, "planted");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.error().message(), Not(HasSubstr("json"))) << text;
  }
  EXPECT_THAT(parse({good, good}), HasSubstr("listed twice"));
  EXPECT_THAT(parse_model("[]", "planted").error().message(), HasSubstr("planted"));
  EXPECT_THAT(
      parse_model(R"({"schema":"pinch-probe/1","name":"n","device":"d","entries":[]})", "planted").error().message(),
      HasSubstr("entries has none"));
}

TEST(MachineModel, MergeKeepsMeasuredOverCitedOverAssumed) {
  Model into, other;
  into.name = "old";
  other.name = "new";
  into.entries = {entry_of("both", 1, Origin::kMeasured), entry_of("assumed", 1, Origin::kAssumed),
                  entry_of("again", 1, Origin::kMeasured), entry_of("spoilt", 1, Origin::kMeasured)};
  other.entries = {entry_of("both", 2, Origin::kCited), entry_of("assumed", 2, Origin::kCited),
                   entry_of("again", 2, Origin::kMeasured), entry_of("spoilt", 2, Origin::kMeasured),
                   entry_of("only", 2, Origin::kAssumed)};
  other.entries[3].spread = 0.2;
  mark_spread(other.entries[3]);
  into.pairs = {{"a", "b", 1, 2, 0, true, ""}, {"a", "c", 1, 2, 0.2, true, "spread"}, {"a", "d", 1, 2, 0, true, ""}};
  other.pairs = {
      {"a", "b", 2, 2, 0.2, true, "spread"}, {"a", "c", 2, 2, 0, true, ""}, {"a", "d", {}, 2, 0, true, "lost"}};
  const auto lines = merge(into, other);
  for (const Overlap& pair : into.pairs) {
    EXPECT_EQ(pair.overlap, pair.second == "c" ? 2 : 1) << pair.second;
    EXPECT_EQ(pair.mark, "") << pair.second;
  }
  EXPECT_EQ(*into.find("both")->value, 1);
  EXPECT_EQ(*into.find("assumed")->value, 2);
  EXPECT_EQ(*into.find("again")->value, 2);
  EXPECT_EQ(*into.find("spoilt")->value, 1);
  EXPECT_EQ(*into.find("only")->value, 2);
  EXPECT_THAT(lines, Contains("both: kept the measured value of old over the cited one of new"));
  EXPECT_THAT(lines, Contains("assumed: kept the cited value of new over the assumed one of old"));
}

TEST(MachineModel, IsNotMergedWithAnotherDevices) {
  Model into, other;
  into.device = "an A";
  other.device = "a B";
  const auto may = may_merge(into, other, "here.json");
  ASSERT_FALSE(may.ok());
  for (const char* part : {"an A", "a B", "here.json"}) EXPECT_THAT(may.error().message(), HasSubstr(part));
  other.device = "an A";
  EXPECT_TRUE(may_merge(into, other, "here.json").ok());
}

TEST(MachineModel, EveryShippedOneIsWholeAndSaysWhatWasMeasured) {
  for (const char* name : {"h200-rates", "h200-stated", "emerald-rapids-rates", "zen4", "b200", "gb300", "h100"}) {
    const std::string path = fmt::format("{}/data/machines/{}.json", PINCH_SOURCE_DIR, name);
    std::ifstream file(path);
    const auto model =
        parse_model(std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, path);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_FALSE(model->entries.empty()) << name;
    const bool measured = std::string(name) == "h200-rates" || std::string(name) == "emerald-rapids-rates";
    for (const Entry& entry : model->entries) {
      EXPECT_EQ(entry.origin == Origin::kMeasured, measured) << name << " " << entry.name;
      if (!measured) continue;
      EXPECT_TRUE(entry.value.has_value()) << name << " " << entry.name;
      EXPECT_LE(entry.spread, kMaxSpread) << name << " " << entry.name;
    }
    for (const Overlap& pair : model->pairs) EXPECT_LE(pair.spread, kMaxSpread) << pair.first << " + " << pair.second;
  }
}

TEST(MachineModel, GroupsWhatDoesNotOverlap) {
  Model model;
  for (const char* name : {"a", "b", "c", "d"}) model.entries.push_back(entry_of(name, 1, Origin::kMeasured));
  model.pairs = {{"a", "b", 1.02, 2, 0, true, ""},
                 {"b", "c", 1.04, 1.5, 0, true, ""},
                 {"a", "d", 1.9, 2, 0, true, ""},
                 {"c", "d", 1.0, 1.1, 0, true, ""},  // of too unequal times
                 {"b", "d", {}, 2, 0, true, "not measured"}};
  group_by_overlap(model);
  EXPECT_EQ(model.find("a")->group, model.find("b")->group);
  EXPECT_EQ(model.find("c")->group, model.find("b")->group);
  EXPECT_NE(model.find("d")->group, model.find("a")->group);
}

TEST(MachineModel, MarksAnOverlapThatCannotBe) {
  Overlap fine{"a", "b", 2.09, 2, 0, true, ""}, much{"a", "b", 2.11, 2, 0, true, ""};
  mark_spread(fine);
  mark_spread(much);
  EXPECT_EQ(fine.mark, "");
  EXPECT_THAT(much.mark, HasSubstr("2.11 over the most"));
}

TEST(MachineModel, DecidesOnlyByAMixThatIsWithinTheSpreadOfItsUnits) {
  EXPECT_EQ(sharing_of({"a", "b", 1.05, 1.3334, 0, true, ""}), Sharing::kOneUnit);
  EXPECT_EQ(sharing_of({"a", "b", 0.96, 1.5, 0, true, ""}), Sharing::kOneUnit);
  EXPECT_EQ(sharing_of({"ffma", "imad", 0.9477, 1.4994, 0.0101, true, ""}), Sharing::kUnknown);  // of an H200, as below
  EXPECT_EQ(sharing_of({"ffma", "imad", 0.953, 1.4996, 0.0185, true, ""}), Sharing::kUnknown);   // again
  EXPECT_EQ(sharing_of({"a", "b", 1.06, 2, 0, true, ""}), Sharing::kUnknown);
  EXPECT_EQ(sharing_of({"mma", "lop3", 1.0941, 1.3334, 0, true, ""}), Sharing::kUnknown);
  EXPECT_EQ(sharing_of({"ex2", "mma", 1.536, 1.75, 0, true, ""}), Sharing::kUnknown);
  EXPECT_EQ(sharing_of({"shfl", "ffma", 1.2112, 1.25, 0, true, ""}), Sharing::kApart);
  EXPECT_EQ(sharing_of({"ex2", "cvt", 1.2554, 1.25, 0, true, ""}), Sharing::kApart);
  EXPECT_EQ(sharing_of({"mma", "ffma", 1.0354, 1.1667, 0, true, ""}), Sharing::kUnknown);  // the ends are too near
  EXPECT_EQ(sharing_of({"a", "b", 1.02, 2, 0.2, true, "spread"}), Sharing::kUnknown);
  EXPECT_EQ(sharing_of({"a", "b", 1.02, 2, 0, false, ""}), Sharing::kUnknown);
}

}  // namespace
}  // namespace pinch::probe
