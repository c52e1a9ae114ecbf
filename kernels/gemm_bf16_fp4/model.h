// The time model of the `cpu` family: what one call takes, from the tactic, the problem and a machine's constants.
// docs/design/tactics.md explains the terms; workbench/calibrate fits the constants.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm_bf16_fp4/tactic.h"
#include "pinch/machine_model.h"

namespace pinch {

/// An inner kernel: what tactics that differ only in blocking, raster and workers have in common.
struct CpuKernel {
  GemmPath path;
  CpuIsa isa;
  int tile_m, tile_n;

  friend bool operator==(const CpuKernel&, const CpuKernel&) = default;
};

/// The distinct kernels of cpu_tactics(), in order of first appearance.
std::span<const CpuKernel> cpu_kernels();
/// Place among cpu_kernels() of the kernel of each tactic of cpu_tactics().
std::span<const std::size_t> kernel_of_tactic();

/// One constant of the model: its name and unit in a machine model.
struct CpuConstant {
  std::string name;
  std::string_view unit;
};

/// Every constant, in the order that CpuTimeModel takes their values. Shared ones come first, then one a kernel.
std::span<const CpuConstant> cpu_constants();

/// Neighbours in cpu_tactics() that share kernel and workers, so that one bound serves them.
struct CpuTacticGroup {
  std::size_t kernel;
  Workers workers;
  std::size_t first, last;  ///< tactics [first, last)
};
std::span<const CpuTacticGroup> cpu_tactic_groups();

class CpuTimeModel {
 public:
  /// `values` in the order of cpu_constants(), each above 0.
  explicit CpuTimeModel(std::vector<double> values);

  /// Reads the constants of a machine model. A kernel that it lacks is taken to be as fast as the most similar one
  /// that it has. Errors: a missing shared constant, no kernel at all, a wrong unit.
  static Result<CpuTimeModel> from(const MachineModel& machine);

  /// Time of one call. The tactic must be legal and threads at least 1.
  [[nodiscard]] Estimate estimate(std::size_t tactic, const GemmProblem& problem, int threads) const;

  /// The legal tactic of the smallest estimate, the earlier one among equals; nothing where none is legal. Looks only
  /// at tactics whose lower bound does not exceed the best estimate so far.
  [[nodiscard]] std::optional<RankedTactic> cheapest(const GemmProblem& problem, const Resources& resources) const;

 private:
  // What a group's lower bound is made of.
  struct Bound {
    double column_ns;           // one column of one tile
    double large_column_ns;     // the same where no panel of the group fits L1
    double decode_ns;           // one weight into a panel; 0 on the streaming path
    double panel_column_bytes;  // of the narrowest panel; 0 on the streaming path
    int least_k_block;
    std::uint8_t height, width;  // places of tile_m and tile_n in heights_ and widths_
    bool one_worker;
    CpuIsa isa;
  };
  [[nodiscard]] double overlapped(double a, double b) const;

  std::vector<double> values_;
  std::vector<Bound> bounds_;          // one a group
  std::vector<int> heights_, widths_;  // distinct tile_m and tile_n of the kernels
};

/// The constants of this machine, or those that stand in for it.
const CpuTimeModel& machine_time_model();

}  // namespace pinch
