// The FP64 reference: two passes over the keys of each row, nothing shared with the kernels.
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/attention/arguments.h"

namespace pinch {

Result<void> reference_attention(const AttentionProblem& p, const AttentionInputs& in, double* o, double* lse) {
  PINCH_TRY(validate(p));
  PINCH_TRY(detail::check_inputs(p, in));
  if (o == nullptr) return Error{ErrorCode::kInvalidArgument, "null; give room for [batch, heads, seq, dim]", "o"};
  const bool variable = !in.cu_seqlens_q.empty();
#pragma omp parallel
  {
    std::vector<double> score(static_cast<std::size_t>(p.kv_seq)), query(static_cast<std::size_t>(p.dim));
    for (std::int64_t bh = 0; bh < p.batch * p.heads; ++bh) {
      const std::int64_t b = bh / p.heads, h = bh % p.heads, kv_head = h / (p.heads / p.kv_heads);
      const detail::Sequence sequence = detail::sequence_of(p, in, b);
      const Bf16* q = in.q.data + detail::offset_of(in.q, variable, b, h, sequence.q_row);
      const Bf16* k = in.k.data + detail::offset_of(in.k, variable, b, kv_head, sequence.kv_row);
      const Bf16* v = in.v.data + detail::offset_of(in.v, variable, b, kv_head, sequence.kv_row);
#pragma omp for schedule(dynamic, 8) nowait
      for (std::int64_t i = 0; i < sequence.seq; ++i) {
        const std::int64_t keys = visible_keys(p.causal, i, sequence.seq, sequence.kv_seq);
        for (std::int64_t c = 0; c < p.dim; ++c) {
          query[static_cast<std::size_t>(c)] = static_cast<double>(to_f32(q[i * in.q.row_stride + c])) * in.scale;
        }
        double top = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < keys; ++j) {
          const Bf16* key = k + j * in.k.row_stride;
          double lane[8] = {};  // a chain of sums would wait for each
          for (std::int64_t c = 0; c < p.dim; c += 8) {
            for (std::int64_t e = 0; e < 8; ++e) lane[e] += query[static_cast<std::size_t>(c + e)] * to_f32(key[c + e]);
          }
          const double dot = std::accumulate(lane, lane + 8, 0.0);
          score[static_cast<std::size_t>(j)] = dot;
          top = std::fmax(top, dot);
        }
        double* row = o + (bh * p.seq + i) * p.dim;
        for (std::int64_t c = 0; c < p.dim; ++c) row[c] = 0;
        double sum = 0;
        // Where every score is minus infinity, each weight is 0; a NaN among them stays one (fmax passes over it).
        const double minus = std::isinf(top) && top < 0 ? 0 : top;
        for (std::int64_t j = 0; j < keys; ++j) {
          const double weight = std::exp(score[static_cast<std::size_t>(j)] - minus);
          sum += weight;
          for (std::int64_t c = 0; c < p.dim; ++c) row[c] += weight * to_f32(v[j * in.v.row_stride + c]);
        }
        for (std::int64_t c = 0; c < p.dim; ++c) row[c] = sum == 0 ? 0 : row[c] / sum;
        if (lse != nullptr) lse[bh * p.seq + i] = sum == 0 ? top : minus + std::log(sum);
      }
    }
  }
  return {};
}

}  // namespace pinch
