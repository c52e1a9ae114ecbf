#include "workbench/check/attention_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace pinch::check {

namespace {

double limit_of(const AttentionProblem& p) {
  const double step = p.pv == PvType::kBf16 ? 0x1p-9 : p.pv == PvType::kFp8 ? 0x1p-4 : 0.25;
  const double output = p.output == OutputType::kBf16 ? 0x1p-8 : 0x1p-20;
  return 2 * step + output + (p.qk == QkType::kFp8 ? 0.1 : 0);
}

double value_at(const void* out, OutputType type, std::int64_t at) {
  return type == OutputType::kF32 ? static_cast<const float*>(out)[at] : to_f32(static_cast<const Bf16*>(out)[at]);
}

}  // namespace

Result<AttentionCheck> AttentionCheck::create(const AttentionProblem& p, const AttentionInputs& in,
                                              double multiply_adds, std::uint64_t seed) {
  PINCH_TRY(validate(p));
  AttentionCheck check;
  check.problem_ = p;
  check.limit_ = limit_of(p);
  const double per_row = 2 * static_cast<double>(p.kv_seq) * static_cast<double>(p.dim);
  const auto heads = static_cast<double>(p.batch * p.heads);
  const auto count =
      static_cast<std::int64_t>(std::clamp(multiply_adds / (per_row * heads), 2.0, static_cast<double>(p.seq)));
  std::mt19937_64 random(seed);
  AttentionProblem one = p;
  one.batch = one.heads = one.kv_heads = one.seq = 1;
  one.causal = false;
  for (std::int64_t bh = 0; bh < p.batch * p.heads; ++bh) {
    const std::int64_t b = bh / p.heads, h = bh % p.heads, kv_head = h / (p.heads / p.kv_heads);
    std::int64_t last = -1;
    for (std::int64_t part = 0; part < count; ++part) {
      // One of each part of the rows: the first of the first, the last of the last, else a random one.
      const std::int64_t from = part * p.seq / count, to = (part + 1) * p.seq / count;
      const std::int64_t i = part == 0 ? 0
                             : part + 1 == count
                                 ? p.seq - 1
                                 : from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from));
      if (i == last) continue;
      last = i;
      std::vector<double> row(static_cast<std::size_t>(p.dim), 0.0);
      one.kv_seq = visible_keys(p.causal, i, p.seq, p.kv_seq);
      if (one.kv_seq > 0) {
        AttentionInputs part_in = in;
        part_in.q.data += b * in.q.batch_stride + h * in.q.head_stride + i * in.q.row_stride;
        part_in.k.data += b * in.k.batch_stride + kv_head * in.k.head_stride;
        part_in.v.data += b * in.v.batch_stride + kv_head * in.v.head_stride;
        PINCH_TRY(reference_attention(one, part_in, row.data()));
      }
      check.rows_.push_back(bh * p.seq + i);
      check.expected_.insert(check.expected_.end(), row.begin(), row.end());
    }
  }
  check.largest_.assign(static_cast<std::size_t>(p.batch * p.kv_heads * p.dim), 0.0);
  for (std::int64_t pair = 0; pair < p.batch * p.kv_heads; ++pair) {
    const Bf16* v = in.v.data + pair / p.kv_heads * in.v.batch_stride + pair % p.kv_heads * in.v.head_stride;
    for (std::int64_t j = 0; j < p.kv_seq; ++j) {
      for (std::int64_t c = 0; c < p.dim; ++c) {
        double& top = check.largest_[static_cast<std::size_t>(pair * p.dim + c)];
        top = std::max(top, std::fabs(static_cast<double>(to_f32(v[j * in.v.row_stride + c]))));
      }
    }
  }
  return check;
}

OutputVerdict AttentionCheck::compare(const void* out) const {
  const AttentionProblem& p = problem_;
  for (std::int64_t row = 0; row < p.batch * p.heads * p.seq; ++row) {
    const std::int64_t pair = row / p.seq / (p.heads / p.kv_heads);
    for (std::int64_t c = 0; c < p.dim; ++c) {
      const double value = value_at(out, p.output, row * p.dim + c);
      const double most = (1 + limit_) * largest_[static_cast<std::size_t>(pair * p.dim + c)];
      if (std::fabs(value) <= most) continue;  // false for a NaN
      return {false, std::nan(""),
              fmt::format("row {}, column {} of all heads' rows is {}; averages of that head's values reach {:.3g}",
                          row, c, value, most)};
    }
  }
  double squares = 0;  // of the rows' relative errors: a causal problem's first rows, averages of few values, are large
  std::optional<std::string> why;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    double row_error = 0, row_size = 0;
    for (std::int64_t c = 0; c < p.dim; ++c) {
      const double want = expected_[i * static_cast<std::size_t>(p.dim) + static_cast<std::size_t>(c)];
      const double difference = value_at(out, p.output, rows_[i] * p.dim + c) - want;
      row_error += difference * difference;
      row_size += want * want;
    }
    squares += row_size > 0 ? row_error / row_size : row_error;
    if (!why && std::sqrt(row_error) > 4 * limit_ * std::sqrt(row_size)) {
      why = fmt::format("row {} of head {}: error {:.3g} of its size {:.3g}, at most {:.3g} of it are roundings",
                        rows_[i] % p.seq, rows_[i] / p.seq, std::sqrt(row_error), std::sqrt(row_size), 4 * limit_);
    }
  }
  const double rel_l2 = std::sqrt(squares / static_cast<double>(rows_.size()));
  if (!why && rel_l2 > limit_)
    why = fmt::format("rel_l2 {:.3g} over all compared rows, at most {:.3g}", rel_l2, limit_);
  return {!why, rel_l2, why.value_or("")};
}

}  // namespace pinch::check
