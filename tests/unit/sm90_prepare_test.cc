// Preparing weights on the host: the round trip, the layout that prepared.h describes, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/prepare.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

using testing::HasSubstr;

struct Canonical {
  Canonical(Format format, int n, int k, bool swizzled, std::uint32_t seed) {
    std::mt19937 random(seed);
    const int groups = k / group_size(format);
    codes.resize(static_cast<std::size_t>(n * k / 2));
    for (auto& byte : codes) byte = static_cast<std::uint8_t>(random() >> 9);
    linear.resize(static_cast<std::size_t>(n * groups));
    for (auto& scale : linear)
      scale = static_cast<std::uint8_t>(format == Format::kNvfp4 ? 1 + random() % 0x7e : 100 + random() % 20);
    scales = linear;
    if (swizzled) {
      scales.assign(static_cast<std::size_t>((n + 127) / 128 * 128 * ((groups + 3) / 4 * 4)), 0);
      for (int row = 0; row < n; ++row)
        for (int group = 0; group < groups; ++group)
          scales[swizzled_scale_offset(row, group, (groups + 3) / 4 * 4)] =
              linear[static_cast<std::size_t>(row * groups + group)];
    }
    view = {codes.data(), scales.data(), n, k, format, swizzled};
  }
  std::vector<std::uint8_t> codes, linear, scales;
  CanonicalWeights view{};
};

struct Prepared {
  explicit Prepared(const CanonicalWeights& w)
      : codes(prepared_extent(w.format, w.n, w.k).codes_bytes),
        scales(prepared_extent(w.format, w.n, w.k).scales_bytes) {
    status = prepare_weights_host(w, codes.data(), scales.data(), &report);
  }
  std::vector<std::uint8_t> codes, scales;
  PrepareReport report{};
  PrepareStatus status;
};

TEST(Sm90Prepare, RoundTripGivesBackCodesAndScales) {
  for (const Format format : {Format::kNvfp4, Format::kMxfp4})
    for (const bool swizzled : {false, true})
      for (const auto& [n, k] : {std::array{8, 32}, std::array{72, 96}, std::array{264, 544}}) {
        const Canonical w(format, n, k, swizzled, 7);
        const Prepared prepared(w.view);
        ASSERT_EQ(prepared.status, PrepareStatus::kOk);
        std::vector<std::uint8_t> codes(w.codes.size()), scales(w.linear.size());
        unprepare_weights_host(format, n, k, prepared.codes.data(), prepared.scales.data(), prepared.report.max_ue8m0,
                               codes.data(), scales.data());
        EXPECT_EQ(codes, w.codes) << n << "x" << k << " swizzled " << swizzled;
        EXPECT_EQ(scales, w.linear) << n << "x" << k << " swizzled " << swizzled;
      }
}

// The table of prepared.h, written down a second time: bits {sign, e1, e0, m} of fragment a0..a3, even columns.
TEST(Sm90Prepare, CodesLieWhereTheHeaderSays) {
  constexpr int kBits[4][4] = {{15, 8, 7, 6}, {19, 12, 11, 10}, {9, 2, 1, 0}, {13, 14, 5, 4}};
  constexpr int kN = 72, kK = 96;
  const Canonical w(Format::kNvfp4, kN, kK, false, 11);
  const Prepared prepared(w.view);
  for (int row = 0; row < kN; ++row)
    for (int column = 0; column < kK; ++column) {
      const int byte = w.codes[static_cast<std::size_t>((row * kK + column) / 2)];
      const int code = column % 2 == 1 ? byte >> 4 : byte & 15;
      const int tile = row / 64 * 2 + column / 64, r = row % 64, c = column % 64;
      const int thread = r / 16 * 32 + r % 8 * 4 + c % 8 / 2;
      const int fragment = (r % 16 >= 8) + 2 * (c % 16 >= 8);
      std::uint32_t word;
      std::memcpy(&word, prepared.codes.data() + tile * 2048 + thread * 16 + c / 16 * 4, 4);
      int found = 0;
      for (int bit = 0; bit < 4; ++bit)
        found |= static_cast<int>(word >> ((kBits[fragment][bit] + 16 * (c % 2)) % 32) & 1u) << (3 - bit);
      ASSERT_EQ(found, code) << "row " << row << " column " << column;
    }
}

TEST(Sm90Prepare, PaddingIsZero) {
  const Canonical w(Format::kNvfp4, 8, 32, false, 3);
  const Prepared prepared(w.view);
  for (int thread = 0; thread < 128; ++thread)
    for (int block = 0; block < 4; ++block) {
      std::uint32_t word;
      std::memcpy(&word, prepared.codes.data() + thread * 16 + block * 4, 4);
      if (thread < 32 && block < 2) continue;  // rows 0 to 7 and columns 0 to 31: weights
      EXPECT_EQ(word, 0u) << "thread " << thread << " block " << block;
    }
}

TEST(Sm90Prepare, ZeroScaleLeavesSignedZeros) {
  Canonical w(Format::kNvfp4, 8, 32, false, 5);
  w.scales[0] = 0;
  w.view.scales = w.scales.data();
  const Prepared prepared(w.view);
  ASSERT_EQ(prepared.status, PrepareStatus::kOk);
  std::vector<std::uint8_t> codes(w.codes.size()), scales(w.linear.size());
  unprepare_weights_host(Format::kNvfp4, 8, 32, prepared.codes.data(), prepared.scales.data(), -1, codes.data(),
                         scales.data());
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(codes[i], w.codes[i] & 0x88) << i;
  for (std::size_t i = 8; i < 16; ++i) EXPECT_EQ(codes[i], w.codes[i]) << i;
}

TEST(Sm90Prepare, NamesWhatItRefuses) {
  const auto status_with = [](Format format, std::uint8_t scale) {
    Canonical w(format, 8, 64, false, 1);
    w.codes[0] = 0x77;
    w.scales[0] = scale;
    return Prepared(w.view).status;
  };
  EXPECT_EQ(status_with(Format::kNvfp4, 0x7f), PrepareStatus::kNanScale);
  EXPECT_EQ(status_with(Format::kNvfp4, 0x81), PrepareStatus::kNegativeScale);
  EXPECT_EQ(status_with(Format::kMxfp4, 0xff), PrepareStatus::kNanScale);
  EXPECT_EQ(status_with(Format::kMxfp4, 240), PrepareStatus::kScaleSpan);
  Canonical w(Format::kNvfp4, 8, 32, false, 1);
  w.view.n = 4;
  EXPECT_EQ(prepare_weights_host(w.view, nullptr, nullptr, nullptr), PrepareStatus::kBadShape);
  EXPECT_THAT(describe(PrepareStatus::kBadShape), HasSubstr("multiple of 8"));
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
