// The `cpu` family: how the CPU kernels may compute one product.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pinch/gemm_problem.h"
#include "pinch/machine.h"
#include "pinch/tactics.h"

namespace pinch {

enum class GemmPath : std::uint8_t {
  kStream,  ///< weights are decoded in registers for tile_m rows at once and never stored
  kPanel,   ///< tile_n channels x k_block columns are decoded once into cache and multiplied by many rows
};

/// Which loop is outermost.
enum class Raster : std::uint8_t {
  kAlongM,  ///< all rows pass under one block of channels: each weight is read (and decoded) once
  kAlongN,  ///< all channels pass over one block of kRowBlock rows: each activation is read once
};

enum class Workers : std::uint8_t { kAll, kOne };

struct CpuTactic {
  GemmPath path = GemmPath::kStream;
  CpuIsa isa = CpuIsa::kScalar;
  int tile_m = 1;   ///< rows of one inner kernel
  int tile_n = 16;  ///< channels of one inner kernel
  int k_block = 0;  ///< columns of a panel; 0 on the streaming path, which walks all of k
  Raster raster = Raster::kAlongM;
  Workers workers = Workers::kAll;

  friend bool operator==(const CpuTactic&, const CpuTactic&) = default;
};

/// Rows of a block under Raster::kAlongN (rounded up to whole tiles).
inline constexpr int kRowBlock = 64;

/// "panel.avx512_bf16.6x64.k1024.along_m.all"; the streaming path has no k field.
std::string to_string(const CpuTactic& tactic);

std::string_view to_string(GemmPath path);
std::string_view to_string(Raster raster);
std::string_view to_string(Workers workers);

/// Every tactic of the family, in its fixed order; an index of cpu_tactic_family() is an index of this.
std::span<const CpuTactic> cpu_tactics();

/// What refuses a tactic, by the axis or size at fault.
enum class Refusal : std::uint8_t { kNone, kPinchCpu, kIsa, kK, kThreads, kRaster, kKBlock, kPanel };

/// Cheap enough to ask of every tactic when a default is chosen: no text, no allocation.
Refusal refusal(const CpuTactic& tactic, const GemmProblem& problem, const Resources& resources);

/// The same as text: "axis: reason". Nothing where the tactic is legal.
std::optional<std::string> illegal(const CpuTactic& tactic, const GemmProblem& problem, const Resources& resources);

/// The same tactics behind the family interface.
const TacticFamily& cpu_tactic_family();

/// A prediction of model.cc for cpu_tactics()[tactic]. Errors: unknown model, threads below 1.
std::span<const std::string_view> cpu_models();
/// TacticFamily::calibration.
std::string_view cpu_calibration(std::string_view model);
Result<Estimate> estimate_cpu(std::string_view model, std::size_t tactic, const GemmProblem& problem,
                              const Resources& resources);
/// TacticFamily::cheapest.
Result<std::optional<RankedTactic>> cheapest_cpu(std::string_view model, const GemmProblem& problem,
                                                 const Resources& resources);

}  // namespace pinch
