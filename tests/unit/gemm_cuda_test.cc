// The parts of the CUDA front door that need no device: weights prepared on the host, their file, the checks of
// arguments, and what every other function says where there is no device.
#include "pinch/gemm_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <random>
#include <vector>

#include "kernels/gemm_bf16_fp4/arguments.h"
#include "pinch/families.h"
#include "tests/support/temp_folder.h"

namespace pinch::cuda {
namespace {

using testing::HasSubstr;

Fp4Matrix random_matrix(Fp4Format format, std::int64_t n, std::int64_t k) {
  std::mt19937 random(7);
  Fp4Matrix w;
  w.format = format;
  w.n = n;
  w.k = k;
  w.alpha = 0.25F;
  w.codes.resize(static_cast<std::size_t>(n * k / 2));
  for (auto& code : w.codes) code = static_cast<std::uint8_t>(random() >> 9);
  w.scales.resize(static_cast<std::size_t>(n * (k / group_size(format))));
  for (auto& scale : w.scales) {
    scale = static_cast<std::uint8_t>(format == Fp4Format::kNvfp4 ? 1 + random() % 0x7e : 110 + random() % 20);
  }
  return w;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}
void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST(HostWeights, AreWhatTheLayoutSays) {
  const Fp4Matrix matrix = random_matrix(Fp4Format::kNvfp4, 72, 96);
  const auto weights = prepare_weights_on_host(matrix.view());
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights->n(), 72);
  EXPECT_EQ(weights->k(), 96);
  EXPECT_EQ(weights->format(), Fp4Format::kNvfp4);
  EXPECT_EQ(weights->alpha(), 0.25F);
  EXPECT_EQ(weights->bytes().size(), 4 * (2048U + 256U));  // 2 x 2 tiles of 64 x 64
}

TEST(HostWeights, AreTheSameFromSwizzledScales) {
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    Fp4Matrix matrix = random_matrix(format, 136, 160);
    const auto linear = prepare_weights_on_host(matrix.view());
    matrix.scales = swizzle_scales(matrix.scales, 136, 160 / group_size(format)).value();
    matrix.scale_layout = ScaleLayout::kSwizzled128x4;
    const auto swizzled = prepare_weights_on_host(matrix.view());
    ASSERT_TRUE(linear.ok() && swizzled.ok());
    EXPECT_TRUE(std::equal(linear->bytes().begin(), linear->bytes().end(), swizzled->bytes().begin()));
  }
}

TEST(HostWeights, ComeBackFromAFile) {
  const TempFolder folder;
  const std::string path = folder / "weights.pinch";
  for (const Fp4Format format : {Fp4Format::kNvfp4, Fp4Format::kMxfp4}) {
    const Fp4Matrix matrix = random_matrix(format, 72, 544);
    const auto weights = prepare_weights_on_host(matrix.view());
    ASSERT_TRUE(weights.ok());
    ASSERT_TRUE(weights->save(path).ok());
    const auto loaded = HostWeights::load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_EQ(loaded->n(), 72);
    EXPECT_EQ(loaded->k(), 544);
    EXPECT_EQ(loaded->format(), format);
    EXPECT_EQ(loaded->alpha(), 0.25F);
    ASSERT_EQ(loaded->bytes().size(), weights->bytes().size());
    EXPECT_TRUE(std::equal(loaded->bytes().begin(), loaded->bytes().end(), weights->bytes().begin()));
    ASSERT_TRUE(loaded->save(folder / "again").ok());
    EXPECT_EQ(read_file(folder / "again"), read_file(path));
  }
}

TEST(HostWeights, DamagedFilesAreNamed) {
  const TempFolder folder;
  const std::string path = folder / "weights.pinch";
  ASSERT_TRUE(prepare_weights_on_host(random_matrix(Fp4Format::kMxfp4, 64, 64).view())->save(path).ok());
  const std::vector<std::byte> whole = read_file(path);
  const auto error_with = [&](auto&& damage) {
    std::vector<std::byte> bytes = whole;
    damage(bytes);
    write_file(path, bytes);
    const auto loaded = HostWeights::load(path);
    return loaded.ok() ? Error{ErrorCode::kInterrupted, "loaded", ""} : loaded.error();
  };
  EXPECT_THAT(error_with([](auto&) {}).text, HasSubstr("loaded"));
  for (const std::size_t at : {std::size_t{0}, std::size_t{7}}) {
    const Error error = error_with([&](auto& bytes) { bytes[at] ^= std::byte{1}; });
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << at;
    EXPECT_THAT(error.text, HasSubstr("no prepared weights")) << at;
  }
  const Error version = error_with([](auto& bytes) { bytes[8] = std::byte{9}; });
  EXPECT_EQ(version.code, ErrorCode::kUnsupported);
  EXPECT_THAT(version.text, HasSubstr("version 9"));
  // Every byte of the header behind the version, and bytes of codes and scales.
  std::vector<std::size_t> places;
  for (std::size_t at = 12; at < 80; ++at) places.push_back(at);
  for (const std::size_t at : {std::size_t{256}, std::size_t{1234}, whole.size() - 1}) places.push_back(at);
  for (const std::size_t at : places) {
    const Error error = error_with([&](auto& bytes) { bytes[at] ^= std::byte{0x10}; });
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << at;
    EXPECT_THAT(error.text, HasSubstr("damaged")) << at;
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{80}, std::size_t{256}, whole.size() - 1, whole.size() + 8}) {
    EXPECT_EQ(error_with([&](auto& bytes) { bytes.resize(size); }).code, ErrorCode::kCorrupt) << size;
  }
  EXPECT_EQ(HostWeights::load(folder / "none").error().code, ErrorCode::kNotFound);
}

TEST(HostWeights, RefusalsAreNamed) {
  const auto error_with = [](Fp4Format format, auto&& change) {
    Fp4Matrix matrix = random_matrix(format, 8, 64);
    Fp4View view = matrix.view();
    change(matrix, view);
    const auto weights = prepare_weights_on_host(view);
    return weights.ok() ? Error{ErrorCode::kInterrupted, "prepared", ""} : weights.error();
  };
  using Code = ErrorCode;
  const auto nvfp4 = Fp4Format::kNvfp4, mxfp4 = Fp4Format::kMxfp4;
  EXPECT_EQ(error_with(nvfp4, [](auto&, auto& v) { v.codes = nullptr; }).where, "codes");
  EXPECT_EQ(error_with(nvfp4, [](auto&, auto& v) { v.scales = nullptr; }).where, "scales");
  EXPECT_EQ(error_with(nvfp4, [](auto&, auto& v) { v.alpha = INFINITY; }).where, "alpha");
  EXPECT_EQ(error_with(nvfp4, [](auto&, auto& v) { v.n = 0; }).code, Code::kInvalidArgument);
  EXPECT_EQ(error_with(nvfp4, [](auto&, auto& v) { v.n = 4; }).code, Code::kIllegal);
  EXPECT_EQ(error_with(nvfp4, [](auto&, auto& v) { v.k = 48; }).code, Code::kIllegal);
  EXPECT_EQ(error_with(nvfp4, [](auto& m, auto&) { m.scales[3] = 0x7f; }).code, Code::kCorrupt);
  EXPECT_EQ(error_with(nvfp4, [](auto& m, auto&) { m.scales[3] = 0x90; }).code, Code::kCorrupt);
  EXPECT_EQ(error_with(mxfp4, [](auto& m, auto&) { m.scales[3] = 0xff; }).code, Code::kCorrupt);
  const Error span = error_with(mxfp4, [](auto& m, auto&) { m.codes[0] = 0x77, m.scales[0] = 240; });
  EXPECT_EQ(span.code, Code::kUnsupported);
  EXPECT_THAT(span.text, HasSubstr("at most 2^120"));
}

TEST(GemmArguments, LayoutAndWorkspaceAreRefusedByName) {
  alignas(16) std::array<Bf16, 64> memory{};
  const auto where = [](const Result<void>& result) { return result.ok() ? std::string("ok") : result.error().where; };
  using pinch::detail::check_layout;
  using pinch::detail::check_workspace;
  EXPECT_EQ(where(check_layout(memory.data(), 32, memory.data(), 8, 8, 16)), "ok");
  EXPECT_EQ(where(check_layout(memory.data(), 33, memory.data(), 8, 8, 16)), "lda");
  EXPECT_EQ(where(check_layout(memory.data(), 32, memory.data(), 12, 8, 16)), "ldo");
  EXPECT_EQ(where(check_layout(memory.data(), std::int64_t{1} << 31, memory.data(), 8, 8, 16)), "lda");
  EXPECT_EQ(where(check_layout(memory.data() + 1, 32, memory.data(), 8, 8, 16)), "a");
  EXPECT_EQ(where(check_layout(memory.data(), 32, memory.data() + 4, 8, 8, 16)), "out");
  const auto bytes = std::as_bytes(std::span(memory));
  EXPECT_EQ(where(check_workspace(bytes, 128, 16)), "ok");
  EXPECT_EQ(where(check_workspace({}, 0, 16)), "ok");
  EXPECT_EQ(where(check_workspace(bytes, 129, 16)), "workspace");
  EXPECT_EQ(where(check_workspace(bytes.subspan(2), 8, 16)), "workspace");
  EXPECT_THAT(check_workspace({static_cast<const std::byte*>(nullptr), 8}, 8, 16).error().text, HasSubstr("null"));
}

TEST(BuiltTactics, AreTheFamilyLessWhatWasLeftOut) {
  const TacticFamily& whole = **find_tactic_family("sm90");
  const TacticFamily& built = built_tactics();
  const GemmProblem problem{16, 4096, 4096, Fp4Format::kNvfp4, OutputType::kBf16};
  const Resources resources{132, 0};
  ASSERT_EQ(built.size(), whole.size());
  std::size_t left_out = 0, legal = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(built.to_string(i), whole.to_string(i));
    const auto why = whole.illegal(i, problem, resources), here = built.illegal(i, problem, resources);
    legal += here ? 0U : 1U;
    if (why) {
      EXPECT_EQ(here, why);
    } else if (here) {
      ++left_out;
      EXPECT_THAT(*here, HasSubstr("PINCH_TACTICS"));
    }
  }
  EXPECT_EQ(legal == 0, !kernels_absent().empty());
  EXPECT_EQ(default_tactic(built, problem, resources).ok(), legal > 0);
  if (left_out == 0) {
    EXPECT_EQ(default_tactic(built, problem, resources)->index, default_tactic(whole, problem, resources)->index);
  }
}

TEST(CudaFrontDoor, SaysWhyThereIsNoDevice) {
  if (gemm_device(0).ok()) GTEST_SKIP() << "device 0 runs the kernels";
  const Fp4Matrix matrix = random_matrix(Fp4Format::kNvfp4, 64, 64);
  const auto weights = prepare_weights_on_host(matrix.view());
  ASSERT_TRUE(weights.ok());
  for (const Error& error : {to_device(*weights, 0).error(), prepare_weights(matrix.view(), 0).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << error.message();
    EXPECT_EQ(error.where, "device");
    EXPECT_FALSE(error.text.empty());
  }
  if (kernels_absent().empty()) {
    EXPECT_THAT(std::string(toolkit_version()), HasSubstr("."));
  } else {
    EXPECT_EQ(toolkit_version(), "");
    EXPECT_THAT(to_device(*weights, 0).error().text, HasSubstr("no CUDA kernels"));
  }
}

}  // namespace
}  // namespace pinch::cuda
