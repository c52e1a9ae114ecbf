// Cost models of the `sm90` family: what a tactic takes without running it. docs/design/tactics.md explains the terms.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "pinch/machine_model.h"
#include "pinch/tactics.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// One problem, as the models see it.
struct ModelProblem {
  WgmmaProblem sizes{};
  Fp4Format format = Fp4Format::kNvfp4;
  pinch::OutputType output = pinch::OutputType::kBf16;
};

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}
/// Of one weight and its part of a scale.
inline double weight_bytes(Fp4Format format) {
  return format == Fp4Format::kNvfp4 ? 4.5 / 8 : 4.25 / 8;
}
inline double output_bytes(pinch::OutputType output) {
  return output == pinch::OutputType::kBf16 ? 2 : 4;
}

/// What a launch is to the models that count: tiles, waves and traffic, not time.
struct Grid {
  double tile_n = 0, tile_m = 0;  ///< of a CTA: channels, rows
  double k_parts = 1;             ///< CTAs that share a tile's k
  std::int64_t ctas = 0;
  std::int64_t slots = 0;  ///< CTAs that run at once
  int ctas_per_sm = 1;
  bool even = false;  ///< work is cut evenly over all CTAs, so that no wave has a tail
  [[nodiscard]] double waves() const;
};

/// Of a legal tactic.
Grid grid_of(const Tactic& tactic, const WgmmaProblem& problem, const Device& device);

/// The tactics [first, last) that share a compiled kernel, in the order of tactics().
struct KernelTactics {
  std::size_t first = 0, last = 0;
  [[nodiscard]] std::string name() const;  ///< of its tactics, up to the launch knobs
};
std::span<const KernelTactics> kernel_tactics();

/// What the time model must know of a machine: name and unit, in the order of its values. Those after the shared ones
/// are one a kernel.
struct Constant {
  std::string name;
  std::string_view unit;
};
std::span<const Constant> constants();

class TimeModel {
 public:
  /// `values` in the order of constants().
  explicit TimeModel(std::vector<double> values);
  /// Reads the constants; a kernel newer than the record is taken to be as fast as the most similar one known. Errors:
  /// kNotFound, kCorrupt, naming a shared constant.
  static Result<TimeModel> from(const MachineModel& machine);

  /// Nanoseconds of a cold call of tactics()[index], which is legal.
  [[nodiscard]] double nanoseconds(std::size_t index, const ModelProblem& call, const Device& device) const;

  /// The fastest legal tactic and its time, ties to the earlier one; nothing where none is legal. Equal to looking at
  /// all of them: no tactic of a kernel takes less than the kernel's bound.
  [[nodiscard]] std::optional<RankedTactic> cheapest(const ModelProblem& call, const Device& device) const;

 private:
  /// What a kernel's bound needs, computed once. Times by format, where it matters.
  struct Kernel {
    bool wgmma = false;
    int tile_n = 0, tile_m = 0, tile_k = 0;  // a streaming kernel: of a row group; rows it takes; 64
    int cluster = 1, cluster_k = 1;
    std::size_t cluster_log2 = 0;
    // Inverses, because divisions are most of what a bound costs. Streaming: 64-row tiles that a multiprocessor's teams
    // take at once; warps of a team.
    double per_tile_n = 1, per_tile_m = 1, per_tile_k = 1, per_cluster_k = 1, per_round = 1, per_k_warps = 1;
    double computing_ns[2] = {};  // an iteration of a CTA; a k tile of one team's warps on a full multiprocessor
    double l2_ns[2] = {};         // a cluster's stage from L2
    double fixed_ns = 0;          // launch and one tile
    double store_ns = 0;          // of one byte an element
    double sharing_ns = 0;        // the least that parts of k, or cuts, cost
    double copy_ns = 0;           // a CTA writing or adding a partial tile
    double exchange_ns = 0;       // sharing a tile inside a cluster
  };
  struct Bound {
    double least_ns = 0;  // of every tactic of the kernel; the wgmma kernel's before power
    double even_ns = 0;   // before power: with the work spread evenly and shared by two CTAs a tile
  };
  /// What the bounds of all kernels share.
  struct Sizes {
    double m = 0, n = 0, k = 0, row_tiles = 0, col_tiles = 0;
    double dram_ns = 0, stream_dram_ns = 0, output_bytes = 0;
    std::size_t format = 0;
    int sm_count = 0;
    double per_sm = 0;
    std::array<double, 4> per_capacity{};  // by cluster_log2
  };
  [[nodiscard]] Bound bound(const Kernel& kernel, const Sizes& sizes) const;
  /// Before power.
  [[nodiscard]] double wgmma_ns(const Kernel& kernel, const WgmmaTactic& tactic, const Schedule& schedule,
                                const ModelProblem& call, const Device& device, double dram_ns) const;
  [[nodiscard]] double dram_ns(const ModelProblem& call) const;
  [[nodiscard]] double stream_ns(std::size_t kernel, const StreamTactic& tactic, const ModelProblem& call,
                                 const Device& device) const;
  [[nodiscard]] double with_power(double ns) const;
  [[nodiscard]] double before_power(double ns) const;  ///< its inverse
  std::vector<double> values_;
  std::vector<Kernel> kernels_;
};

/// With the constants of data/machines/h200.json.
const TimeModel& h200_time_model();

/// Names of the models, the default first.
std::span<const std::string_view> models();

/// Cost of tactics()[index], which is legal, under one of models().
Estimate estimate(std::size_t model, std::size_t index, const ModelProblem& call, const Device& device);

/// The cheapest legal tactic under one of models(); nothing where none is legal.
std::optional<RankedTactic> cheapest(std::size_t model, const ModelProblem& call, const Device& device);

}  // namespace pinch::gemm_bf16_fp4::sm90
