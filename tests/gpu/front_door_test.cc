// The CUDA front door on a device: weights, plans, runs, workspaces, graphs, threads, devices, refusals.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "pinch/gemm_cuda.h"
#include "tests/gpu/support/front_door.h"
#include "tests/kernel/gemm_cases.h"
#include "tests/support/temp_folder.h"

namespace pinch::cuda {
namespace {

using testing::HasSubstr;

/// A problem with its weights on a device, its activations there, and the FP64 reference.
struct Problem {
  Problem(int device, Fp4Format format, std::int64_t m, std::int64_t n, std::int64_t k)
      : matrix(test::random_weights(format, n, k, 3)),
        host_a(test::random_activations(m, k, 5)),
        expected(test::expect(matrix.view(), host_a, k, m)),
        a(device, host_a) {
    auto host = prepare_weights_on_host(matrix.view());
    if (!host) std::abort();
    auto sent = to_device(*host, device);
    if (!sent) std::abort();
    weights = std::make_unique<PreparedWeights>(std::move(*sent));
  }

  /// One run; rows widened to float.
  std::vector<float> run(const GemmPlan& plan, std::span<std::byte> workspace, Stream stream = nullptr) const {
    const std::int64_t m = plan.problem().m, n = plan.problem().n, k = plan.problem().k;
    const bool f32 = plan.problem().output == OutputType::kF32;
    const Array<std::uint8_t> out(weights->device(), static_cast<std::size_t>(m * n) * (f32 ? 4 : 2));
    const auto done = run_gemm(plan, a.data(), k, out.data(), n, workspace, stream);
    EXPECT_TRUE(done.ok()) << done.error().message();
    check(cudaDeviceSynchronize());
    const std::vector<std::uint8_t> bytes = out.download();
    std::vector<float> values(static_cast<std::size_t>(m * n));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t bits = 0;
      if (f32) {
        std::memcpy(&bits, &bytes[4 * i], 4);
      } else {
        bits = static_cast<std::uint32_t>(bytes[2 * i] | bytes[2 * i + 1] << 8) << 16;
      }
      std::memcpy(&values[i], &bits, 4);
    }
    return values;
  }

  /// Largest error over what rounding allows. A tensor core adds 16 products to a sum at a time and truncates, an error
  /// below 2^-23 of the terms' magnitudes; up to 32 partial sums then meet in FP32.
  double worst(const std::vector<float>& out, OutputType type) const {
    double worst_ratio = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double want = expected.value[i];
      double allowed = (static_cast<double>(expected.k) / 16 + 32) * 0x1p-23 * expected.magnitude[i] + 0x1p-120;
      if (type == OutputType::kBf16) allowed += 0x1p-8 * std::fabs(want);
      const double error = std::fabs(out[i] - want);
      worst_ratio = std::max(worst_ratio, std::isfinite(error) ? error / allowed : HUGE_VAL);
    }
    return worst_ratio;
  }

  Fp4Matrix matrix;
  std::vector<Bf16> host_a;
  test::Expected expected;
  Array<Bf16> a;
  std::unique_ptr<PreparedWeights> weights;
};

using FrontDoor = FrontDoorTest;

TEST_F(FrontDoor, HostAndDevicePrepareTheSameBytes) {
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    for (const auto& [n, k] : {std::array{8, 32}, std::array{72, 96}, std::array{264, 544}, std::array{1000, 4128}}) {
      for (const bool swizzled : {false, true}) {
        Fp4Matrix matrix = test::random_weights(format, n, k, 11);
        if (swizzled) {
          matrix.scales = swizzle_scales(matrix.scales, n, k / group_size(format)).value();
          matrix.scale_layout = ScaleLayout::kSwizzled128x4;
        }
        const auto host = prepare_weights_on_host(matrix.view());
        ASSERT_TRUE(host.ok()) << host.error().message();
        const Array<std::uint8_t> codes(0, matrix.codes), scales(0, matrix.scales);
        Fp4View view = matrix.view();
        view.codes = codes.data();
        view.scales = scales.data();
        const auto prepared = prepare_weights(view, 0);
        ASSERT_TRUE(prepared.ok()) << prepared.error().message();
        const auto back = to_host(*prepared);
        ASSERT_TRUE(back.ok());
        ASSERT_EQ(back->bytes().size(), host->bytes().size());
        EXPECT_TRUE(std::equal(back->bytes().begin(), back->bytes().end(), host->bytes().begin()))
            << n << "x" << k << " " << to_string(format) << " swizzled " << swizzled;
        EXPECT_EQ(back->alpha(), host->alpha());
      }
    }
  }
}

TEST_F(FrontDoor, AFileWrittenFromTheDeviceComputesTheSame) {
  const TempFolder folder;
  const Problem problem(0, Fp4Format::kMxfp4, 5, 136, 160);
  ASSERT_TRUE(to_host(*problem.weights)->save(folder / "weights").ok());
  const auto loaded = HostWeights::load(folder / "weights");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  const auto again = to_device(*loaded, 0);
  ASSERT_TRUE(again.ok());
  const auto plan = plan_gemm(*problem.weights, 5), plan_again = plan_gemm(*again, 5);
  ASSERT_TRUE(plan.ok() && plan_again.ok());
  const Workspace workspace(0, plan->workspace_bytes());
  EXPECT_EQ(problem.run(*plan, workspace.memory.bytes()), problem.run(*plan_again, workspace.memory.bytes()));
}

TEST_F(FrontDoor, DefaultsMatchTheReference) {
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    for (const OutputType output : {OutputType::kBf16, OutputType::kF32}) {
      for (const std::int64_t m : {1, 3, 17, 40, 129, 300}) {
        const Problem problem(0, format, m, 264, 544);
        const auto plan = plan_gemm(*problem.weights, m, {{}, output});
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        const Workspace workspace(0, plan->workspace_bytes());
        EXPECT_LE(problem.worst(problem.run(*plan, workspace.memory.bytes()), output), 1.0)
            << "m " << m << " " << to_string(format) << " " << to_string(output) << " " << plan->tactic();
      }
    }
  }
}

TEST_F(FrontDoor, PlantedErrorIsFound) {
  const Problem problem(0, Fp4Format::kNvfp4, 3, 72, 96);
  const auto plan = plan_gemm(*problem.weights, 3);
  ASSERT_TRUE(plan.ok());
  const Workspace workspace(0, plan->workspace_bytes());
  std::vector<float> out = problem.run(*plan, workspace.memory.bytes());
  EXPECT_LE(problem.worst(out, OutputType::kBf16), 1.0);
  const auto largest = std::max_element(out.begin(), out.end());
  *largest *= 1.03F;
  EXPECT_GT(problem.worst(out, OutputType::kBf16), 1.0);
}

TEST_F(FrontDoor, OneWorkspaceServesEveryTacticInTurn) {
  const TacticFamily& family = built_tactics();
  for (const std::int64_t m : {9, 200}) {
    const Problem problem(0, Fp4Format::kNvfp4, m, 1032, 2080);
    std::vector<GemmPlan> plans;
    std::size_t most = 0;
    for (std::size_t index = 0; index < family.size(); ++index) {
      auto plan = plan_gemm(*problem.weights, m, {family.to_string(index), OutputType::kBf16});
      if (!plan) {
        EXPECT_EQ(plan.error().code, ErrorCode::kIllegal) << plan.error().message();
        continue;
      }
      most = std::max(most, plan->workspace_bytes());
      plans.push_back(std::move(*plan));
    }
    EXPECT_GT(plans.size(), 5U);
    EXPECT_GT(most, 0U);
    const Workspace workspace(0, most);
    for (int round = 0; round < 2; ++round) {
      for (const GemmPlan& plan : plans) {
        EXPECT_LE(problem.worst(problem.run(plan, workspace.memory.bytes()), OutputType::kBf16), 1.0)
            << "m " << m << " " << plan.tactic() << " round " << round;
      }
    }
  }
}

TEST_F(FrontDoor, RunsAllocateNothingAndAreCaptured) {
  const Problem problem(0, Fp4Format::kNvfp4, 64, 1032, 2080);
  const auto plan = plan_gemm(*problem.weights, 64);
  ASSERT_TRUE(plan.ok());
  const Workspace workspace(0, plan->workspace_bytes());
  const Array<std::uint16_t> out(0, 64 * 1032);
  expect_allocates_nothing_and_is_captured(
      [&](Stream stream) {
        return run_gemm(*plan, problem.a.data(), 2080, out.data(), 1032, workspace.memory.bytes(), stream).ok();
      },
      [&] { out.fill(0xff); }, [&] { return out.download(); });
}

TEST_F(FrontDoor, ThreadsShareWeightsAndPlans) {
  const Problem problem(0, Fp4Format::kNvfp4, 48, 1032, 2080);
  const auto plan = plan_gemm(*problem.weights, 48);
  ASSERT_TRUE(plan.ok());
  const Workspace once(0, plan->workspace_bytes());
  const std::vector<float> first = problem.run(*plan, once.memory.bytes());
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const OwnStream stream;
      const Workspace workspace(0, plan->workspace_bytes());
      check(cudaDeviceSynchronize());
      for (int i = 0; i < 10; ++i) {
        const auto own = plan_gemm(*problem.weights, 48);
        if (!own || problem.run(*own, workspace.memory.bytes(), stream.get()) != first) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST_F(FrontDoor, RefusesByName) {
  const Problem problem(0, Fp4Format::kNvfp4, 4, 64, 128);
  const auto plan = plan_gemm(*problem.weights, 4);
  ASSERT_TRUE(plan.ok());
  const Workspace workspace(0, plan->workspace_bytes() + 1024);
  const Array<Bf16> out(0, 4 * 64 + 64);
  std::vector<Bf16> host(4 * 128 + 8);
  const auto error_with = [&](const Bf16* a, std::int64_t lda, void* to, std::int64_t ldo, std::span<std::byte> room) {
    const auto done = run_gemm(*plan, a, lda, to, ldo, room);
    return done.ok() ? Error{ErrorCode::kInterrupted, "ran", "nothing"} : done.error();
  };
  const Bf16* a = problem.a.data();
  Bf16* to = out.data();
  const auto room = workspace.memory.bytes();
  EXPECT_EQ(error_with(a, 128, to, 64, room).where, "nothing");
  EXPECT_EQ(error_with(nullptr, 128, to, 64, room).where, "a");
  EXPECT_EQ(error_with(a, 128, nullptr, 64, room).where, "out");
  EXPECT_EQ(error_with(a, 120, to, 64, room).where, "lda");
  EXPECT_EQ(error_with(a, 129, to, 64, room).where, "lda");
  EXPECT_EQ(error_with(a, 128, to, 60, room).where, "ldo");
  EXPECT_EQ(error_with(a + 1, 128, to, 64, room).where, "a");
  EXPECT_EQ(error_with(a, 128, to + 1, 64, room).where, "out");
  const auto aligned = (16 - reinterpret_cast<std::uintptr_t>(host.data()) % 16) % 16 / sizeof(Bf16);
  const Error on_host = error_with(host.data() + aligned, 128, to, 64, room);
  EXPECT_EQ(on_host.where, "a");
  EXPECT_THAT(on_host.text, HasSubstr("host memory"));
  if (plan->workspace_bytes() > 0) {
    EXPECT_EQ(error_with(a, 128, to, 64, room.subspan(0, plan->workspace_bytes() - 1)).where, "workspace");
    EXPECT_EQ(error_with(a, 128, to, 64, room.subspan(8)).where, "workspace");
  }
  check(cudaDeviceSynchronize());

  const auto plan_error = [&](std::int64_t m, const std::string& tactic) {
    const auto made = plan_gemm(*problem.weights, m, {tactic, OutputType::kBf16});
    return made.ok() ? ErrorCode::kInterrupted : made.error().code;
  };
  EXPECT_EQ(plan_error(0, ""), ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan_error(4, "no/such/tactic"), ErrorCode::kNotFound);
  EXPECT_EQ(prepare_weights(problem.matrix.view(), 0).error().where, "codes");  // host pointers
  EXPECT_EQ(prepare_weights(problem.matrix.view(), 1000).error().code, ErrorCode::kNotFound);
  Fp4Matrix bad = problem.matrix;
  bad.scales[7] = 0x7f;
  const Array<std::uint8_t> codes(0, bad.codes), scales(0, bad.scales);
  Fp4View view = bad.view();
  view.codes = codes.data();
  view.scales = scales.data();
  EXPECT_EQ(prepare_weights(view, 0).error().code, ErrorCode::kCorrupt);
}

TEST_F(FrontDoor, SeveralDevices) {
  if (!gemm_device(1).ok()) GTEST_SKIP() << "one device";
  check(cudaSetDevice(0));
  const Problem on_second(1, Fp4Format::kNvfp4, 20, 264, 544);
  const Problem on_first(0, Fp4Format::kNvfp4, 20, 264, 544);
  const auto plan = plan_gemm(*on_second.weights, 20);
  const auto plan_first = plan_gemm(*on_first.weights, 20);
  ASSERT_TRUE(plan.ok() && plan_first.ok());
  EXPECT_EQ(plan->device(), 1);
  const Workspace workspace(1, plan->workspace_bytes()), workspace_first(0, plan_first->workspace_bytes());
  const std::vector<float> first = on_first.run(*plan_first, workspace_first.memory.bytes());
  const Array<Bf16> out(1, 20 * 264);
  const auto run = [&](const Bf16* a, Stream stream) {
    return run_gemm(*plan, a, 544, out.data(), 264, workspace.memory.bytes(), stream);
  };
  ASSERT_TRUE(run(on_second.a.data(), nullptr).ok());
  int current = -1;
  check(cudaGetDevice(&current));
  EXPECT_EQ(current, 0) << "the thread's device is its own";
  {
    const DeviceScope scope(1);
    check(cudaDeviceSynchronize());
  }
  const std::vector<Bf16> second = out.download();
  for (std::size_t i = 0; i < second.size(); ++i) ASSERT_EQ(to_f32(second[i]), first[i]) << i;

  const auto wrong = run(on_first.a.data(), nullptr);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where, "a");
  EXPECT_THAT(wrong.error().text, HasSubstr("memory of device 0"));
  const OwnStream of_first;
  const auto other_stream = run(on_second.a.data(), of_first.get());
  ASSERT_FALSE(other_stream.ok());
  EXPECT_EQ(other_stream.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(other_stream.error().where, "stream");
  EXPECT_THAT(other_stream.error().text, HasSubstr("a stream of device 0"));
  EXPECT_EQ(clear_workspace(workspace.memory.bytes(), 1, of_first.get()).error().where, "stream");
}

/// Not an assertion but a figure: what a run costs the host.
TEST_F(FrontDoor, ReportsTheHostCostOfARun) {
  const Problem problem(0, Fp4Format::kNvfp4, 1, 64, 64);
  const auto plan = plan_gemm(*problem.weights, 1);
  ASSERT_TRUE(plan.ok());
  const Workspace workspace(0, plan->workspace_bytes());
  const Array<Bf16> out(0, 64);
  constexpr int kRuns = 400;
  double best = HUGE_VAL;
  for (int repeat = 0; repeat < 5; ++repeat) {
    check(cudaDeviceSynchronize());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) {
      ASSERT_TRUE(run_gemm(*plan, problem.a.data(), 64, out.data(), 64, workspace.memory.bytes()).ok());
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kRuns);
  }
  cudaPointerAttributes attributes{};  // three of these a run
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) check(cudaPointerGetAttributes(&attributes, out.data()));
  const std::chrono::duration<double, std::nano> asking = std::chrono::steady_clock::now() - start;
  std::printf("host cost: a run %.0f ns, of which asking what a pointer is %.0f ns each\n", best,
              asking.count() / kRuns);
}

}  // namespace
}  // namespace pinch::cuda
