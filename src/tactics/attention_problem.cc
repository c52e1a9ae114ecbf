#include "pinch/attention_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace pinch {
namespace {

constexpr std::int64_t kMostElements = 0x7fffffff;

Error invalid(std::string text, std::string where) {
  return {ErrorCode::kInvalidArgument, std::move(text), std::move(where)};
}

bool at_most(std::int64_t limit, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    if (size > limit) return false;
    limit /= size;
  }
  return true;
}

}  // namespace

Result<void> validate(const AttentionProblem& p) {
  const std::array<std::pair<const char*, std::int64_t>, 6> sizes{{{"batch", p.batch},
                                                                   {"heads", p.heads},
                                                                   {"kv_heads", p.kv_heads},
                                                                   {"seq", p.seq},
                                                                   {"kv_seq", p.kv_seq},
                                                                   {"dim", p.dim}}};
  for (const auto& [name, size] : sizes) {
    if (size < 1) return invalid(fmt::format("{}; every size must be at least 1", size), name);
  }
  if (p.dim != 64 && p.dim != 128) {
    return invalid(fmt::format("{}; heads of 64 and 128 are supported", p.dim), "dim");
  }
  if (p.heads % p.kv_heads != 0) {
    return invalid(fmt::format("{} for {} heads; give a divisor of the heads", p.kv_heads, p.heads), "kv_heads");
  }
  if (p.pv > PvType::kFp4) return invalid("unknown type; give bf16, fp8 or fp4", "pv");
  if (p.qk > QkType::kFp8) return invalid("unknown type; give bf16 or fp8", "qk");
  if (p.output > OutputType::kF32) return invalid("unknown type; give bf16 or f32", "output");
  if (!at_most(kMostElements, {p.batch, p.heads, p.seq, p.dim})) {
    return invalid(fmt::format("batch * heads * seq * dim = {} * {} * {} * {}; at most 2^31 - 1 elements are allowed",
                               p.batch, p.heads, p.seq, p.dim),
                   "q");
  }
  if (!at_most(kMostElements, {p.batch, p.kv_heads, p.kv_seq, p.dim})) {
    return invalid(
        fmt::format("batch * kv_heads * kv_seq * dim = {} * {} * {} * {}; at most 2^31 - 1 elements are allowed",
                    p.batch, p.kv_heads, p.kv_seq, p.dim),
        "k");
  }
  return {};
}

double attention_flops(const AttentionProblem& p) {
  const auto seq = static_cast<double>(p.seq), kv_seq = static_cast<double>(p.kv_seq);
  double pairs = seq * kv_seq;
  if (p.causal) {  // query i sees i + kv_seq - seq + 1 keys; the first seq - kv_seq queries none
    const double seeing = std::min(seq, kv_seq), most = kv_seq, least = kv_seq - seeing + 1;
    pairs = seeing * (most + least) / 2;
  }
  return 4 * pairs * static_cast<double>(p.dim) * static_cast<double>(p.batch * p.heads);
}

}  // namespace pinch
