// Random attention problems with poisoned, guarded memory, and what their results are compared with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "kernels/attention/cpu/kernels.h"
#include "kernels/attention/tactic.h"
#include "pinch/attention.h"
#include "pinch/fp4.h"
#include "pinch/machine.h"

namespace pinch::test {

using attention::Exp2;
using attention::Quant;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr PvType kBf16 = PvType::kBf16, kFp8 = PvType::kFp8, kFp4 = PvType::kFp4;

inline std::vector<CpuIsa> allowed_isas() {
  std::vector<CpuIsa> allowed;
  for (const CpuIsa isa : cpu_isas()) {
    if (cpu_choice()->allows(isa)) allowed.push_back(isa);
  }
  return allowed;
}

/// Of the CPU.
inline std::vector<AttentionCpuTactic> legal_tactics(const AttentionProblem& p, int threads) {
  Resources resources;
  resources.threads = threads;
  std::vector<AttentionCpuTactic> legal;
  for (const AttentionCpuTactic& t : attention_cpu_tactics()) {
    if (!illegal(t, p, resources)) legal.push_back(t);
  }
  return legal;
}

/// Strides of a [batch, heads, rows, dim] array, and the elements it spans.
struct Strides {
  std::int64_t batch = 0, head = 0, row = 0, span = 0;
};
/// Heads outside rows, or rows outside heads; `gap` more elements than needed between neighbours.
inline Strides strides_of(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim,
                          bool rows_outside, std::int64_t gap) {
  Strides s;
  const std::int64_t element = dim + gap;
  s.row = rows_outside ? heads * element : element;
  s.head = rows_outside ? element : rows * element + gap;
  s.batch = std::max(rows * s.row, heads * s.head) + gap;
  s.span = batch * s.batch;
  return s;
}

/// Inputs of a problem. With variable lengths every sequence has its own, at most the problem's.
struct Case {
  AttentionProblem problem;
  float scale = 1;
  Strides q, kv, o;
  std::vector<Bf16> q_data, k_data, v_data;
  std::vector<std::int32_t> cu_q, cu_kv;

  [[nodiscard]] AttentionInputs inputs() const {
    return {{q_data.data(), q.batch, q.head, q.row},
            {k_data.data(), kv.batch, kv.head, kv.row},
            {v_data.data(), kv.batch, kv.head, kv.row},
            scale,
            cu_q,
            cu_kv};
  }
  [[nodiscard]] bool variable() const { return !cu_q.empty(); }
  [[nodiscard]] std::int64_t seq(std::int64_t b) const {
    const auto at = static_cast<std::size_t>(b);
    return variable() ? cu_q[at + 1] - cu_q[at] : problem.seq;
  }
  [[nodiscard]] std::int64_t kv_seq(std::int64_t b) const {
    const auto at = static_cast<std::size_t>(b);
    return variable() ? cu_kv[at + 1] - cu_kv[at] : problem.kv_seq;
  }
  [[nodiscard]] std::int64_t q_at(const Strides& s, std::int64_t b, std::int64_t head, std::int64_t row) const {
    return (variable() ? (cu_q[static_cast<std::size_t>(b)] + row) * s.row : b * s.batch + row * s.row) + head * s.head;
  }
  [[nodiscard]] std::int64_t kv_at(std::int64_t b, std::int64_t head, std::int64_t row) const {
    return (variable() ? (cu_kv[static_cast<std::size_t>(b)] + row) * kv.row : b * kv.batch + row * kv.row) +
           head * kv.head;
  }
};

// Largest magnitudes that make every scale of a quantiser a power of two, so that what is multiplied is exact in bf16
// and the emulation below can hold it.
inline constexpr float kQuery = 1.75F, kLargestKey = 3.5F;
constexpr float largest_value(PvType pv) {
  return pv == PvType::kFp4 ? 5.25F : 3.5F;
}

/// Scores are normal with deviation `sigma` (natural units): queries of +-kQuery, keys normal. Everything between rows
/// is NaN.
inline Case make_case(const AttentionProblem& p, double sigma, std::uint32_t seed, bool rows_outside = false,
                      std::int64_t gap = 0, bool variable = false) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Case c;
  c.problem = p;
  c.scale = static_cast<float>(sigma / std::sqrt(static_cast<double>(p.dim)) / kQuery);
  if (variable) {
    c.cu_q = {0};
    c.cu_kv = {0};
    for (std::int64_t b = 0; b < p.batch; ++b) {
      c.cu_q.push_back(c.cu_q.back() + static_cast<std::int32_t>(bits() % (p.seq + 1)));
      c.cu_kv.push_back(c.cu_kv.back() + static_cast<std::int32_t>(bits() % (p.kv_seq + 1)));
    }
  }
  c.q = strides_of(p.batch, p.heads, p.seq, p.dim, rows_outside, gap);
  c.kv = strides_of(p.batch, p.kv_heads, p.kv_seq, p.dim, rows_outside, 2 * gap);
  c.o = strides_of(p.batch, p.heads, p.seq, p.dim, !rows_outside, 3 * gap);
  if (variable) {  // all rows of one head follow one another
    c.q = strides_of(1, p.heads, p.batch * p.seq, p.dim, rows_outside, gap);
    c.kv = strides_of(1, p.kv_heads, p.batch * p.kv_seq, p.dim, rows_outside, 2 * gap);
    c.o = strides_of(1, p.heads, p.batch * p.seq, p.dim, !rows_outside, 3 * gap);
  }
  const Bf16 nan{0x7fc0};
  const float largest = largest_value(p.pv);
  c.q_data.assign(static_cast<std::size_t>(c.q.span), nan);
  c.k_data.assign(static_cast<std::size_t>(c.kv.span), nan);
  c.v_data.assign(static_cast<std::size_t>(c.kv.span), nan);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      for (std::int64_t i = 0; i < c.seq(b); ++i) {
        Bf16* row = c.q_data.data() + c.q_at(c.q, b, h, i);
        for (std::int64_t d = 0; d < p.dim; ++d) row[d] = to_bf16(bits() % 2 == 0 ? kQuery : -kQuery);
      }
    }
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      for (std::int64_t j = 0; j < c.kv_seq(b); ++j) {
        Bf16* k = c.k_data.data() + c.kv_at(b, h, j);
        Bf16* v = c.v_data.data() + c.kv_at(b, h, j);
        for (std::int64_t d = 0; d < p.dim; ++d) {
          k[d] = to_bf16(std::clamp(normal(bits), -kLargestKey, kLargestKey));
          v[d] = to_bf16(std::clamp(normal(bits), -largest, largest));
        }
        if (j == 0) {
          k[0] = to_bf16(kLargestKey);
          v[0] = to_bf16(largest);
        }
      }
    }
  }
  return c;
}

/// Dense results: [batch, heads, seq, dim] and [batch, heads, seq], NaN where nothing belongs.
struct Dense {
  std::vector<double> o, lse;
};

inline Dense reference_of(const Case& c) {
  const AttentionProblem& p = c.problem;
  Dense dense;
  dense.lse.assign(static_cast<std::size_t>(p.batch * p.heads * p.seq), std::nan(""));
  dense.o.assign(dense.lse.size() * static_cast<std::size_t>(p.dim), std::nan(""));
  const auto done = reference_attention(p, c.inputs(), dense.o.data(), dense.lse.data());
  EXPECT_TRUE(done.ok()) << done.error().message();
  return dense;
}

/// One run into poisoned memory with guards on both sides.
struct Outcome {
  Dense dense;
  std::vector<std::byte> raw;  ///< every byte of the output array
  bool intact = false;         ///< guards, gaps between rows and the workspace's end kept their pattern
};
inline constexpr std::size_t kGuard = 64;  ///< bytes before and behind the output array
inline constexpr std::byte kPoison{0xff};  ///< a NaN in bf16 and in FP32

inline std::size_t output_bytes(const Case& c) {
  return static_cast<std::size_t>(c.o.span) * (c.problem.output == OutputType::kBf16 ? 2 : 4) + 2 * kGuard;
}
/// Where a run of the case writes, of memory of output_bytes() and of room for a float a row.
inline AttentionOutputs outputs_in(const Case& c, std::byte* memory, float* lse) {
  const AttentionProblem& p = c.problem;
  AttentionOutputs out{{memory + kGuard, c.o.batch, c.o.head, c.o.row}, lse, p.heads * p.seq, p.seq};
  if (c.variable()) out.lse_head_stride = p.batch * p.seq;
  return out;
}
/// What a run left in such memory.
inline Outcome collect(const Case& c, std::vector<std::byte> memory, const std::vector<float>& lse) {
  const AttentionProblem& p = c.problem;
  const std::size_t element = p.output == OutputType::kBf16 ? 2 : 4;
  Outcome outcome;
  outcome.dense.lse.assign(lse.size(), std::nan(""));
  outcome.dense.o.assign(lse.size() * static_cast<std::size_t>(p.dim), std::nan(""));
  std::vector<bool> written(memory.size(), false);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      for (std::int64_t i = 0; i < c.seq(b); ++i) {
        const std::int64_t row = (b * p.heads + h) * p.seq + i;
        const std::size_t at = kGuard + static_cast<std::size_t>(c.q_at(c.o, b, h, i)) * element;
        for (std::int64_t d = 0; d < p.dim; ++d) {
          const std::byte* from = memory.data() + at + static_cast<std::size_t>(d) * element;
          float value;
          if (element == 4) {
            std::memcpy(&value, from, 4);
          } else {
            Bf16 half;
            std::memcpy(&half, from, 2);
            value = to_f32(half);
          }
          outcome.dense.o[static_cast<std::size_t>(row * p.dim + d)] = value;
        }
        std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::size_t>(p.dim) * element, true);
        const std::int64_t lse_at = c.variable() ? h * p.batch * p.seq + c.cu_q[static_cast<std::size_t>(b)] + i : row;
        outcome.dense.lse[static_cast<std::size_t>(row)] = lse[static_cast<std::size_t>(lse_at)];
      }
    }
  }
  outcome.intact = true;
  for (std::size_t i = 0; i < memory.size(); ++i) outcome.intact &= written[i] || memory[i] == kPoison;
  outcome.raw = std::move(memory);
  return outcome;
}
inline Result<Outcome> run_case(const Case& c, const AttentionOptions& options) {
  const AttentionProblem& p = c.problem;
  PINCH_ASSIGN(plan, plan_attention(p, options));
  std::vector<std::byte> memory(output_bytes(c), kPoison);
  std::vector<std::byte> space(plan.workspace_bytes() + 3 * kAttentionAlignment, kPoison);
  const std::size_t shift =
      (kAttentionAlignment - reinterpret_cast<std::uintptr_t>(space.data()) % kAttentionAlignment) %
      kAttentionAlignment;
  std::vector<float> lse(static_cast<std::size_t>(p.batch * p.heads * p.seq), std::nanf(""));
  PINCH_TRY(run_attention(plan, c.inputs(), outputs_in(c, memory.data(), lse.data()),
                          {space.data() + shift, plan.workspace_bytes()}));
  Outcome outcome = collect(c, std::move(memory), lse);
  for (std::size_t i = shift + plan.workspace_bytes(); i < space.size(); ++i) outcome.intact &= space[i] == kPoison;
  return outcome;
}

/// |a - b| / |b| in the 2-norm over what both hold; infinite where one has a NaN or infinity that the other has not.
inline double rel_l2(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) != std::isfinite(b[i]) || std::isnan(a[i]) != std::isnan(b[i])) return kInfinity;
    if (!std::isfinite(a[i])) continue;
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}

/// The inputs of make_case as they are multiplied: Q, K, V through their quantisers, by other code than the kernels'.
inline Case quantized(const Case& c) {
  const AttentionProblem& p = c.problem;
  Case result = c;
  const auto round_to_fp8 = [](const std::vector<Bf16*>& values) {
    float amax = 0;
    for (const Bf16* x : values) amax = std::max(amax, std::fabs(to_f32(*x)));
    const float scale = amax == 0 ? 1 : amax / kE4m3Max;
    for (Bf16* x : values) *x = to_bf16(to_f32(to_e4m3(to_f32(*x) / scale)) * scale);
  };
  const auto each = [&](std::vector<Bf16>& data, std::int64_t b, std::int64_t h, bool query) {
    std::vector<Bf16*> values;
    for (std::int64_t i = 0; i < (query ? c.seq(b) : c.kv_seq(b)); ++i) {
      Bf16* row = data.data() + (query ? c.q_at(c.q, b, h, i) : c.kv_at(b, h, i));
      for (std::int64_t d = 0; d < p.dim; ++d) values.push_back(row + d);
    }
    return values;
  };
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads && p.qk == QkType::kFp8; ++h) round_to_fp8(each(result.q_data, b, h, true));
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      if (p.qk == QkType::kFp8) round_to_fp8(each(result.k_data, b, h, false));
      const auto values = each(result.v_data, b, h, false);
      if (p.pv == PvType::kFp8) {
        round_to_fp8(values);
      } else if (p.pv == PvType::kFp4 && !values.empty()) {
        // quantize_fp4 takes groups along its columns: V transposed.
        const std::int64_t keys = c.kv_seq(b), padded = (keys + 15) / 16 * 16;
        std::vector<float> transposed(static_cast<std::size_t>(p.dim * padded));
        for (std::int64_t j = 0; j < keys; ++j) {
          for (std::int64_t d = 0; d < p.dim; ++d) {
            transposed[static_cast<std::size_t>(d * padded + j)] =
                to_f32(*values[static_cast<std::size_t>(j * p.dim + d)]);
          }
        }
        const auto matrix = quantize_fp4(transposed, p.dim, padded, Fp4Format::kNvfp4);
        EXPECT_TRUE(matrix.ok());
        std::vector<float> row(static_cast<std::size_t>(padded));
        for (std::int64_t d = 0; d < p.dim; ++d) {
          dequantize_row(matrix->view(), d, std::span<float>(row));
          for (std::int64_t j = 0; j < keys; ++j) {
            *values[static_cast<std::size_t>(j * p.dim + d)] = to_bf16(row[static_cast<std::size_t>(j)]);
          }
        }
      }
    }
  }
  return result;
}

/// A fault to plant into the emulation, so that the comparison is seen to find it.
enum class Planted { kNone, kMaskOneLate, kFirstGroupsScale, kNoDecay };

/// What a kernel computes on already quantised inputs, with scores and sums in FP64: P relative to the running maximum
/// of its key tile and through its quantiser, sums of unrounded P. `backward`: the last key tile first;
/// `threshold`: by how much a tile must exceed the maximum, in log2 units, to move it.
inline Dense emulate(const Case& c, int tile_kv, Planted planted = Planted::kNone, bool backward = false,
                     double threshold = 0) {
  const AttentionProblem& p = c.problem;
  Dense dense;
  dense.lse.assign(static_cast<std::size_t>(p.batch * p.heads * p.seq), std::nan(""));
  dense.o.assign(dense.lse.size() * static_cast<std::size_t>(p.dim), std::nan(""));
  constexpr double kLog2E = 1.4426950408889634;
  std::vector<double> query(static_cast<std::size_t>(p.dim)), sum(static_cast<std::size_t>(p.dim));
  std::vector<float> s;
  for (std::int64_t bh = 0; bh < p.batch * p.heads; ++bh) {
    const std::int64_t b = bh / p.heads, h = bh % p.heads, kv_head = h / (p.heads / p.kv_heads);
    for (std::int64_t i = 0; i < c.seq(b); ++i) {
      const Bf16* q = c.q_data.data() + c.q_at(c.q, b, h, i);
      for (std::int64_t d = 0; d < p.dim; ++d) query[static_cast<std::size_t>(d)] = to_f32(q[d]) * (c.scale * kLog2E);
      const std::int64_t all = visible_keys(p.causal, i, c.seq(b), c.kv_seq(b));
      const std::int64_t keys = std::min(all + (planted == Planted::kMaskOneLate ? 1 : 0), c.kv_seq(b));
      std::fill(sum.begin(), sum.end(), 0.0);
      double m = -kInfinity, l = 0;
      const std::int64_t tiles = (keys + tile_kv - 1) / tile_kv;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t first = (backward ? tiles - 1 - tile : tile) * tile_kv;
        const std::int64_t count = std::min<std::int64_t>(tile_kv, keys - first);
        s.assign(static_cast<std::size_t>((count + 15) / 16 * 16), -std::numeric_limits<float>::infinity());
        double top = -kInfinity;
        for (std::int64_t j = 0; j < count; ++j) {
          const Bf16* k = c.k_data.data() + c.kv_at(b, kv_head, first + j);
          double lane[8] = {};
          for (std::int64_t d = 0; d < p.dim; d += 8) {
            for (std::int64_t e = 0; e < 8; ++e) lane[e] += query[static_cast<std::size_t>(d + e)] * to_f32(k[d + e]);
          }
          s[static_cast<std::size_t>(j)] = static_cast<float>(std::accumulate(lane, lane + 8, 0.0));
          top = std::max(top, static_cast<double>(s[static_cast<std::size_t>(j)]));
        }
        if (!(top > m + threshold)) top = m;
        const double decay = planted == Planted::kNoDecay || top == m ? 1 : std::exp2(m - top);
        m = top;
        l *= decay;
        for (double& x : sum) x *= decay;
        E4m3 scale{};
        for (std::int64_t j = 0; j < count; ++j) {
          const auto at = static_cast<std::size_t>(j);
          const double exact = std::exp2(static_cast<double>(s[at]) - m);
          l += exact;
          double value = to_f32(to_bf16(static_cast<float>(exact)));
          if (p.pv == PvType::kFp8) {
            value = to_f32(to_e4m3(static_cast<float>(exact * 256))) / 256.0;
          } else if (p.pv == PvType::kFp4) {
            const double group = std::exp2(
                std::max(static_cast<double>(*std::max_element(&s[at / 16 * 16], &s[at / 16 * 16] + 16)) - m, -100.0));
            if (planted != Planted::kFirstGroupsScale || j == 0) scale = to_e4m3(static_cast<float>(group * 448));
            value = to_f32(to_e2m1(static_cast<float>(exact / group * 6))) * to_f32(scale) / 2688.0;
          }
          const Bf16* v = c.v_data.data() + c.kv_at(b, kv_head, first + j);
          for (std::int64_t d = 0; d < p.dim; ++d) sum[static_cast<std::size_t>(d)] += value * to_f32(v[d]);
        }
      }
      double* row = dense.o.data() + (bh * p.seq + i) * p.dim;
      for (std::int64_t d = 0; d < p.dim; ++d) row[d] = keys > 0 ? sum[static_cast<std::size_t>(d)] / l : 0;
      dense.lse[static_cast<std::size_t>(bh * p.seq + i)] = keys > 0 ? (m + std::log2(l)) / kLog2E : -kInfinity;
    }
  }
  return dense;
}

}  // namespace pinch::test
