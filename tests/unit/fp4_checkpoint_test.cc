#include "pinch/fp4_checkpoint.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/model_file.h"
#include "tests/support/temp_folder.h"

namespace pinch {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<float> normal_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<Bf16> as_bf16(std::vector<float>& values) {
  std::vector<Bf16> rounded;
  for (float& value : values) {
    rounded.push_back(to_bf16(value));
    value = to_f32(rounded.back());
  }
  return rounded;
}

class Checkpoint : public ::testing::TestWithParam<std::tuple<Fp4Format, Fp4Layout>> {
 protected:
  TempFolder folder_;
  std::string model_path_ = folder_ / "model.safetensors";
  std::string out_path_ = folder_ / "out.safetensors";

  SafetensorsFile open(const std::string& path) {
    auto file = SafetensorsFile::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message();
    return file.value();
  }
  Result<std::vector<QuantizedTensor>> quantize(QuantizeOptions options = {}) {
    return quantize_checkpoint(open(model_path_), out_path_, options);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Checkpoint,
                         ::testing::Combine(::testing::Values(Fp4Format::kNvfp4, Fp4Format::kMxfp4),
                                            ::testing::Values(Fp4Layout::kModelOpt, Fp4Layout::kCompressedTensors)),
                         [](const auto& tested) {
                           return std::string(to_string(std::get<0>(tested.param))) +
                                  (std::get<1>(tested.param) == Fp4Layout::kModelOpt ? "ModelOpt"
                                                                                     : "CompressedTensors");
                         });

TEST_P(Checkpoint, ReadsBackToTheBytesOfTheWholeTensorQuantiser) {
  const auto [format, layout] = GetParam();
  // Large enough for several pieces, the last one short; BF16 besides F32.
  const std::int64_t n = 37, k = 32 * 701;
  const std::vector<float> wide = normal_values(n * k, 1);
  std::vector<float> narrow = normal_values(3 * 64, 2);
  const std::vector<float> zeros(2 * 32);
  write_model(model_path_, {stored("wide.weight", DType::kF32, {n, k}, wide),
                            stored("narrow", DType::kBf16, {3, 64}, as_bf16(narrow)),
                            stored("zeros.weight", DType::kF32, {2, 32}, zeros)});
  const auto report = quantize({.format = format, .layout = layout});
  ASSERT_TRUE(report.ok()) << report.error().message();

  const SafetensorsFile out = open(out_path_);
  const auto expect_same = [&, format = format](std::string_view name, const std::vector<float>& values,
                                                std::int64_t rows, std::int64_t columns) {
    const auto expected = quantize_fp4(values, rows, columns, format).value();
    const auto loaded = load_fp4_tensor(out, name);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_EQ(loaded->format, format);
    EXPECT_EQ(loaded->n, rows);
    EXPECT_EQ(loaded->k, columns);
    EXPECT_EQ(loaded->alpha, expected.alpha);
    EXPECT_TRUE(loaded->codes == expected.codes);
    EXPECT_TRUE(loaded->scales == expected.scales);
  };
  expect_same("wide.weight", wide, n, k);
  expect_same("narrow", narrow, 3, 64);
  expect_same("zeros.weight", zeros, 2, 32);
}

TEST_P(Checkpoint, NamesTensorsAsTheLayoutsDo) {
  const auto [format, layout] = GetParam();
  write_model(model_path_, {stored("a.weight", DType::kF32, {2, 64}, normal_values(128, 1))});
  ASSERT_TRUE(quantize({.format = format, .layout = layout}).ok());
  std::vector<std::string> tensors;
  const SafetensorsFile out = open(out_path_);
  for (const TensorInfo& tensor : out.tensors()) {
    tensors.push_back(tensor.name + " " + std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape));
  }
  if (format == Fp4Format::kNvfp4 && layout == Fp4Layout::kModelOpt) {
    EXPECT_THAT(tensors,
                ElementsAre("a.weight_scale_2 F32 []", "a.weight U8 [2, 32]", "a.weight_scale F8_E4M3 [2, 4]"));
  } else if (format == Fp4Format::kNvfp4) {
    EXPECT_THAT(tensors, ElementsAre("a.weight_global_scale F32 [1]", "a.weight_packed U8 [2, 32]",
                                     "a.weight_scale F8_E4M3 [2, 4]"));
  } else if (layout == Fp4Layout::kModelOpt) {
    EXPECT_THAT(tensors, ElementsAre("a.weight U8 [2, 32]", "a.weight_scale U8 [2, 2]"));
  } else {
    EXPECT_THAT(tensors, ElementsAre("a.weight_packed U8 [2, 32]", "a.weight_scale U8 [2, 2]"));
  }
}

TEST_P(Checkpoint, ReportsTheErrorsOfTheStoredWeights) {
  const auto [format, layout] = GetParam();
  const std::int64_t n = 5, k = 96;
  const std::vector<float> values = normal_values(n * k, 3);
  write_model(model_path_, {stored("w", DType::kF32, {n, k}, values)});
  const auto report = quantize({.format = format, .layout = layout});
  ASSERT_TRUE(report.ok());

  const Fp4Matrix loaded = load_fp4_tensor(open(out_path_), "w").value();
  double squares = 0, error_squares = 0, largest = 0;
  std::vector<float> row(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < n; ++r) {
    dequantize_row(loaded.view(), r, std::span(row));
    for (std::int64_t c = 0; c < k; ++c) {
      const double w = values[static_cast<std::size_t>(r * k + c)], e = std::abs(w - row[static_cast<std::size_t>(c)]);
      squares += w * w;
      error_squares += e * e;
      largest = std::max(largest, e);
    }
  }
  const QuantizedTensor& tensor = report->front();
  EXPECT_DOUBLE_EQ(tensor.relative_l2, std::sqrt(error_squares / squares));
  EXPECT_EQ(tensor.max_abs, largest);
  EXPECT_NEAR(tensor.snr_db, -20 * std::log10(tensor.relative_l2), 1e-9);
  EXPECT_GT(tensor.snr_db, 15) << "4-bit floats lose about 20 dB on normal weights";
}

TEST_F(Checkpoint, CopiesEveryOtherTensorByteForByte) {
  const std::vector<StoredTensor> others = {
      stored("bias", DType::kF32, {64}, normal_values(64, 1)),
      stored("ids", DType::kI64, {1, 32}, std::vector<std::int64_t>(32, -7)),
      stored("cube", DType::kBf16, {2, 2, 32}, std::vector<std::uint16_t>(128, 0x7fc1)),
      stored("ragged", DType::kF32, {2, 30}, normal_values(60, 2)),
      stored("empty", DType::kF32, {0, 32}, std::vector<float>{}),
      stored("left_out", DType::kF32, {2, 32}, normal_values(64, 3)),
      stored("large", DType::kU8, {3'000'001}, std::vector<std::uint8_t>(3'000'001, 9))};
  std::vector<StoredTensor> all = others;
  all.push_back(stored("w", DType::kF32, {2, 32}, normal_values(64, 4)));
  write_model(model_path_, all, {{"format", "pt"}, {"quantization_config", "old"}});
  const auto report = quantize({.select = [](const TensorInfo& tensor) { return tensor.name != "left_out"; }});
  ASSERT_TRUE(report.ok()) << report.error().message();

  const SafetensorsFile out = open(out_path_);
  for (const StoredTensor& tensor : others) {
    const auto view = out.tensor(tensor.spec.name);
    ASSERT_TRUE(view.ok()) << tensor.spec.name;
    EXPECT_EQ(view->dtype, tensor.spec.dtype);
    EXPECT_EQ(view->shape, tensor.spec.shape);
    EXPECT_TRUE(std::equal(view->bytes.begin(), view->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  EXPECT_EQ(out.tensors().size(), others.size() + 3);
  ASSERT_EQ(out.metadata().size(), 2U);
  EXPECT_THAT(out.metadata()[0], Pair("format", "pt"));
  EXPECT_THAT(out.metadata()[1], Pair("quantization_config", HasSubstr("W4A16_NVFP4")));

  std::map<std::string, std::string> reasons;
  for (const QuantizedTensor& tensor : *report) reasons[tensor.name] = tensor.kept_because;
  EXPECT_EQ(reasons["w"], "");
  EXPECT_EQ(reasons["bias"], "not 2-D");
  EXPECT_EQ(reasons["ids"], "I64 is not a float");
  EXPECT_EQ(reasons["left_out"], "not selected");
  EXPECT_THAT(reasons["ragged"], HasSubstr("k = 30"));
  EXPECT_THAT(reasons["empty"], HasSubstr("n = 0"));
}

TEST_F(Checkpoint, PlacesANotFiniteWeightAndWritesNothing) {
  // Beyond the first piece, so that the place is not the piece's.
  const std::int64_t n = 600, k = 512;
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = normal_values(n * k, 1);
    values[static_cast<std::size_t>(599 * k + 17)] = bad;
    write_model(model_path_, {stored("w", DType::kF32, {n, k}, values)});
    for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
      const auto report = quantize({.format = format});
      ASSERT_FALSE(report.ok());
      EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(report.error().message(), AllOf(HasSubstr("tensor \"w\""), HasSubstr("row 599, column 17")));
      EXPECT_THAT(folder_.files(), ElementsAre("model.safetensors"));
    }
  }
}

TEST_F(Checkpoint, StopsAndWritesNothingWhereProgressSaysSo) {
  write_model(model_path_, {stored("w", DType::kF32, {64, 8192}, normal_values(64 * 8192, 1))});
  std::uint64_t last = 0, total = 0;
  int calls = 0;
  const auto stopped = quantize(
      {.progress = [&](const QuantizeProgress&) { return ++calls < 4; }, .config_path = folder_ / "config.json"});
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
  EXPECT_THAT(folder_.files(), ElementsAre("model.safetensors"));

  ASSERT_TRUE(quantize({.progress = [&](const QuantizeProgress& at) {
                EXPECT_GE(at.done_bytes, last);
                last = at.done_bytes;
                total = at.total_bytes;
                return true;
              }}).ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, 64U * 8192 * 4);
}

TEST_F(Checkpoint, RefusesAnOutputThatIsTheModel) {
  write_model(model_path_, {stored("w", DType::kF32, {2, 32}, normal_values(64, 1))});
  std::filesystem::create_symlink(model_path_, folder_ / "link");
  for (const std::string& output : {model_path_, folder_ / "link", folder_.path() + "/./model.safetensors"}) {
    const auto report = quantize_checkpoint(open(model_path_), output, {});
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().text, HasSubstr("is the model itself"));
  }
}

TEST_F(Checkpoint, RefusesAModelWithNothingToQuantise) {
  write_model(model_path_, {stored("bias", DType::kF32, {64}, normal_values(64, 1))});
  EXPECT_THAT(quantize().error().text, HasSubstr("none of 1 tensors is selected and can be quantised"));
  EXPECT_EQ(quantize().error().code, ErrorCode::kNotFound);
}

TEST_F(Checkpoint, RefusesNamesThatAreTaken) {
  write_model(model_path_, {stored("w", DType::kF32, {2, 32}, normal_values(64, 1)),
                            stored("w_scale", DType::kF32, {1}, normal_values(1, 1))});
  EXPECT_THAT(quantize().error().text,
              HasSubstr("quantising \"w\" would write \"w_scale\", which the model has already"));
}

TEST_F(Checkpoint, WritesTheConfigurationBesideOnRequest) {
  write_model(model_path_, {stored("a.weight", DType::kF32, {2, 32}, normal_values(64, 1)),
                            stored("lm_head.weight", DType::kF32, {2, 32}, normal_values(64, 1))});
  const std::string config = folder_ / "config.json";
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    const bool nvfp4 = format == Fp4Format::kNvfp4;
    QuantizeOptions options{
        .format = format, .select = [](const TensorInfo& t) { return t.name[0] == 'a'; }, .config_path = config};
    ASSERT_TRUE(quantize(options).ok());
    auto json = nlohmann::json::parse(std::ifstream(config));
    EXPECT_EQ(json["quantization"]["quant_algo"], nvfp4 ? "W4A16_NVFP4" : "mxfp4");
    EXPECT_EQ(json["quantization"]["group_size"], nvfp4 ? 16 : 32);
    EXPECT_EQ(json["quantization"]["exclude_modules"], nlohmann::json({"lm_head"}));

    options.layout = Fp4Layout::kCompressedTensors;
    ASSERT_TRUE(quantize(options).ok());
    json = nlohmann::json::parse(std::ifstream(config));
    EXPECT_EQ(json["quant_method"], "compressed-tensors");
    EXPECT_EQ(json["format"], nvfp4 ? "nvfp4-pack-quantized" : "mxfp4-pack-quantized");
    EXPECT_EQ(json["ignore"], nlohmann::json({"lm_head"}));
    EXPECT_EQ(json["config_groups"]["group_0"]["weights"]["strategy"], nvfp4 ? "tensor_group" : "group");
    EXPECT_TRUE(json["config_groups"]["group_0"]["input_activations"].is_null());
  }
}

// --- load_fp4_tensor -------------------------------------------------------------------------------------------------

constexpr float kHalf = 0.5F;

class Load : public Checkpoint {
 protected:
  std::string refusal(const std::vector<StoredTensor>& tensors, std::string_view name,
                      std::optional<Fp4Format> format = std::nullopt) {
    write_model(model_path_, tensors);
    const auto loaded = load_fp4_tensor(open(model_path_), name, format);
    if (loaded.ok()) return "accepted";
    EXPECT_THAT(loaded.error().where, HasSubstr("model.safetensors"));
    return loaded.error().message();
  }
  static StoredTensor codes(std::string name = "w") {
    return stored(std::move(name), DType::kU8, {2, 16}, std::vector<std::uint8_t>(32, 0x21));
  }
  static StoredTensor scales(DType dtype, Shape shape, std::uint8_t value) {
    return stored("w_scale", dtype, shape,
                  std::vector<std::uint8_t>(static_cast<std::size_t>(shape[0] * shape[1]), value));
  }
  static StoredTensor factor(std::string name, float value, Shape shape = {}) {
    return stored(std::move(name), DType::kF32, std::move(shape), std::vector<float>{value});
  }
};

TEST_F(Load, ReadsAHandMadeTensorOfEachLayout) {
  std::vector<float> row(32);
  const auto first_two = [&](std::string_view name) {
    const auto loaded = load_fp4_tensor(open(model_path_), name);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message();
    dequantize_row(loaded->view(), 1, std::span(row));
    return std::pair(row[0], row[1]);
  };
  // Codes 1 and 2 are 0.5 and 1; the E4M3 scale 0x40 is 2, the UE8M0 scale 129 is 4.
  write_model(model_path_, {codes(), scales(DType::kF8E4m3, {2, 2}, 0x40), factor("w_scale_2", kHalf)});
  EXPECT_EQ(first_two("w"), std::pair(0.5F, 1.0F));
  write_model(model_path_,
              {codes("w_packed"), scales(DType::kF8E4m3, {2, 2}, 0x40), factor("w_global_scale", kHalf, {1})});
  EXPECT_EQ(first_two("w"), std::pair(2.0F, 4.0F));
  EXPECT_EQ(first_two("w_packed"), std::pair(2.0F, 4.0F));
  for (const DType dtype : {DType::kU8, DType::kF8E8m0}) {
    write_model(model_path_, {codes(), scales(dtype, {2, 1}, 129)});
    EXPECT_EQ(first_two("w"), std::pair(2.0F, 4.0F));
  }
}

TEST_F(Load, QuantisesAPlainTensor) {
  std::vector<float> values = normal_values(64, 1);
  write_model(model_path_, {stored("w", DType::kBf16, {2, 32}, as_bf16(values))});
  const SafetensorsFile file = open(model_path_);
  EXPECT_TRUE(load_fp4_tensor(file, "w")->codes == quantize_fp4(values, 2, 32, Fp4Format::kNvfp4)->codes);
  EXPECT_TRUE(load_fp4_tensor(file, "w", Fp4Format::kMxfp4)->codes ==
              quantize_fp4(values, 2, 32, Fp4Format::kMxfp4)->codes);
}

TEST_F(Load, RefusesPartsThatAreMissing) {
  EXPECT_THAT(refusal({codes()}, "w"), HasSubstr("no tensor \"w_scale\" for the codes \"w\""));
  EXPECT_THAT(refusal({codes(), scales(DType::kF8E4m3, {2, 2}, 0x40)}, "w"), HasSubstr("no tensor \"w_scale_2\""));
  EXPECT_THAT(refusal({codes("w_packed"), scales(DType::kF8E4m3, {2, 2}, 0x40)}, "w"),
              HasSubstr("no tensor \"w_global_scale\""));
  EXPECT_THAT(refusal({codes("layer.weight_packed")}, "layer.weihgt"),
              HasSubstr("did you mean \"layer.weight_packed\""));
}

TEST_F(Load, RefusesScalesThatDoNotFitTheCodes) {
  EXPECT_THAT(refusal({codes(), scales(DType::kF8E4m3, {2, 1}, 0x40), factor("w_scale_2", 1)}, "w"),
              HasSubstr("shape [2, 1]; nvfp4 codes [2, 16] need scales [2, 2]"));
  EXPECT_THAT(refusal({codes(), scales(DType::kU8, {1, 2}, 127)}, "w"), HasSubstr("need scales [2, 1]"));
  EXPECT_THAT(refusal({codes(), scales(DType::kI8, {2, 2}, 1)}, "w"), HasSubstr("I8; scales are F8_E4M3"));
}

TEST_F(Load, RefusesNotFiniteScalesAndFactors) {
  EXPECT_THAT(refusal({codes(), scales(DType::kF8E4m3, {2, 2}, 0x7f), factor("w_scale_2", 1)}, "w"),
              AllOf(HasSubstr("tensor \"w_scale\""), HasSubstr("NaN"), HasSubstr("row 0, scale column 0")));
  EXPECT_THAT(refusal({codes(), scales(DType::kU8, {2, 1}, 0xff)}, "w"), HasSubstr("NaN"));
  for (const float bad : {0.0F, -1.0F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(refusal({codes(), scales(DType::kF8E4m3, {2, 2}, 0x40), factor("w_scale_2", bad)}, "w"),
                HasSubstr("the factor of a tensor is finite and above 0"));
    EXPECT_THAT(
        refusal({codes("w_packed"), scales(DType::kF8E4m3, {2, 2}, 0x40), factor("w_global_scale", bad, {1})}, "w"),
        HasSubstr("the factor of a tensor is finite and above 0"))
        << bad;
  }
  EXPECT_THAT(refusal({codes(), scales(DType::kF8E4m3, {2, 2}, 0x40),
                       stored("w_scale_2", DType::kF32, {2}, std::vector<float>{1, 1})},
                      "w"),
              HasSubstr("one F32 is needed"));
}

TEST_F(Load, RefusesTypesAndShapesThatAreNoWeights) {
  EXPECT_THAT(refusal({stored("w", DType::kI32, {2, 32}, std::vector<std::int32_t>(64))}, "w"),
              HasSubstr("I32 [2, 32]; give a 2-D tensor"));
  EXPECT_THAT(refusal({stored("w", DType::kF32, {64}, normal_values(64, 1))}, "w"), HasSubstr("F32 [64]"));
  EXPECT_THAT(refusal({stored("w", DType::kF32, {2, 30}, normal_values(60, 1))}, "w"), HasSubstr("k = 30"));
  EXPECT_THAT(refusal({stored("w", DType::kU8, {2, 4, 4}, std::vector<std::uint8_t>(32))}, "w"),
              HasSubstr("FP4 codes are U8 [n, k / 2]"));
  EXPECT_THAT(
      refusal({stored("w", DType::kU8, {2, 5}, std::vector<std::uint8_t>(10)), scales(DType::kU8, {2, 1}, 127)}, "w"),
      HasSubstr("k = 10"));
  std::vector<float> values = normal_values(64, 1);
  values[33] = std::nanf("");
  EXPECT_THAT(refusal({stored("w", DType::kF32, {2, 32}, values)}, "w"), HasSubstr("row 1, column 1"));
}

TEST_F(Load, RefusesStoredWeightsOfAnotherFormat) {
  EXPECT_THAT(refusal({codes(), scales(DType::kU8, {2, 1}, 127)}, "w", Fp4Format::kNvfp4),
              HasSubstr("stored as mxfp4, asked for as nvfp4"));
}

}  // namespace
}  // namespace pinch
