// The workbench's check of outputs on a device, shown right on a right output and finding each planted fault.
#include "workbench/cuda/gemm_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "pinch/gemm_cuda.h"
#include "workbench/cuda/operands.h"

namespace pinch::cuda {
namespace {

using testing::HasSubstr;

void check_cuda(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

/// Dense operands and their product, computed on the host in double and rounded to bf16.
struct Product {
  static constexpr std::int64_t kM = 21, kN = 264, kK = 96;
  static constexpr float kAlpha = 0.37F;

  Product()
      : a(DeviceMemory::allocate(0, kM * kK * sizeof(Bf16))),
        dense(DeviceMemory::allocate(0, kN * kK * sizeof(Bf16))),
        out(DeviceMemory::allocate(0, kM * kN * sizeof(Bf16))) {
    EXPECT_TRUE(enqueue_random_bf16(reinterpret_cast<Bf16*>(a->data()), kM * kK, 1, nullptr).ok());
    EXPECT_TRUE(enqueue_random_bf16(reinterpret_cast<Bf16*>(dense->data()), kN * kK, 2, nullptr).ok());
    std::vector<Bf16> rows(kM * kK), weights(kN * kK);
    check_cuda(cudaMemcpy(rows.data(), a->data(), a->bytes(), cudaMemcpyDeviceToHost));
    check_cuda(cudaMemcpy(weights.data(), dense->data(), dense->bytes(), cudaMemcpyDeviceToHost));
    right.resize(kM * kN);
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (std::int64_t x = 0; x < kK; ++x) {
          sum += static_cast<double>(to_f32(rows[static_cast<std::size_t>(i * kK + x)])) *
                 to_f32(weights[static_cast<std::size_t>(j * kK + x)]);
        }
        right[static_cast<std::size_t>(i * kN + j)] = to_bf16(static_cast<float>(sum * kAlpha));
      }
    }
  }
  OutputVerdict verdict(const std::vector<Bf16>& values) const {
    const auto checker =
        GemmCheck::create({reinterpret_cast<const Bf16*>(a->data()), reinterpret_cast<const Bf16*>(dense->data()),
                           kAlpha, kM, kN, kK, OutputType::kBf16},
                          0, nullptr);
    EXPECT_TRUE(checker.ok());
    check_cuda(cudaMemcpy(out->data(), values.data(), out->bytes(), cudaMemcpyHostToDevice));
    const auto found = checker->compare(out->data());
    EXPECT_TRUE(found.ok());
    return *found;
  }

  Result<DeviceMemory> a, dense, out;
  std::vector<Bf16> right;
};

TEST(CudaGemmCheck, FindsPlantedFaultsInEveryRow) {
  if (const auto device = gemm_device(0); !device) GTEST_SKIP() << device.error().message();
  const Product product;
  const OutputVerdict whole = product.verdict(product.right);
  EXPECT_TRUE(whole.right) << whole.why;
  EXPECT_GT(whole.rel_l2, 1e-4);
  EXPECT_LT(whole.rel_l2, 0x1p-8);
  const auto with = [&](auto&& plant) {
    std::vector<Bf16> values = product.right;
    plant(values);
    return product.verdict(values);
  };
  for (std::size_t row = 0; row < Product::kM; ++row) {
    const auto at = [&](std::size_t column) { return row * Product::kN + column; };
    const OutputVerdict unwritten = with([&](auto& values) { values[at(263)] = Bf16{0xffff}; });
    EXPECT_FALSE(unwritten.right) << row;
    EXPECT_THAT(unwritten.why, HasSubstr("not finite")) << row;
    EXPECT_FALSE(with([&](auto& values) { values[at(131)] = to_bf16(to_f32(values[at(131)]) + 4.0F); }).right) << row;
    EXPECT_FALSE(with([&](auto& values) {
                   for (std::size_t j = 0; j < 128; ++j) values[at(j)] = Bf16{0};
                 }).right)
        << row;
    EXPECT_FALSE(with([&](auto& values) {  // a row of another place
                   for (std::size_t j = 0; j < Product::kN; ++j) values[at(j)] = values[(at(j) + 264) % values.size()];
                 })
                     .right)
        << row;
  }
  EXPECT_THAT(with([&](auto& values) { values[5] = Bf16{0x7f80}; }).why, HasSubstr("out[0, 5]"));
  EXPECT_THAT(with([&](auto& values) { values[264 + 200] = Bf16{0x7f80}; }).why,
              HasSubstr("row 1, channels 128 to 255"));
}

}  // namespace
}  // namespace pinch::cuda
