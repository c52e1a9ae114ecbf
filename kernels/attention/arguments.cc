#include "kernels/attention/arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace pinch::detail {
namespace {

constexpr std::int64_t kMostElements = 0x7fffffff;

Error invalid(std::string text, std::string_view where) {
  return {ErrorCode::kInvalidArgument, std::move(text), std::string(where)};
}

struct Dimension {
  std::int64_t size, stride;
};

/// Rows apart enough, and no element 2^31 or more from the first. With `distinct`, no two elements in one place.
Result<void> check_strides(std::string_view name, std::array<Dimension, 3> dimensions, std::int64_t dim,
                           std::int64_t row_stride, bool distinct) {
  if (row_stride < dim) {
    return invalid(
        fmt::format("rows {} elements apart overlap: dim is {}, give a row_stride of at least that", row_stride, dim),
        name);
  }
  for (const Dimension& d : dimensions) {
    if (d.size > 1 && (d.stride < 0 || d.stride > kMostElements)) {
      return invalid(fmt::format("a stride of {} elements; give 0 to 2^31 - 1", d.stride), name);
    }
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  std::int64_t extent = dim;
  for (const Dimension& d : dimensions) {
    if (d.size < 2) continue;
    if (distinct && d.stride < extent) {
      return invalid(
          fmt::format("a stride of {} elements makes rows or heads overlap; give at least {}", d.stride, extent), name);
    }
    if (d.stride > 0 && d.size - 1 > (kMostElements - extent) / d.stride) {
      return invalid("spans 2^31 elements or more by its strides; give smaller sizes or strides", name);
    }
    extent += (d.size - 1) * d.stride;
  }
  return {};
}

template <class T>
Result<void> check_array(std::string_view name, const AttentionArray<T>& array, std::int64_t batch, std::int64_t heads,
                         std::int64_t rows, std::int64_t dim, bool distinct) {
  if (array.data == nullptr) return invalid("null; give [batch, heads, rows, dim] elements", name);
  return check_strides(name, {{{batch, array.batch_stride}, {heads, array.head_stride}, {rows, array.row_stride}}}, dim,
                       array.row_stride, distinct);
}

/// What can be known of a call without reading an array.
Result<void> check_scalars(const AttentionProblem& p, const AttentionInputs& in) {
  if (!std::isfinite(in.scale)) {
    return invalid(fmt::format("{}; give a finite factor of the scores", in.scale), "scale");
  }
  if (in.cu_seqlens_q.empty() != in.cu_seqlens_kv.empty()) {
    return invalid("one of cu_seqlens_q and cu_seqlens_kv is missing; give both or none", "cu_seqlens");
  }
  if (in.cu_seqlens_q.empty()) return {};
  for (const auto& [offsets, name] :
       {std::pair{in.cu_seqlens_q, "cu_seqlens_q"}, std::pair{in.cu_seqlens_kv, "cu_seqlens_kv"}}) {
    if (static_cast<std::int64_t>(offsets.size()) != p.batch + 1) {
      return invalid(fmt::format("{} offsets for {} sequences; give {}", offsets.size(), p.batch, p.batch + 1), name);
    }
    if (offsets.data() == nullptr) return invalid("null; give batch + 1 offsets", name);
  }
  return {};
}

Result<void> check_offsets(std::string_view name, std::span<const std::int32_t> offsets, std::int64_t longest) {
  if (offsets[0] != 0) return invalid(fmt::format("starts at {}; the first offset is 0", offsets[0]), name);
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const std::int64_t length = std::int64_t{offsets[b + 1]} - offsets[b];
    if (length < 0) return invalid(fmt::format("descends at sequence {}", b), name);
    if (length > longest) {
      return invalid(fmt::format("sequence {} has {} rows; the problem says at most {}", b, length, longest), name);
    }
  }
  return {};
}

struct Rows {
  std::int64_t batch, q, kv;
};
/// What the arrays hold: with variable lengths one sequence of all rows.
Rows rows_of(const AttentionProblem& p, const AttentionInputs& in) {
  if (in.cu_seqlens_q.empty()) return {p.batch, p.seq, p.kv_seq};
  return {1, in.cu_seqlens_q.back(), in.cu_seqlens_kv.back()};
}

Result<void> check_read(const AttentionProblem& p, const AttentionInputs& in, const Rows& rows) {
  PINCH_TRY(check_array("q", in.q, rows.batch, p.heads, rows.q, p.dim, false));
  PINCH_TRY(check_array("k", in.k, rows.batch, p.kv_heads, rows.kv, p.dim, false));
  return check_array("v", in.v, rows.batch, p.kv_heads, rows.kv, p.dim, false);
}

Result<void> check_written(const AttentionProblem& p, const AttentionOutputs& out, const Rows& rows) {
  PINCH_TRY(check_array("o", out.o, rows.batch, p.heads, rows.q, p.dim, true));
  if (out.lse == nullptr) return {};
  return check_strides("lse", {{{rows.batch, out.lse_batch_stride}, {p.heads, out.lse_head_stride}, {1, 0}}}, rows.q,
                       rows.q, true);
}

}  // namespace

Result<void> check_inputs(const AttentionProblem& p, const AttentionInputs& in) {
  PINCH_TRY(check_scalars(p, in));
  if (!in.cu_seqlens_q.empty()) {
    PINCH_TRY(check_offsets("cu_seqlens_q", in.cu_seqlens_q, p.seq));
    PINCH_TRY(check_offsets("cu_seqlens_kv", in.cu_seqlens_kv, p.kv_seq));
  }
  return check_read(p, in, rows_of(p, in));
}

Result<void> check_outputs(const AttentionProblem& p, const AttentionInputs& in, const AttentionOutputs& out) {
  return check_written(p, out, rows_of(p, in));
}

namespace {

struct Layout {
  std::int64_t stride_multiple;
  std::size_t alignment;
};

Result<void> check_total(std::string_view name, std::int64_t total, std::int64_t batch, std::int64_t longest) {
  if (total >= 0 && total <= batch * longest) return {};
  return invalid(
      fmt::format("{} rows in all; {} sequences of at most {} have 0 to {}", total, batch, longest, batch * longest),
      name);
}

template <class T>
Result<void> check_layout_of(std::string_view name, const AttentionArray<T>& array, std::int64_t heads,
                             bool read_batches, const Layout& layout) {
  for (const auto& [stride, read] : {std::pair{array.batch_stride, read_batches},
                                     std::pair{array.head_stride, heads > 1}, std::pair{array.row_stride, true}}) {
    if (read && stride % layout.stride_multiple != 0) {
      return invalid(fmt::format("a stride of {} elements; give multiples of {}", stride, layout.stride_multiple),
                     name);
    }
  }
  if (reinterpret_cast<std::uintptr_t>(array.data) % layout.alignment == 0) return {};
  return invalid(fmt::format("not aligned; it must start at a multiple of {} bytes", layout.alignment), name);
}

}  // namespace

Result<void> check_device_call(const AttentionProblem& p, const AttentionInputs& in, const AttentionOutputs& out,
                               std::int64_t stride_multiple, std::size_t alignment) {
  PINCH_TRY(check_scalars(p, in));
  if (!(in.scale > 0)) return invalid(fmt::format("{}; give a factor above 0 on a device", in.scale), "scale");
  const bool variable = !in.cu_seqlens_q.empty();
  if (variable) {
    PINCH_TRY(check_total("total_q", in.total_q, p.batch, p.seq));
    PINCH_TRY(check_total("total_kv", in.total_kv, p.batch, p.kv_seq));
  }
  const Rows rows = variable ? Rows{1, in.total_q, in.total_kv} : Rows{p.batch, p.seq, p.kv_seq};
  PINCH_TRY(check_read(p, in, rows));
  PINCH_TRY(check_written(p, out, rows));
  const Layout layout{stride_multiple, alignment};
  const bool batches = !variable && p.batch > 1;
  PINCH_TRY(check_layout_of("q", in.q, p.heads, batches, layout));
  PINCH_TRY(check_layout_of("k", in.k, p.kv_heads, batches, layout));
  PINCH_TRY(check_layout_of("v", in.v, p.kv_heads, batches, layout));
  return check_layout_of("o", out.o, p.heads, batches, layout);
}

}  // namespace pinch::detail
