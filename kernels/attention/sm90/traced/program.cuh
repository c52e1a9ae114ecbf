// One attention kernel as a program, for `pinch trace attention --device cuda`, which compiles it, with prepare.cu, at
// each PINCH_TRACE_LEVEL after defining the kind as PINCH_KIND, the tile's knobs as PINCH_TILE, the launch's as
// PINCH_LAUNCH (threshold, schedule, heads) and the output type as PINCH_OUTPUT; nothing ships it.
//   program BATCH HEADS KV_HEADS SEQ KV_SEQ CAUSAL DEVICE
// Random queries, keys and values; rows sampled against FP64. The kernel alone is timed, its operands prepared.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "kernels/attention/sm90/launch.cuh"
#include "kernels/attention/sm90/prepare.cuh"
#include "kernels/common/cuda/traced_program.cuh"

namespace pinch::attention::sm90 {
namespace {

using namespace pinch::traced;

constexpr Kind kKind{PINCH_KIND};
constexpr Tile kTile{PINCH_TILE};
constexpr Tactic kTactic{kTile, PINCH_LAUNCH};
constexpr OutputType kOutput = OutputType::PINCH_OUTPUT;
using T = Traits<kKind, kTile>;

constexpr int kRows = 64;  // of the output, compared

// errors[row] = |got - want|^2, errors[kRows + row] = |want|^2; a block each, a thread a column.
__global__ void compare(AttentionProblem p, float scale, const __nv_bfloat16* q, const __nv_bfloat16* k,
                        const __nv_bfloat16* v, const void* o, double* errors) {
  const std::int64_t row = mix(blockIdx.x + (std::int64_t{1} << 44)) % (p.batch * p.heads * p.seq);
  const std::int64_t head = row / p.seq, query = row % p.seq;
  const std::int64_t kv = head / p.heads * p.kv_heads + head % p.heads / (p.heads / p.kv_heads);
  const std::int64_t keys = min(p.kv_seq, visible_keys(p.causal, query, p.seq, p.kv_seq));
  q += row * p.dim;
  k += kv * p.kv_seq * p.dim;
  v += kv * p.kv_seq * p.dim;
  // No maximum is taken off: of these values no score reaches 200, and FP64 holds its exponential.
  __shared__ double weights[kKind.dim];
  double sum = 0, total = 0;
  for (std::int64_t begin = 0; begin < keys; begin += p.dim) {
    const std::int64_t key = begin + threadIdx.x;
    double score = 0;
    for (int i = 0; key < keys && i < p.dim; ++i)
      score += static_cast<double>(__bfloat162float(q[i])) * __bfloat162float(k[key * p.dim + i]);
    weights[threadIdx.x] = key < keys ? exp(score * scale) : 0;
    __syncthreads();
    for (int i = 0; i < min(p.dim, keys - begin); ++i) {
      total += weights[i];
      sum += weights[i] * __bfloat162float(v[(begin + i) * p.dim + threadIdx.x]);
    }
    __syncthreads();
  }
  const std::int64_t at = row * p.dim + threadIdx.x;
  const double want = total > 0 ? sum / total : 0;
  const double got = kOutput == OutputType::kF32 ? static_cast<const float*>(o)[at]
                                                 : __bfloat162float(static_cast<const __nv_bfloat16*>(o)[at]);
  atomicAdd(errors + blockIdx.x, (got - want) * (got - want));
  atomicAdd(errors + kRows + blockIdx.x, want * want);
}

// The largest step of each rounding, as in workbench/check/attention_check.h.
double limit() {
  const double step = kKind.pv == PvType::kBf16 ? 0x1p-9 : kKind.pv == PvType::kFp8 ? 0x1p-4 : 0.25;
  return 2 * step + (kOutput == OutputType::kBf16 ? 0x1p-8 : 0x1p-20) + (kKind.qk == QkType::kFp8 ? 0.1 : 0);
}

int run(const AttentionProblem& p, int device) {
  DeviceFacts facts;
  int l2 = 0;
  PINCH_CHECK(cudaSetDevice(device));
  PINCH_CHECK(cudaDeviceGetAttribute(&facts.sm_count, cudaDevAttrMultiProcessorCount, device));
  PINCH_CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device));
  facts.l2_bytes = static_cast<std::size_t>(l2);
  if (const auto why = illegal(kTactic, p, facts); !why.empty()) {
    std::fprintf(stderr, "refused: %s\n", std::string(why).c_str());
    return 2;
  }
  const std::int64_t q_count = p.batch * p.heads * p.seq * p.dim, kv_count = p.batch * p.kv_heads * p.kv_seq * p.dim;
  auto* q = allocate<__nv_bfloat16>(q_count);
  auto* k = allocate<__nv_bfloat16>(kv_count);
  auto* v = allocate<__nv_bfloat16>(kv_count);
  auto* o = allocate<float>(q_count);  // room for either type
  auto* workspace = allocate<std::uint8_t>(workspace_bytes(p));
  auto* errors = allocate<double>(2 * kRows);
  PINCH_CHECK(cudaMemset(workspace, 0, workspace_bytes(p)));
  PINCH_CHECK(cudaMemset(errors, 0, 2 * kRows * sizeof(double)));
  PINCH_CHECK(cudaMemset(o, 0xff, q_count * sizeof(float)));  // NaN
  fill_values<<<1024, 256>>>(q, q_count, 1);
  fill_values<<<1024, 256>>>(k, kv_count, 2);
  fill_values<<<1024, 256>>>(v, kv_count, 3);
  const auto rows = [&](void* data, std::int64_t heads, std::int64_t seq) {
    return Array{data, heads * seq * p.dim, seq * p.dim, p.dim};
  };
  LaunchCall call;
  call.q = rows(q, p.heads, p.seq);
  call.k = rows(k, p.kv_heads, p.kv_seq);
  call.v = rows(v, p.kv_heads, p.kv_seq);
  call.o = rows(o, p.heads, p.seq);
  call.scale = 1 / std::sqrt(static_cast<float>(p.dim));
  call.workspace = workspace;
  PINCH_CHECK(prepare(p, call, facts, nullptr));
  const auto attend = [&] { PINCH_CHECK((launch_attention<kKind, kTile>(kTactic, p, call, facts, nullptr))); };

  attend();
  compare<<<kRows, kKind.dim>>>(p, call.scale, q, k, v, o, errors);
  double sums[2 * kRows], squares = 0;
  PINCH_CHECK(cudaMemcpy(sums, errors, sizeof sums, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kRows; ++i) squares += sums[kRows + i] > 0 ? sums[i] / sums[kRows + i] : sums[i];
  if (!accept(std::sqrt(squares / kRows), limit(), kRows * kKind.dim)) return 1;

  const std::int64_t tiles = make_walk(kTactic, p, facts).tiles(),
                     key_tiles = (p.kv_seq + kTile.tile_kv - 1) / kTile.tile_kv;
  const std::int64_t ctas = std::min<std::int64_t>(tiles, facts.sm_count);
  const std::int64_t tiles_of_cta = tiles / ctas * (p.causal ? 2 : 1) * 5 / 4 + 2;  // who is fast takes more
  const std::int64_t events_of_step = trace::kLevel == trace::Level::kDetailed ? 12 : 6;
  trace::Names names{{{"producer"}, {"product", true}, {"softmax"}, {"epilogue"}},
                     {{"queries", TraceRole::kProducer},
                      {"keys", TraceRole::kProducer},
                      {"values", kKind.pv == PvType::kFp4 ? TraceRole::kDecoder : TraceRole::kProducer},
                      {"turn", TraceRole::kProduct},
                      {"empty", TraceRole::kProduct},
                      {"codes", TraceRole::kProducer},
                      {"codes empty", TraceRole::kDecoder}},
                     {"issue", "scores", "exponentials", "drain", "write"}};
  if constexpr (kKind.pv == PvType::kFp4) {
    names.roles.push_back({"decoder"});
  } else {
    names.waits.resize(TraceWait::kCodes);
  }
  trace::CudaSession session(
      trace::kLevel,
      "attention " + std::string(to_string(kKind.pv)) + " " + std::to_string(p.batch) + "x" + std::to_string(p.heads) +
          "x" + std::to_string(p.seq) + "x" + std::to_string(p.dim),
      std::move(names),
      {.ctas = static_cast<std::uint32_t>(ctas),
       .warps_of_cta = T::kThreads / 32,
       .events_of_warp = static_cast<std::uint32_t>(tiles_of_cta * (key_tiles + 3) * events_of_step + 64)});
  for (int i = 0; i < kWarmUps; ++i) attend();
  PINCH_TRACE_ATTACH(session);
  time_launches(session, attend);
  return session.finish() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::attention::sm90

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: program BATCH HEADS KV_HEADS SEQ KV_SEQ CAUSAL DEVICE\n");
    return 2;
  }
  using namespace pinch;
  AttentionProblem problem;
  std::int64_t* const sizes[] = {&problem.batch, &problem.heads, &problem.kv_heads, &problem.seq, &problem.kv_seq};
  for (int i = 0; i < 5; ++i) *sizes[i] = std::atoll(argv[1 + i]);
  problem.causal = std::atoi(argv[6]) != 0;
  problem.dim = attention::sm90::kKind.dim;
  problem.pv = attention::sm90::kKind.pv;
  problem.qk = attention::sm90::kKind.qk;
  problem.output = attention::sm90::kOutput;
  return attention::sm90::run(problem, std::atoi(argv[7]));
}
