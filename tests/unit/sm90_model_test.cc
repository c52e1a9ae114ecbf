// The sm90 family's time model: its constants, what it predicts, and that the default found by bounds is the cheapest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kernels/gemm_bf16_fp4/sm90/family.h"
#include "kernels/gemm_bf16_fp4/sm90/model.h"
#include "pinch/machine_model.h"
#include "src/tactics/scan.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

using testing::HasSubstr;

std::optional<RankedTactic> scan(const TimeModel& model, const ModelProblem& call, const Device& device) {
  std::optional<RankedTactic> best;
  for (std::size_t index = 0; index < tactics().size(); ++index) {
    if (!illegal(tactics()[index], call.sizes, device).empty()) continue;
    const double ns = model.nanoseconds(index, call, device);
    if (!best || ns < best->estimate.cost) best = RankedTactic{index, {.cost = ns, .unit = "ns"}};
  }
  return best;
}

template <class Visit>
void for_each_call(const Visit& visit) {
  for (const int n : {8, 1000, 2880, 4096, 6656, 19968, 57344})
    for (const int k : {32, 320, 2880, 4096, 14336, 28672})
      for (int m = 1; m <= 8192; m += m / 3 + 1)
        for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) visit(ModelProblem{{m, n, k}, format});
}

TEST(Sm90TimeModel, EveryConstantIsInTheData) {
  for (const Constant& constant : constants())
    EXPECT_TRUE(h200_machine_model().constant(constant.name, constant.unit).ok()) << constant.name;
  EXPECT_EQ(h200_machine_model().constants.size(), constants().size());
}

TEST(Sm90TimeModel, KernelsCoverTheTacticsOnceAndDifferInName) {
  std::size_t next = 0;
  std::set<std::string> names;
  for (const KernelTactics& kernel : kernel_tactics()) {
    EXPECT_EQ(kernel.first, next);
    EXPECT_GT(kernel.last, kernel.first);
    next = kernel.last;
    EXPECT_TRUE(names.insert(kernel.name()).second) << kernel.name();
  }
  EXPECT_EQ(next, tactics().size());
}

TEST(Sm90TimeModel, TheCheapestIsTheOneThatAScanFinds) {
  for (const int sm_count : {132, 114, 16}) {
    const Device device = sm90_device(sm_count);
    for_each_call([&](const ModelProblem& call) {
      const auto best = h200_time_model().cheapest(call, device);
      const auto expected = scan(h200_time_model(), call, device);
      ASSERT_TRUE(best && expected);
      EXPECT_EQ(best->index, expected->index) << call.sizes.m << " " << call.sizes.n << " " << call.sizes.k;
      EXPECT_EQ(best->estimate.cost, expected->estimate.cost);
    });
  }
}

// Many waves: there the tiles that a cluster starts and ends are what tells kernels apart; and columns fewer than a
// share of stream-k, of which the model counts fewer starts.
TEST(Sm90TimeModel, TheCheapestIsTheOneThatAScanFindsInManyWaves) {
  std::mt19937_64 random(5);
  const auto between = [&](int least, int most) { return std::uniform_int_distribution<>(least, most)(random); };
  for (int i = 0; i < 3000; ++i) {
    const ModelProblem call{
        {between(1, 200'000), between(1, 2500) * 8, i % 3 == 0 ? between(1, 8) * 32 : between(1, 200) * 32},
        i % 2 == 0 ? Fp4Format::kNvfp4 : Fp4Format::kMxfp4,
        i % 5 == 0 ? pinch::OutputType::kF32 : pinch::OutputType::kBf16};
    const Device device = sm90_device(between(1, 200));
    const auto best = h200_time_model().cheapest(call, device);
    const auto expected = scan(h200_time_model(), call, device);
    ASSERT_EQ(best.has_value(), expected.has_value());
    if (!best) continue;
    EXPECT_EQ(best->index, expected->index) << call.sizes.m << " " << call.sizes.n << " " << call.sizes.k;
    EXPECT_EQ(best->estimate.cost, expected->estimate.cost);
  }
}

// The bounds hold for the terms of the model, not for the constants that happen to be recorded.
TEST(Sm90TimeModel, TheCheapestIsTheOneThatAScanFindsUnderAnyConstants) {
  std::mt19937_64 random(3);
  const Device device = sm90_device(132);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> values;
    for (const Constant& constant : constants()) {
      const double recorded = *h200_machine_model().constant(constant.name, constant.unit);
      values.push_back(recorded * std::exp2(std::uniform_real_distribution<>(-2, 2)(random)));
    }
    const TimeModel model(values);
    for (int i = 0; i < 200; ++i) {
      const auto below = [&](int most) {
        return static_cast<int>(std::exp2(std::uniform_real_distribution<>(0, most)(random)));
      };
      const ModelProblem call{{below(13), below(13) * 8, below(10) * 32},
                              i % 2 == 0 ? Fp4Format::kNvfp4 : Fp4Format::kMxfp4};
      const auto best = model.cheapest(call, device);
      const auto expected = scan(model, call, device);
      ASSERT_TRUE(best && expected);
      EXPECT_EQ(best->index, expected->index) << call.sizes.m << " " << call.sizes.n << " " << call.sizes.k;
    }
  }
}

TEST(Sm90TimeModel, NoTimeIsBelowWhatTheBytesTake) {
  for_each_call([&](const ModelProblem& call) {
    const auto best = h200_time_model().cheapest(call, sm90_device(132));
    ASSERT_TRUE(best);
    const double bytes = 0.53 * call.sizes.n * call.sizes.k;
    EXPECT_GT(best->estimate.cost, bytes / 4800);  // the datasheet's GB/s, which no read reaches
    EXPECT_EQ(best->estimate.unit, "ns");
  });
}

TEST(Sm90TimeModel, AKernelOfNoRecordIsTakenToBeAsFastAsOneLikeIt) {
  MachineModel machine = h200_machine_model();
  const std::string lost = kernel_tactics().back().name();
  std::erase_if(machine.constants, [&](const MachineConstant& constant) { return constant.name == lost; });
  const auto model = TimeModel::from(machine);
  ASSERT_TRUE(model.ok());
  const ModelProblem call{{512, 4096, 4096}};
  const double ratio = model->nanoseconds(tactics().size() - 1, call, sm90_device(132)) /
                       h200_time_model().nanoseconds(tactics().size() - 1, call, sm90_device(132));
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 2);
}

TEST(Sm90TimeModel, AMissingSharedConstantIsNamed) {
  MachineModel machine = h200_machine_model();
  std::erase_if(machine.constants, [](const MachineConstant& constant) { return constant.name == "wgmma.l2"; });
  EXPECT_THAT(TimeModel::from(machine).error().message(), HasSubstr("wgmma.l2"));
}

TEST(Sm90CountingModels, FollowTheirRules) {
  // 128 x 64 tiles on 4096 x 64: 32 CTAs, one wave.
  std::size_t index = 0;
  while (to_string(tactics()[index]).find("wgmma/n128/m64/k128/stages7/consumers2/cluster1x1/group4/split1/raster1") !=
         0)
    ++index;
  const ModelProblem call{{64, 4096, 4096}};
  const Device device = sm90_device(132);
  const auto place = [](std::string_view model) {
    return static_cast<std::size_t>(std::find(models().begin(), models().end(), model) - models().begin());
  };
  EXPECT_EQ(estimate(place("pr"), index, call, device).cost, 128 + 4 * 64);
  EXPECT_EQ(estimate(place("waves"), index, call, device).cost, 1);
  EXPECT_EQ(estimate(place("first"), index, call, device).cost, static_cast<double>(index));
  EXPECT_EQ(estimate(place("roller"), index, call, device).cost, 4096 * (128 * 4.5 / 8 + 64 * 2) + 128 * 64 * 2 + 1);
  EXPECT_EQ(estimate(place("pr"), index, call, device).ctas, 32);
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
