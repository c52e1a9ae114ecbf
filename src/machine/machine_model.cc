#include "pinch/machine_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "embedded/emerald_rapids.h"
#include "embedded/h200.h"
#include "embedded/h200_attention.h"
#include "src/core/nearest.h"

namespace pinch {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 8> kUnits{"ns",  "ns/column", "GB/s",   "GFLOP/s",
                                                 "GHz", "bytes",     "cycles", "ratio"};

// Thrown beside json::exception while a document is read; parse_machine_model turns both into an Error.
struct Refusal {
  std::string text;
};

std::string text_of(const json& object, const char* field) {
  const json& value = object.at(field);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    throw Refusal{fmt::format("{} is {}; a text is needed", field, value.dump())};
  }
  return value.get<std::string>();
}

MachineConstant constant_of(const json& row) {
  MachineConstant constant;
  constant.name = text_of(row, "name");
  const json& value = row.at("value");
  constant.value = value.is_number() ? value.get<double>() : 0;
  if (!(constant.value > 0) || !std::isfinite(constant.value)) {
    throw Refusal{fmt::format("value of {} is {}; a number above 0 is needed", constant.name, value.dump())};
  }
  constant.unit = text_of(row, "unit");
  if (std::find(kUnits.begin(), kUnits.end(), constant.unit) == kUnits.end()) {
    const std::vector<std::string> units(kUnits.begin(), kUnits.end());
    throw Refusal{fmt::format("unknown unit '{}' of {}; {}", constant.unit, constant.name,
                              did_you_mean(constant.unit, units, units.size()))};
  }
  constant.source = text_of(row, "source");
  constant.method = text_of(row, "method");
  return constant;
}

MachineModel model_of(const json& document) {
  if (document.at("schema") != "pinch-machine/1") {
    throw Refusal{fmt::format("schema is {}; this build reads pinch-machine/1", document.at("schema").dump())};
  }
  MachineModel model;
  model.name = text_of(document, "name");
  model.description = text_of(document, "description");
  if (document.contains("cpu")) {
    const json& cpu = document.at("cpu");
    model.cpu = {text_of(cpu, "vendor"), cpu.at("family").get<int>(), cpu.at("models").get<std::vector<int>>()};
    if (model.cpu.models.empty()) throw Refusal{"cpu.models is empty; name at least one model number"};
  }
  std::set<std::string> names;
  for (const json& row : document.at("constants")) {
    model.constants.push_back(constant_of(row));
    if (!names.insert(model.constants.back().name).second) {
      throw Refusal{fmt::format("constant {} is listed twice", model.constants.back().name)};
    }
  }
  return model;
}

}  // namespace

std::string_view to_string(Calibration calibration) {
  return calibration == Calibration::kMeasured ? "measured" : "uncalibrated";
}

std::span<const std::string_view> machine_units() {
  return kUnits;
}

Result<double> MachineModel::constant(std::string_view constant_name, std::string_view unit) const {
  std::vector<std::string> names;
  for (const MachineConstant& each : constants) {
    if (each.name == constant_name) {
      if (each.unit == unit) return each.value;
      return Error{ErrorCode::kCorrupt, fmt::format("{} is in {}; {} is needed", constant_name, each.unit, unit), name};
    }
    names.push_back(each.name);
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("no constant '{}'; {}", constant_name, did_you_mean(constant_name, names)), name};
}

Result<MachineModel> parse_machine_model(std::string_view text, std::string_view file_name) {
  const auto refuse = [&](std::string why) {
    return Error{ErrorCode::kCorrupt, std::move(why), std::string(file_name)};
  };
  try {
    return model_of(json::parse(text));
  } catch (const Refusal& refusal) {
    return refuse(refusal.text);
  } catch (const json::exception& error) {
    return refuse(error.what());
  }
}

std::span<const MachineModel> machine_models() {
  // The texts are part of the build and a test parses each: a failure here is a broken build.
  static const std::array<MachineModel, 1> models{
      parse_machine_model(embedded::emerald_rapids, "emerald-rapids.json").value()};
  return models;
}

const MachineModel& h200_machine_model() {
  static const MachineModel model = parse_machine_model(embedded::h200, "h200.json").value();
  return model;
}

const MachineModel& h200_attention_machine_model() {
  static const MachineModel model = parse_machine_model(embedded::h200_attention, "h200-attention.json").value();
  return model;
}

ChosenMachineModel choose_machine_model(const CpuMachine& machine, std::span<const MachineModel> models) {
  for (const MachineModel& model : models) {
    const CpuMatch& cpu = model.cpu;
    const bool described = !cpu.vendor.empty() && cpu.vendor == machine.vendor && cpu.family == machine.family &&
                           std::find(cpu.models.begin(), cpu.models.end(), machine.model) != cpu.models.end();
    if (described) return {&model, Calibration::kMeasured};
  }
  return {&models.back(), Calibration::kUncalibrated};
}

}  // namespace pinch
