// The check of attention's output passes what the library computes and finds faults planted in one row.
#include "workbench/check/attention_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pinch::check {
namespace {

struct Attempt {
  explicit Attempt(const AttentionProblem& problem) : p(problem) {
    std::mt19937 bits(3);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<Bf16>& values, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) values.push_back(to_bf16(normal(bits)));
    };
    fill(q, p.batch * p.heads * p.seq * p.dim);
    fill(k, p.batch * p.kv_heads * p.kv_seq * p.dim);
    fill(v, p.batch * p.kv_heads * p.kv_seq * p.dim);
    out.resize(q.size());
  }
  [[nodiscard]] AttentionInputs inputs() const {
    const std::int64_t q_head = p.seq * p.dim, kv_head = p.kv_seq * p.dim;
    return {{q.data(), p.heads * q_head, q_head, p.dim},
            {k.data(), p.kv_heads * kv_head, kv_head, p.dim},
            {v.data(), p.kv_heads * kv_head, kv_head, p.dim},
            1 / std::sqrt(static_cast<float>(p.dim))};
  }
  void compute(const AttentionProblem& as) {
    const std::int64_t head = p.seq * p.dim;
    ASSERT_TRUE(attention_forward(as, inputs(), {{out.data(), p.heads * head, head, p.dim}}).ok());
  }
  AttentionProblem p;
  std::vector<Bf16> q, k, v, out;
};

AttentionProblem problem(PvType pv) {
  return {1, 2, 1, 60, 80, 64, true, pv, QkType::kBf16, OutputType::kBf16};
}
constexpr double kAllRows = 1e9, kFewRows = 1;

TEST(AttentionCheck, PassesWhatTheLibraryComputes) {
  for (const PvType pv : {PvType::kBf16, PvType::kFp8, PvType::kFp4}) {
    for (const QkType qk : {QkType::kBf16, QkType::kFp8}) {
      AttentionProblem p = problem(pv);
      p.qk = qk;
      p.seq = 90;  // the first rows see no key
      Attempt attempt(p);
      attempt.compute(p);
      const auto check = AttentionCheck::create(p, attempt.inputs(), kAllRows, 1);
      ASSERT_TRUE(check.ok()) << check.error().message();
      const OutputVerdict verdict = check->compare(attempt.out.data());
      EXPECT_TRUE(verdict.right) << verdict.why;
      EXPECT_GT(verdict.rel_l2, 1e-4);
    }
  }
}

TEST(AttentionCheck, FindsPlantedFaults) {
  const AttentionProblem p = problem(PvType::kBf16);
  Attempt attempt(p);
  attempt.compute(p);
  const auto all = AttentionCheck::create(p, attempt.inputs(), kAllRows, 1);
  const auto few = AttentionCheck::create(p, attempt.inputs(), kFewRows, 1);
  ASSERT_TRUE(all.ok() && few.ok());
  const std::vector<Bf16> right = attempt.out;
  const auto with = [&](std::size_t at, Bf16 value) {
    std::vector<Bf16> wrong = right;
    wrong[at] = value;
    return wrong;
  };
  const std::size_t inner = 31 * 64 + 5;  // of a row that few rows leave out
  EXPECT_TRUE(few->compare(right.data()).right);
  EXPECT_FALSE(all->compare(with(inner, to_bf16(0.5F)).data()).right) << "one element";
  EXPECT_FALSE(few->compare(with(inner, Bf16{0x7fc0}).data()).right) << "a NaN in a row not compared";
  EXPECT_FALSE(few->compare(with(inner, to_bf16(100.0F)).data()).right) << "beyond every value";
  EXPECT_FALSE(few->compare(with(right.size() - 1, to_bf16(2.0F)).data()).right) << "the last row is compared";

  AttentionProblem full = p;
  full.causal = false;
  attempt.compute(full);
  EXPECT_FALSE(few->compare(attempt.out.data()).right) << "no mask";
  AttentionProblem crude = p;
  crude.pv = PvType::kFp8;
  attempt.compute(crude);
  const OutputVerdict verdict = all->compare(attempt.out.data());
  EXPECT_FALSE(verdict.right) << "another type";
  EXPECT_FALSE(verdict.why.empty());
}

}  // namespace
}  // namespace pinch::check
