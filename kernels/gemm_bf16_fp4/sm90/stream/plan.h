// What the host decides before a launch of the streaming kernel: the workspace that it takes and why a tactic cannot
// run a problem. No CUDA header, so that all of it is tested without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/gemm_bf16_fp4/sm90/prepared.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/smem.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/tactic.h"
#include "kernels/gemm_bf16_fp4/sm90/workspace.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// out[m, n] = a[m, k] x w[n, k]^T
struct StreamProblem {
  int m;
  int n;
  int k;
};

/// What a launch must know about the device; query once (query_stream_device) and keep.
struct StreamDevice {
  int sm_count;
  int smem_per_block_bytes;  // opt-in limit
  int smem_per_sm_bytes;
  int clusters[4];  // resident clusters of 1, 2, 4, 8 blocks, one block an SM
};

/// How a block gets its slice of the activations.
enum class Fetch {
  kThreads,     // every thread copies 16 bytes at a time
  kCopyEngine,  // in runs of a row
  kTwoBlocks,   // the same, two blocks of a cluster each half of it for both
};

/// Activations of few bytes are there sooner without the copy engine, its barriers and a cluster (m = 1, k = 4096 and
/// 6656: up to 0.8 us); from 16 KB on that is slower, and two blocks that fetch them once spare L2 (m = 2, k = 4096:
/// 0.5 us). Decisions 0061 and 0065.
inline Fetch fetch_of(const StreamTactic& t, const StreamProblem& p, const StreamDevice& d) {
  constexpr std::int64_t kManyBytes = 16 * 1024;
  if (std::int64_t{p.m} * p.k * 2 < kManyBytes) return Fetch::kThreads;
  return t.split_k == 1 && d.clusters[1] > 0 ? Fetch::kTwoBlocks : Fetch::kCopyEngine;
}

/// Why this tactic cannot run this problem, or nullptr. Each text is the rule's name in sweeps.
inline const char* illegal(const StreamTactic& t, const StreamProblem& p, const StreamDevice& d) {
  if (const char* why = illegal(t)) return why;
  if (p.m < 1) return "m is less than 1";
  if (p.m > 8 * t.m_blocks) return "m is larger than 8 * m_blocks";
  if (p.n < 8 || p.n % 8 != 0) return "n is not a positive multiple of 8";
  if (p.k < 32 || p.k % 32 != 0) return "k is not a positive multiple of 32";
  if (p.k > 1 << 20) return "shared memory";  // and no size below overflows
  if (p.n > 1 << 30) return "n is larger than 2^30";
  const std::int64_t pieces = static_cast<std::int64_t>(p.n / (16 * t.row_tiles) + 4) * (p.k / kTileCols + 1);
  if (pieces > std::numeric_limits<std::int32_t>::max()) return "n and k give more than 2^31 pieces";
  if (t.split_k > (p.k + kTileCols - 1) / kTileCols) return "split_k is larger than the number of k tiles";
  if (d.clusters[t.split_k == 1 ? 0 : t.split_k == 2 ? 1 : t.split_k == 4 ? 2 : 3] < 1)
    return "the device holds no cluster of split_k blocks";
  if (t.balance == 1 && d.sm_count * t.blocks_per_sm * (t.warps / t.k_warps) * t.row_tiles * t.m_blocks * 4 >
                            static_cast<int>(kFlagBytes))
    return "more teams than flags";
  const int bytes = stream_smem(t, p.m, p.k).total_bytes;
  if (bytes > d.smem_per_block_bytes || t.blocks_per_sm * (bytes + 1024) > d.smem_per_sm_bytes) return "shared memory";
  return nullptr;
}

/// Workspace of a launch. Its first kFlagBytes must be zero before the first launch that uses it; every launch leaves
/// them so. One workspace serves one stream at a time.
inline std::size_t stream_workspace_bytes(const StreamTactic& t, int n, const StreamDevice& d) {
  const auto group_bytes =
      static_cast<std::size_t>(16 * t.row_tiles) * static_cast<std::size_t>(8 * t.m_blocks) * sizeof(float);
  if (t.split_k > 1) {
    const int row_groups = (n + kTileRows - 1) / kTileRows * kTileRows / (16 * t.row_tiles);
    return kFlagBytes + static_cast<std::size_t>(t.split_k) * static_cast<std::size_t>(row_groups) * group_bytes;
  }
  if (t.balance == 0) return 0;
  return kFlagBytes + static_cast<std::size_t>(d.sm_count * t.blocks_per_sm * (t.warps / t.k_warps)) * group_bytes;
}

}  // namespace pinch::gemm_bf16_fp4::sm90
