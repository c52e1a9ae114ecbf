// The `sm90` family's tactics: what is compiled (wgmma_tiles.inc, stream/instances.inc) crossed with what is chosen at
// launch, less what illegal() refuses. No CUDA header: the list is the same in a build without kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/gemm_bf16_fp4/sm90/plan.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/plan.h"
#include "kernels/gemm_bf16_fp4/sm90/tactic.h"

namespace pinch::gemm_bf16_fp4::sm90 {

using Tactic = std::variant<WgmmaTactic, StreamTactic>;

/// Every tactic, in the family's fixed order: those that share a compiled kernel stand together, in the order of the
/// lists.
std::span<const Tactic> tactics();

std::string to_string(const Tactic& tactic);

/// Whether PINCH_TACTICS=core, too, compiles the tactic's kernel.
bool in_core(const Tactic& tactic);

/// A device as the launches must know it. Of sm_90 with this many multiprocessors, where none was asked: shared memory
/// is the architecture's, resident clusters are an H200's in proportion.
struct Device {
  WgmmaDevice wgmma;
  StreamDevice stream;
};
Device sm90_device(int sm_count);

/// Why a tactic is refused for a problem; empty if it is legal. Besides the kernels' rules (plan.h, stream/plan.h), a
/// tactic that would do exactly what an earlier one of the same kernel does is refused, so that no launch has two
/// names.
std::string_view illegal(const Tactic& tactic, const WgmmaProblem& problem, const Device& device);

/// The same of one of tactics() whose problem has no fault of its own (too_many_tiles, sizes), when its schedule is
/// known already.
std::string_view illegal_schedule(const WgmmaTactic& tactic, const Schedule& schedule);

/// Of a legal tactic.
std::size_t workspace_bytes(const Tactic& tactic, const WgmmaProblem& problem, const Device& device);

}  // namespace pinch::gemm_bf16_fp4::sm90
