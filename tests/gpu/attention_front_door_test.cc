// Attention's CUDA front door on a device: runs, graphs, threads, devices, refusals.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <thread>
#include <tuple>

#include "tests/gpu/support/attention_on_device.h"

namespace pinch::cuda {
namespace {

using testing::HasSubstr;

TEST_F(AttentionFrontDoor, SixtyRunsGiveTheSameBits) {
  for (const auto& [dim, qk, pv] : {std::tuple{64, QkType::kBf16, kBf16}, std::tuple{64, QkType::kBf16, kFp8},
                                    std::tuple{64, QkType::kFp8, kFp8}, std::tuple{64, QkType::kBf16, kFp4},
                                    std::tuple{128, QkType::kBf16, kBf16}, std::tuple{128, QkType::kBf16, kFp8},
                                    std::tuple{128, QkType::kFp8, kFp8}, std::tuple{128, QkType::kBf16, kFp4}}) {
    const AttentionProblem p{2, 4, 2, 700, 1500, dim, true, pv, qk, OutputType::kF32};
    ASSERT_FALSE(legal_tactics(p).empty()) << dim << to_string(qk) << to_string(pv);
    const Case c = make_case(p, 2, 95);
    const OnDevice arrays(c);
    for (const std::size_t index : legal_tactics(p)) {
      const auto plan = plan_attention(p, 0, {name_at(index)});
      ASSERT_TRUE(plan.ok());
      const Workspace workspace(plan->device(), plan->workspace_bytes());
      std::vector<std::byte> first;
      for (int run = 0; run < 60; ++run) {
        arrays.poison();
        ASSERT_TRUE(run_attention(*plan, arrays.inputs(), arrays.outputs(), workspace.memory.bytes()).ok());
        std::vector<std::byte> got = arrays.bits();
        if (run == 0) first = std::move(got);
        ASSERT_TRUE(run == 0 || got == first)
            << dim << " " << to_string(qk) << " " << to_string(pv) << " " << name_at(index) << " run " << run;
      }
    }
  }
}

TEST_F(AttentionFrontDoor, RunsAllocateNothingAndAreCaptured) {
  for (const PvType pv : {kBf16, kFp8, kFp4}) {
    const AttentionProblem p{2, 4, 2, 300, 500, 128, true, pv, QkType::kBf16, OutputType::kBf16};
    if (legal_tactics(p).empty()) continue;
    const Case c = make_case(p, 1, 7, false, 8, true);
    const OnDevice arrays(c);
    const auto plan = plan_attention(p, 0);
    ASSERT_TRUE(plan.ok());
    const Workspace workspace(plan->device(), plan->workspace_bytes());
    const AttentionInputs in = arrays.inputs();
    const AttentionOutputs out = arrays.outputs();
    expect_allocates_nothing_and_is_captured(
        [&](Stream stream) { return run_attention(*plan, in, out, workspace.memory.bytes(), stream).ok(); },
        [&] { arrays.poison(); }, [&] { return arrays.raw(); });
  }
}

TEST_F(AttentionFrontDoor, StreamsAndThreadsShareAPlan) {
  const AttentionProblem p{2, 8, 4, 600, 900, 128, true, kBf16, QkType::kBf16, OutputType::kBf16};
  const Case c = make_case(p, 1, 8);
  const auto plan = plan_attention(p, 0);
  ASSERT_TRUE(plan.ok());
  const auto first = run_on_device(c, plan->tactic());
  ASSERT_TRUE(first.ok());
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const OwnStream stream;
      const OnDevice arrays(c);
      const Workspace workspace(plan->device(), plan->workspace_bytes());
      check(cudaDeviceSynchronize());
      for (int i = 0; i < 10; ++i) {
        const bool ran =
            run_attention(*plan, arrays.inputs(), arrays.outputs(), workspace.memory.bytes(), stream.get()).ok();
        check(cudaStreamSynchronize(stream.get()));
        if (!ran || arrays.raw() != first->raw) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST_F(AttentionFrontDoor, OneWorkspaceServesEveryTacticInTurn) {
  const AttentionProblem p{1, 4, 2, 400, 400, 128, false, kBf16, QkType::kBf16, OutputType::kF32};
  const Case c = make_case(p, 1, 9);
  const Dense want = reference_of(c);
  const OnDevice arrays(c);
  const auto any = plan_attention(p, 0);
  ASSERT_TRUE(any.ok());
  const Workspace workspace(any->device(), any->workspace_bytes());
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t index : legal_tactics(p)) {
      const auto plan = plan_attention(p, 0, {name_at(index)});
      ASSERT_TRUE(plan.ok());
      arrays.poison();
      ASSERT_TRUE(run_attention(*plan, arrays.inputs(), arrays.outputs(), workspace.memory.bytes()).ok());
      EXPECT_LE(rel_l2(arrays.outcome().dense.o, want.o), 0x1p-8) << name_at(index);
    }
  }
}

TEST_F(AttentionFrontDoor, RefusesByNameAndLaunchesNothing) {
  const AttentionProblem p{2, 4, 2, 40, 60, 64, false, kBf16, QkType::kBf16, OutputType::kBf16};
  const Case c = make_case(p, 1, 10, false, 8);
  const Case variable = make_case(p, 1, 11, false, 8, true);
  const auto plan = plan_attention(p, 0);
  ASSERT_TRUE(plan.ok());
  const Workspace workspace(plan->device(), plan->workspace_bytes());
  static constexpr std::int32_t kOffsets[] = {0, 5, 9};
  alignas(16) static std::uint16_t host[8];
  const auto where = [&](const Case& of, auto change) {
    const OnDevice arrays(of);
    AttentionInputs in = arrays.inputs();
    AttentionOutputs out = arrays.outputs();
    std::span<std::byte> room = workspace.memory.bytes();
    change(in, out, room);
    const auto done = run_attention(*plan, in, out, room);
    const std::vector<std::byte> left = arrays.raw();
    const bool untouched = std::all_of(left.begin(), left.end(), [](std::byte b) { return b == kPoison; });
    EXPECT_EQ(untouched, !done.ok());
    return done.ok() ? std::string("ran") : done.error().where;
  };
  using In = AttentionInputs&;
  using Out = AttentionOutputs&;
  using Room = std::span<std::byte>&;
  EXPECT_EQ(where(c, [](In, Out, Room) {}), "ran");
  EXPECT_EQ(where(variable, [](In, Out, Room) {}), "ran");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.q.data = nullptr; }), "q");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.k.data = reinterpret_cast<const Bf16*>(host); }), "k");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.k.data = nullptr; }), "k");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.v.data = nullptr; }), "v");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.v.data += 4; }), "v");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.q.row_stride += 4; }), "q");
  EXPECT_EQ(where(c, [](In, Out out, Room) { out.o.data = nullptr; }), "o");
  EXPECT_EQ(where(c, [](In, Out out, Room) { out.o.head_stride = 8; }), "o");
  EXPECT_EQ(where(c, [](In, Out out, Room) { out.lse = reinterpret_cast<float*>(host); }), "lse");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.k.batch_stride = 0x7ffffff8; }), "k");
  EXPECT_EQ(where(c, [](In in, Out, Room) { in.scale = -1; }), "scale");
  EXPECT_EQ(where(c, [](In, Out, Room room) { room = room.first(room.size() / 2); }), "workspace");
  EXPECT_EQ(where(c, [](In, Out, Room room) { room = std::as_writable_bytes(std::span(host)); }), "workspace");
  EXPECT_EQ(where(variable, [](In in, Out, Room) { in.cu_seqlens_q = kOffsets; }), "cu_seqlens_q");
  EXPECT_EQ(where(variable, [](In in, Out, Room) { in.cu_seqlens_kv = {}; }), "cu_seqlens");
  EXPECT_EQ(where(variable, [](In in, Out, Room) { in.total_kv = 121; }), "total_kv");

  EXPECT_EQ(plan_attention(p, 0, {"q128"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(plan_attention(p, 1000).error().code, ErrorCode::kNotFound);
  AttentionProblem bad = p;
  bad.dim = 96;
  EXPECT_EQ(plan_attention(bad, 0).error().where, "dim");
  const auto refused = [&](auto change) {
    AttentionProblem changed = p;
    change(changed);
    const auto none = plan_attention(changed, 0);
    return none.ok() ? std::string("planned") : none.error().where;
  };
  using P = AttentionProblem&;
  EXPECT_EQ(refused([](P of) { of.pv = static_cast<PvType>(9); }), "pv");
  EXPECT_EQ(refused([](P of) { of.qk = static_cast<QkType>(9); }), "qk");
  EXPECT_EQ(refused([](P of) { of.output = static_cast<OutputType>(9); }), "output");
  EXPECT_EQ(refused([](P of) { of.kv_heads = 3; }), "kv_heads");
  EXPECT_EQ(refused([](P of) { of.seq = 0; }), "seq");
  EXPECT_EQ(refused([](P of) { of.seq = (std::int64_t{1} << 31) / (2 * 4 * 64); }), "q");
  EXPECT_EQ(refused([](P of) { of.kv_seq = std::int64_t{1} << 62; }), "k");
  bad = p;
  bad.qk = QkType::kFp8;
  EXPECT_EQ(plan_attention(bad, 0).error().code, ErrorCode::kIllegal);
}

TEST_F(AttentionFrontDoor, SeveralDevices) {
  if (!gemm_device(1).ok()) GTEST_SKIP() << "one device";
  check(cudaSetDevice(0));
  const AttentionProblem p{1, 4, 2, 200, 300, 128, true, kBf16, QkType::kBf16, OutputType::kBf16};
  const Case c = make_case(p, 1, 12);
  const auto first = run_on_device(c, "");
  ASSERT_TRUE(first.ok());
  const auto plan = plan_attention(p, 1);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->device(), 1);
  const Workspace workspace(plan->device(), plan->workspace_bytes());
  const OnDevice arrays(c, 1), elsewhere(c, 0);
  ASSERT_TRUE(run_attention(*plan, arrays.inputs(), arrays.outputs(), workspace.memory.bytes()).ok());
  int current = -1;
  check(cudaGetDevice(&current));
  EXPECT_EQ(current, 0) << "the thread's device is its own";
  EXPECT_TRUE(arrays.raw() == first->raw);
  const auto wrong = run_attention(*plan, elsewhere.inputs(), arrays.outputs(), workspace.memory.bytes());
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where, "q");
  EXPECT_THAT(wrong.error().text, HasSubstr("memory of device 0"));
  const OwnStream of_first;
  const auto other = run_attention(*plan, arrays.inputs(), arrays.outputs(), workspace.memory.bytes(), of_first.get());
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().where, "stream");
}

}  // namespace
}  // namespace pinch::cuda
