// The weights of a real model: quantised, stored, read back and multiplied, every layer against FP64.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "pinch/fp4_checkpoint.h"
#include "pinch/gemm.h"
#include "tests/support/temp_folder.h"
#include "workbench/check/gemm_check.h"

namespace pinch {
namespace {

using ::testing::HasSubstr;

class RealModel : public ::testing::TestWithParam<Fp4Format> {
 protected:
  static void SetUpTestSuite() {
    const char* path = std::getenv("PINCH_TEST_MODEL");
    ASSERT_NE(path, nullptr) << "run ctest -R real.model, which fetches the model and names it";
    auto opened = SafetensorsFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    model_ = new SafetensorsFile(opened.value());
  }
  static void TearDownTestSuite() { delete model_; }

  void SetUp() override { ASSERT_NE(model_, nullptr); }

  // Quantises the model and opens the result.
  SafetensorsFile quantized(Fp4Layout layout) {
    QuantizeOptions options;
    options.format = GetParam();
    options.layout = layout;
    const std::string path = folder_ / std::string(to_string(layout));
    auto report = quantize_checkpoint(*model_, path, options);
    EXPECT_TRUE(report.ok()) << report.error().message();
    report_ = std::move(report.value());
    return SafetensorsFile::open(path).value();
  }

  static inline SafetensorsFile* model_ = nullptr;
  TempFolder folder_;
  std::vector<QuantizedTensor> report_;
};

INSTANTIATE_TEST_SUITE_P(Formats, RealModel, ::testing::Values(Fp4Format::kNvfp4, Fp4Format::kMxfp4),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

std::vector<Bf16> activations(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  for (Bf16& value : values) value = to_bf16(normal(generator));
  return values;
}

TEST_P(RealModel, BothLayoutsReadBackToTheQuantisersBytes) {
  std::size_t weights = 0;
  for (const Fp4Layout layout : {Fp4Layout::kModelOpt, Fp4Layout::kCompressedTensors}) {
    const SafetensorsFile file = quantized(layout);
    weights = 0;
    for (const QuantizedTensor& tensor : report_) {
      SCOPED_TRACE(tensor.name);
      if (!tensor.kept_because.empty()) {
        const TensorView before = model_->tensor(tensor.name).value(), after = file.tensor(tensor.name).value();
        EXPECT_TRUE(std::equal(before.bytes.begin(), before.bytes.end(), after.bytes.begin(), after.bytes.end()));
        continue;
      }
      ++weights;
      const auto stored = load_fp4_tensor(file, tensor.name);
      ASSERT_TRUE(stored.ok()) << stored.error().message();
      // The plain tensor, quantised whole.
      const Fp4Matrix whole = load_fp4_tensor(*model_, tensor.name, GetParam()).value();
      EXPECT_TRUE(stored->codes == whole.codes);
      EXPECT_TRUE(stored->scales == whole.scales);
      EXPECT_EQ(stored->alpha, whole.alpha);
      // Four bits and a scale for 16 or 32: trained weights lose 18 to 22 dB.
      EXPECT_GT(tensor.snr_db, 17);
      EXPECT_LT(tensor.snr_db, 30);
    }
  }
  EXPECT_GE(weights, 10U);
  fmt::print("{}: {} weights quantised\n", model_->path(), weights);
}

TEST_P(RealModel, EveryLayersGemmMatchesFp64) {
  const SafetensorsFile file = quantized(Fp4Layout::kModelOpt);
  double worst = 0;
  int products = 0;
  for (const QuantizedTensor& tensor : report_) {
    if (!tensor.kept_because.empty()) continue;
    SCOPED_TRACE(tensor.name);
    const Fp4Matrix weights = load_fp4_tensor(file, tensor.name).value();
    const auto prepared = prepare_weights(weights.view());
    ASSERT_TRUE(prepared.ok()) << prepared.error().message();
    for (const std::int64_t m : {1, 33}) {
      for (const OutputType output : {OutputType::kF32, OutputType::kBf16}) {
        const auto a = activations(m * weights.k, static_cast<unsigned>(m));
        GemmOptions options;
        options.output = output;
        // Poison, so that an element that is not written shows.
        std::vector<float> out(static_cast<std::size_t>(m * weights.n), std::nanf(""));
        const auto run = mm_bf16_fp4(*prepared, a.data(), weights.k, m, out.data(), weights.n, options);
        ASSERT_TRUE(run.ok()) << run.error().message();
        // Few rows are compared element by element, the others by random sums: FP64 products are slow.
        const auto check = check::GemmCheck::create(weights.view(), a, m, output, 3, 1);
        ASSERT_TRUE(check.ok()) << check.error().message();
        const auto verdict = check->compare(out.data());
        EXPECT_TRUE(verdict.right) << "m = " << m << ", " << to_string(output) << ": " << verdict.why;
        if (output == OutputType::kF32) worst = std::max(worst, verdict.rel_l2);
        ++products;
      }
    }
  }
  fmt::print("{} products of {}, worst relative L2 of FP32 outputs {:.2e}\n", products, to_string(GetParam()), worst);
  EXPECT_GT(products, 0);
  EXPECT_LT(worst, 1e-6);
}

TEST_P(RealModel, TheCheckNoticesOneWrongCode) {
  const QuantizedTensor* layer = nullptr;
  quantized(Fp4Layout::kModelOpt);
  for (const QuantizedTensor& tensor : report_) {
    if (tensor.kept_because.empty() && tensor.shape[0] >= 128) layer = &tensor;
  }
  ASSERT_NE(layer, nullptr);
  const Fp4Matrix right = load_fp4_tensor(*model_, layer->name, GetParam()).value();
  Fp4Matrix wrong = right;
  // The largest magnitude with its sign turned, in one column of the first row.
  const auto code = std::find_if(wrong.codes.begin(), wrong.codes.end(), [](auto pair) { return (pair & 7) == 7; });
  ASSERT_NE(code, wrong.codes.end());
  *code ^= 8;
  const std::int64_t m = 3;
  const auto a = activations(m * right.k, 1);
  std::vector<float> out(static_cast<std::size_t>(m * right.n));
  GemmOptions options;
  options.output = OutputType::kF32;
  const auto prepared = prepare_weights(wrong.view()).value();
  ASSERT_TRUE(mm_bf16_fp4(prepared, a.data(), right.k, m, out.data(), right.n, options).ok());
  const auto verdict = check::GemmCheck::create(right.view(), a, m, OutputType::kF32, m, 1).value().compare(out.data());
  EXPECT_FALSE(verdict.right);
  EXPECT_THAT(verdict.why, HasSubstr("times the tolerance"));
}

TEST_P(RealModel, OutputsStayAsNearToTheModelsAsTheWeights) {
  // With independent activations the outputs' relative error is the weights' on average; twice that bounds the small
  // layers.
  const std::int64_t m = 8;
  const SafetensorsFile file = quantized(Fp4Layout::kCompressedTensors);
  for (const QuantizedTensor& tensor : report_) {
    if (!tensor.kept_because.empty() || tensor.shape[0] < 64) continue;
    SCOPED_TRACE(tensor.name);
    const Fp4Matrix weights = load_fp4_tensor(file, tensor.name).value();
    const auto a = activations(m * weights.k, 7);
    std::vector<float> out(static_cast<std::size_t>(m * weights.n));
    GemmOptions options;
    options.output = OutputType::kF32;
    const auto prepared = prepare_weights(weights.view()).value();
    ASSERT_TRUE(mm_bf16_fp4(prepared, a.data(), weights.k, m, out.data(), weights.n, options).ok());
    const TensorView original = model_->tensor(tensor.name).value();
    std::vector<float> row(static_cast<std::size_t>(weights.k));
    double squares = 0, error_squares = 0;
    for (std::int64_t j = 0; j < weights.n; ++j) {
      ASSERT_TRUE(read_f32(original, j * weights.k, row).ok());
      for (std::int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::int64_t c = 0; c < weights.k; ++c) {
          sum += static_cast<double>(to_f32(a[static_cast<std::size_t>(i * weights.k + c)])) *
                 static_cast<double>(row[static_cast<std::size_t>(c)]);
        }
        const double error = sum - static_cast<double>(out[static_cast<std::size_t>(i * weights.n + j)]);
        squares += sum * sum;
        error_squares += error * error;
      }
    }
    EXPECT_LT(std::sqrt(error_squares / squares), 1.5 * tensor.relative_l2);
  }
}

}  // namespace
}  // namespace pinch
