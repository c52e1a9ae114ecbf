// The prepared layout of the sm_90 kernels on the host: bit placement, decoding, round trips and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gemm_bf16_fp4/sm90/prepare.h"

namespace pinch::gemm_bf16_fp4::sm90 {
namespace {

double bf16(std::uint32_t half) {
  const std::uint32_t bits = half << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return static_cast<double>(value);
}

double e2m1(std::uint32_t code) {
  constexpr double kMagnitude[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -kMagnitude[code & 7] : kMagnitude[code & 7];
}

struct Matrix {
  std::vector<std::uint8_t> codes, scales;
  CanonicalWeights view;
  Matrix(Format f, int n, int k, unsigned seed) {
    std::mt19937 rng(seed);
    codes.resize(static_cast<std::size_t>(n) * static_cast<std::size_t>(k / 2));
    for (auto& c : codes) c = static_cast<std::uint8_t>(rng() >> 8);
    scales.resize(static_cast<std::size_t>(n) * static_cast<std::size_t>(k / group_size(f)));
    for (auto& s : scales) s = static_cast<std::uint8_t>(f == Format::kNvfp4 ? rng() % 0x7f : 100 + rng() % 100);
    view = {codes.data(), scales.data(), n, k, f, false};
  }
};

struct Prepared {
  std::vector<std::uint8_t> codes, scales;
  PrepareReport report{};
  PrepareStatus status;
  explicit Prepared(const CanonicalWeights& w) {
    const PreparedExtent e = prepared_extent(w.format, w.n, w.k);
    codes.resize(e.codes_bytes);
    scales.resize(e.scales_bytes);
    status = prepare_weights_host(w, codes.data(), scales.data(), &report);
  }
};

TEST(PreparedWeights, WordsRoundTripAndDecodeToTheCodesValues) {
  std::mt19937 rng(1);
  for (int i = 0; i < 20000; ++i) {
    std::uint8_t codes[8], back[8];
    for (auto& c : codes) c = static_cast<std::uint8_t>(rng() % 16);
    const std::uint32_t word = pack_word(codes);
    unpack_word(word, back);
    ASSERT_EQ(std::memcmp(codes, back, 8), 0);
    const Fragment f = decode_word(word);
    for (int a = 0; a < 4; ++a)
      for (int h = 0; h < 2; ++h) {
        const double value = std::ldexp(bf16(f.a[a] >> (16 * h) & 0xffffu), 126);
        ASSERT_EQ(value, e2m1(codes[2 * a + h]));
        ASSERT_EQ(std::signbit(value), codes[2 * a + h] >= 8);
      }
  }
}

TEST(PreparedWeights, EveryE4m3ScaleDecodesExactlyAndComesBack) {
  for (std::uint32_t s = 1; s < 0x7f; ++s) {
    const double value = s >> 3 ? std::ldexp(8 + (s & 7), static_cast<int>(s >> 3) - 10) : std::ldexp(s, -9);
    const std::uint32_t byte = e5m3_from_e4m3(s);
    EXPECT_EQ(e4m3_from_e5m3(byte), s);
    for (int group = 0; group < 4; ++group)
      for (int upper = 0; upper < 2; ++upper) {
        const std::uint32_t word = place_scale(Format::kNvfp4, byte, group, upper != 0);
        const std::uint32_t half = decode_scale_pair(Format::kNvfp4, word, group) >> (16 * upper) & 0xffffu;
        EXPECT_EQ(std::ldexp(bf16(half), -119), value);
      }
  }
  EXPECT_EQ(e5m3_from_e4m3(0), 0u);
}

TEST(PreparedWeights, PreparingIsUndoneByUnpreparing) {
  for (Format f : {Format::kNvfp4, Format::kMxfp4}) {
    for (const auto& [n, k] : {std::pair{8, 32}, {72, 96}, {64, 64}, {136, 160}}) {
      Matrix m(f, n, k, 7);
      const Prepared p(m.view);
      ASSERT_EQ(p.status, PrepareStatus::kOk);
      std::vector<std::uint8_t> codes(m.codes.size()), scales(m.scales.size());
      unprepare_weights_host(f, n, k, p.codes.data(), p.scales.data(), p.report.max_ue8m0, codes.data(), scales.data());
      EXPECT_EQ(scales, m.scales);
      for (int row = 0; row < n; ++row)
        for (int col = 0; col < k; ++col) {
          const auto at =
              static_cast<std::size_t>(row) * static_cast<std::size_t>(k / 2) + static_cast<std::size_t>(col / 2);
          ASSERT_EQ(codes[at] >> (col % 2 * 4) & 15u, stored_code(m.view, row, col));
        }
    }
  }
}

TEST(PreparedWeights, SwizzledScalesGiveTheSameBytes) {
  Matrix m(Format::kNvfp4, 136, 160, 3);
  const int groups = 10, padded = 12;
  std::vector<std::uint8_t> swizzled(256 * padded);
  for (int row = 0; row < 136; ++row)
    for (int g = 0; g < groups; ++g)
      swizzled[swizzled_scale_offset(row, g, padded)] = m.scales[static_cast<std::size_t>(row * groups + g)];
  CanonicalWeights w = m.view;
  w.scales = swizzled.data();
  w.swizzled_scales = true;
  const Prepared a(m.view), b(w);
  EXPECT_EQ(a.codes, b.codes);
  EXPECT_EQ(a.scales, b.scales);
}

TEST(PreparedWeights, ZeroScalesClearTheirCodes) {
  Matrix m(Format::kNvfp4, 8, 32, 3);
  for (auto& c : m.codes) c = 0x7f;
  m.scales[0] = 0;
  EXPECT_EQ(stored_code(m.view, 0, 0), 8u);
  EXPECT_EQ(stored_code(m.view, 0, 1), 0u);
  EXPECT_EQ(stored_code(m.view, 0, 16), 15u);
}

TEST(PreparedWeights, RefusesNanNegativeAndTooWideScalesByName) {
  Matrix nv(Format::kNvfp4, 8, 32, 3);
  nv.scales[3] = 0x7f;
  EXPECT_EQ(Prepared(nv.view).status, PrepareStatus::kNanScale);
  nv.scales[3] = 0x81;
  EXPECT_EQ(Prepared(nv.view).status, PrepareStatus::kNegativeScale);
  nv.scales[3] = 0x80;
  EXPECT_EQ(Prepared(nv.view).status, PrepareStatus::kOk);
  Matrix mx(Format::kMxfp4, 8, 32, 3);
  mx.scales[1] = 0xff;
  EXPECT_EQ(Prepared(mx.view).status, PrepareStatus::kNanScale);
  mx.scales[1] = 10;
  mx.scales[2] = 131;
  EXPECT_EQ(Prepared(mx.view).status, PrepareStatus::kScaleSpan);
  for (int i = 0; i < 16; ++i)
    mx.codes[static_cast<std::size_t>(16 + i)] = 0x80;  // row 1 is all zeros: its scale is idle
  EXPECT_EQ(Prepared(mx.view).status, PrepareStatus::kOk);
}

}  // namespace
}  // namespace pinch::gemm_bf16_fp4::sm90
