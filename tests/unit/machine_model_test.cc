#include "pinch/machine_model.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace pinch {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json document() {
  return {{"schema", "pinch-machine/1"},
          {"name", "test"},
          {"description", "made by hand"},
          {"cpu", {{"vendor", "GenuineIntel"}, {"family", 6}, {"models", {207}}}},
          {"constants",
           {{{"name", "dram.read_1"}, {"value", 30.5}, {"unit", "GB/s"}, {"source", "s"}, {"method", "m"}},
            {{"name", "threads.fork"}, {"value", 1300}, {"unit", "ns"}, {"source", "s"}, {"method", "m"}}}}};
}

template <class Change>
std::string refusal(Change change) {
  json changed = document();
  change(changed);
  const auto model = parse_machine_model(changed.dump(), "test.json");
  EXPECT_FALSE(model.ok()) << changed.dump();
  if (model.ok()) return {};
  EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(model.error().where, "test.json");
  return model.error().text;
}

TEST(MachineModel, KeepsEveryNumberWithUnitSourceAndMethod) {
  const auto model = parse_machine_model(document().dump(), "test.json");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->name, "test");
  EXPECT_EQ(model->cpu.models, std::vector<int>{207});
  ASSERT_EQ(model->constants.size(), 2u);
  EXPECT_EQ(model->constants[0].value, 30.5);
  EXPECT_EQ(model->constants[0].unit, "GB/s");
  EXPECT_EQ(model->constants[0].source, "s");
  EXPECT_EQ(model->constants[0].method, "m");
  EXPECT_EQ(model->constant("threads.fork", "ns").value(), 1300);
}

TEST(MachineModel, RefusesAConstantInAnotherUnitOrUnderAnotherName) {
  const auto model = parse_machine_model(document().dump(), "test.json").value();
  EXPECT_THAT(model.constant("threads.fork", "cycles").error().message(), HasSubstr("is in ns; cycles is needed"));
  const auto unknown = model.constant("dram.read", "GB/s");
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message(), HasSubstr("did you mean dram.read_1"));
}

TEST(MachineModel, RefusesWhatBreaksTheSchema) {
  EXPECT_THAT(refusal([](json& d) { d["schema"] = "pinch-machine/2"; }), HasSubstr("reads pinch-machine/1"));
  EXPECT_THAT(refusal([](json& d) { d.erase("schema"); }), HasSubstr("schema"));
  EXPECT_THAT(refusal([](json& d) { d["name"] = ""; }), HasSubstr("name is \"\""));
  EXPECT_THAT(refusal([](json& d) { d["cpu"]["models"] = json::array(); }), HasSubstr("cpu.models is empty"));
  EXPECT_THAT(refusal([](json& d) { d["cpu"]["family"] = "six"; }), HasSubstr("number"));
  for (const char* field : {"name", "value", "unit", "source", "method"}) {
    EXPECT_THAT(refusal([&](json& d) { d["constants"][0].erase(field); }), HasSubstr(field));
  }
  for (const json& value : {json(0), json(-1), json("30"), json(nullptr)}) {
    EXPECT_THAT(refusal([&](json& d) { d["constants"][0]["value"] = value; }), HasSubstr("a number above 0"));
  }
  EXPECT_THAT(refusal([](json& d) { d["constants"][0]["unit"] = "GiB/s"; }), HasSubstr("did you mean GB/s"));
  EXPECT_THAT(refusal([](json& d) { d["constants"][1]["name"] = "dram.read_1"; }), HasSubstr("listed twice"));
  EXPECT_FALSE(parse_machine_model("{", "test.json").ok());
}

TEST(MachineModel, OfABuildHaveNamesOfTheirOwn) {
  ASSERT_FALSE(machine_models().empty());
  for (const MachineModel& a : machine_models()) {
    for (const MachineModel& b : machine_models()) EXPECT_TRUE(&a == &b || a.name != b.name) << a.name;
  }
}

TEST(ChooseMachineModel, TakesTheOneThatNamesTheCpuElseTheLastUncalibrated) {
  MachineModel first = parse_machine_model(document().dump(), "a").value(), last = first;
  last.cpu = {"AuthenticAMD", 25, {17, 97}};
  const std::vector<MachineModel> models{first, last};
  CpuMachine machine;
  machine.vendor = "GenuineIntel";
  machine.family = 6;
  machine.model = 207;
  EXPECT_EQ(choose_machine_model(machine, models).model, &models[0]);
  EXPECT_EQ(choose_machine_model(machine, models).calibration, Calibration::kMeasured);
  machine.model = 143;
  EXPECT_EQ(choose_machine_model(machine, models).model, &models[1]);
  EXPECT_EQ(choose_machine_model(machine, models).calibration, Calibration::kUncalibrated);
  machine.vendor = "AuthenticAMD";
  machine.family = 25;
  machine.model = 97;
  EXPECT_EQ(choose_machine_model(machine, models).calibration, Calibration::kMeasured);
}

}  // namespace
}  // namespace pinch
