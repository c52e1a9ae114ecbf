// Machine models: what a machine can do, as numbers read from data. Every number has a unit, a source and a method, so
// that a prediction can be traced to a measurement.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/machine.h"
#include "pinch/result.h"

namespace pinch {

/// One number of a machine model.
struct MachineConstant {
  std::string name;    ///< dotted, "dram.read_1"; unique in its model
  double value = 0;    ///< finite, above 0
  std::string unit;    ///< one of machine_units()
  std::string source;  ///< where it comes from: a document, a data file, "assumed"
  std::string method;  ///< how it was obtained there
};

enum class Calibration : std::uint8_t {
  kMeasured,      ///< numbers of this machine
  kUncalibrated,  ///< another machine's or assumed numbers: they rank, they do not promise a time
};
std::string_view to_string(Calibration calibration);  ///< "measured", "uncalibrated"

/// Which CPUs a model describes, by CPUID. An empty vendor describes none.
struct CpuMatch {
  std::string vendor;
  int family = 0;
  std::vector<int> models;
};

struct MachineModel {
  std::string name;         ///< "emerald-rapids"
  std::string description;  ///< for people: what was measured, and when
  CpuMatch cpu;
  std::vector<MachineConstant> constants;

  /// The value of a constant. Errors: kNotFound, naming the model and the nearest names; kCorrupt where its unit is not
  /// the one asked for.
  [[nodiscard]] Result<double> constant(std::string_view constant_name, std::string_view unit) const;
};

/// The units a model may use: "ns", "ns/column", "GB/s", "GFLOP/s", "GHz", "bytes", "cycles", "ratio".
std::span<const std::string_view> machine_units();

/// Reads a model (schema "pinch-machine/1", docs/design/tactics.md). Errors: kCorrupt, naming the field.
Result<MachineModel> parse_machine_model(std::string_view json, std::string_view file_name);

/// The models of this build. The last one stands in for machines that none describes.
std::span<const MachineModel> machine_models();

/// The constants of an NVIDIA H200 that the sm90 family's time model reads (fitted by workbench/calibrate).
const MachineModel& h200_machine_model();

/// The same for the sm90_attention family's model.
const MachineModel& h200_attention_machine_model();

struct ChosenMachineModel {
  const MachineModel* model = nullptr;
  Calibration calibration = Calibration::kUncalibrated;
};

/// The model of a CPU: the one that names its vendor, family and model, else the last of `models`, uncalibrated.
ChosenMachineModel choose_machine_model(const CpuMachine& machine, std::span<const MachineModel> models);

}  // namespace pinch
