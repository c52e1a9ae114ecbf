// What attention refuses, by name, before anything is written.
#include "tests/kernel/attention_cases.h"

namespace pinch {
namespace {

using namespace test;  // NOLINT

AttentionProblem good() {
  return {2, 4, 2, 20, 30, 64, false, PvType::kBf16, QkType::kBf16, OutputType::kBf16};
}

void expect_refused(const AttentionProblem& p, ErrorCode code, std::string_view where) {
  const auto plan = plan_attention(p);
  ASSERT_FALSE(plan.ok()) << where;
  EXPECT_EQ(plan.error().code, code) << plan.error().message();
  EXPECT_EQ(plan.error().where, where) << plan.error().message();
}

TEST(AttentionFaults, PlansRefuseShapesAndTypesByName) {
  EXPECT_TRUE(plan_attention(good()).ok());
  const auto with = [](auto change) {
    AttentionProblem p = good();
    change(p);
    return p;
  };
  using P = AttentionProblem&;
  expect_refused(with([](P p) { p.dim = 96; }), ErrorCode::kInvalidArgument, "dim");
  expect_refused(with([](P p) { p.seq = 0; }), ErrorCode::kInvalidArgument, "seq");
  expect_refused(with([](P p) { p.kv_seq = -1; }), ErrorCode::kInvalidArgument, "kv_seq");
  expect_refused(with([](P p) { p.batch = 0; }), ErrorCode::kInvalidArgument, "batch");
  expect_refused(with([](P p) { p.kv_heads = 3; }), ErrorCode::kInvalidArgument, "kv_heads");
  expect_refused(with([](P p) { p.pv = static_cast<PvType>(9); }), ErrorCode::kInvalidArgument, "pv");
  expect_refused(with([](P p) { p.qk = static_cast<QkType>(9); }), ErrorCode::kInvalidArgument, "qk");
  expect_refused(with([](P p) { p.output = static_cast<OutputType>(9); }), ErrorCode::kInvalidArgument, "output");
  expect_refused(with([](P p) { p.seq = (std::int64_t{1} << 31) / (2 * 4 * 64); }), ErrorCode::kInvalidArgument, "q");
  expect_refused(with([](P p) { p.kv_seq = std::int64_t{1} << 62; }), ErrorCode::kInvalidArgument, "k");
  EXPECT_TRUE(validate(with([](P p) { p.seq = (std::int64_t{1} << 31) / (2 * 4 * 64) - 1; })).ok());
}

TEST(AttentionFaults, PlansRefuseTacticsByName) {
  const auto unknown = plan_attention(good(), {"avx2.48x65.heads.poly4.linear", 1});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().text.find("avx2.48x64.heads.poly4.linear"), std::string::npos) << unknown.error().text;
  const std::string isa(to_string(cpu_choice()->isa));
  for (const auto& [name, word] : {std::pair{".heads.poly4.log", "quant"}, std::pair{".tiles.poly4.linear", "split"}}) {
    for (const AttentionCpuTactic& t : attention_cpu_tactics()) {
      const std::string full = to_string(t);
      if (!full.starts_with(isa + ".") || !full.ends_with(name)) continue;
      const auto refused = plan_attention(good(), {full, 1});
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, ErrorCode::kIllegal);
      EXPECT_TRUE(refused.error().text.starts_with(word)) << refused.error().text;
    }
  }
  for (const char* name : {"avx2.48x64.heads.hardware.linear", "avx2.48x64.heads.mixed4.linear"}) {
    const auto refused = plan_attention(good(), {name, 1});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kIllegal);
    EXPECT_TRUE(refused.error().text.starts_with("exp2: ")) << refused.error().text;
  }
  EXPECT_FALSE(plan_attention(good(), {"", -1}).ok());
}

/// The call of a case with changes; nothing may have been written where it is refused.
template <class Change>
void expect_run_refused(std::string_view where, Change change, bool variable = false) {
  Case c = make_case(good(), 1, 1, false, 0, variable);
  std::vector<Bf16> o(static_cast<std::size_t>(c.o.span), Bf16{0x7fc1});
  std::vector<float> lse(static_cast<std::size_t>(2 * 4 * 20), 77.0F);
  AttentionInputs in = c.inputs();
  AttentionOutputs out{{o.data(), c.o.batch, c.o.head, c.o.row}, lse.data(), 4 * 20, variable ? 40 : 20};
  change(in, out);
  const auto done = attention_forward(c.problem, in, out, {"", 1});
  ASSERT_FALSE(done.ok()) << where;
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(done.error().where, where) << done.error().message();
  for (const Bf16& x : o) ASSERT_EQ(x.bits, 0x7fc1) << where;
  for (const float x : lse) ASSERT_EQ(x, 77.0F) << where;
}

TEST(AttentionFaults, RunsRefusePointersStridesAndOffsetsByName) {
  using In = AttentionInputs&;
  using Out = AttentionOutputs&;
  expect_run_refused("q", [](In in, Out) { in.q.data = nullptr; });
  expect_run_refused("k", [](In in, Out) { in.k.data = nullptr; });
  expect_run_refused("v", [](In in, Out) { in.v.data = nullptr; });
  expect_run_refused("o", [](In, Out out) { out.o.data = nullptr; });
  expect_run_refused("q", [](In in, Out) { in.q.row_stride = 63; });
  expect_run_refused("k", [](In in, Out) { in.k.head_stride = -1; });
  expect_run_refused("v", [](In in, Out) { in.v.batch_stride = std::int64_t{1} << 31; });
  expect_run_refused("k", [](In in, Out) { in.k.batch_stride = 0x7fffffff; });
  expect_run_refused("q", [](In in, Out) { in.q.batch_stride = std::int64_t{1} << 62; });
  expect_run_refused("o", [](In, Out out) { out.o.head_stride = 63; });
  expect_run_refused("o", [](In, Out out) { out.o.batch_stride = 0; });
  expect_run_refused("lse", [](In, Out out) { out.lse_head_stride = 19; });
  expect_run_refused("scale", [](In in, Out) { in.scale = std::nanf(""); });
  static constexpr std::int32_t kShort[] = {0, 5}, kLate[] = {1, 5, 9}, kDown[] = {0, 9, 5}, kLong[] = {0, 21, 30};
  expect_run_refused(
      "cu_seqlens", [](In in, Out) { in.cu_seqlens_kv = {}; }, true);
  expect_run_refused(
      "cu_seqlens_q", [](In in, Out) { in.cu_seqlens_q = kShort; }, true);
  expect_run_refused(
      "cu_seqlens_q", [](In in, Out) { in.cu_seqlens_q = kLate; }, true);
  expect_run_refused(
      "cu_seqlens_kv", [](In in, Out) { in.cu_seqlens_kv = kDown; }, true);
  expect_run_refused(
      "cu_seqlens_q", [](In in, Out) { in.cu_seqlens_q = kLong; }, true);
}

TEST(AttentionFaults, RunsRefuseWorkspacesByName) {
  Case c = make_case(good(), 1, 1);
  std::vector<Bf16> o(static_cast<std::size_t>(c.o.span));
  const AttentionOutputs out{{o.data(), c.o.batch, c.o.head, c.o.row}};
  const auto plan = plan_attention(c.problem, {"", 1});
  ASSERT_TRUE(plan.ok());
  alignas(64) static std::byte small[64];
  const auto refused = run_attention(*plan, c.inputs(), out, {small, 64});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "workspace");
  std::vector<std::byte> space(plan->workspace_bytes() + 128);
  auto* odd = space.data() + 1;
  while (reinterpret_cast<std::uintptr_t>(odd) % 64 == 0) ++odd;
  EXPECT_FALSE(run_attention(*plan, c.inputs(), out, {odd, plan->workspace_bytes()}).ok());
}

}  // namespace
}  // namespace pinch
