#include "kernels/gemm_bf16_fp4/sm90/prepare.h"

#include <cstring>

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

PrepareReport inspect(const CanonicalWeights& w) {
  PrepareReport r{0, 0, -1, 256};
  const int groups = w.k / group_size(w.format);
  for (int row = 0; row < w.n; ++row) {
    for (int group = 0; group < groups; ++group) {
      const std::uint32_t s = canonical_scale(w, row, group);
      if (w.format == Format::kNvfp4) {
        if ((s & 0x7fu) == 0x7fu) {
          ++r.nan_scales;
        } else if (s > 0x80u) {
          ++r.negative_scales;
        }
      } else if (s == 0xffu) {
        ++r.nan_scales;
      } else if (!group_is_zero(w, row, group)) {
        const auto e = static_cast<std::int32_t>(s);
        if (e > r.max_ue8m0) r.max_ue8m0 = e;
        if (e < r.min_ue8m0) r.min_ue8m0 = e;
      }
    }
  }
  return r;
}

}  // namespace

PrepareStatus prepare_weights_host(const CanonicalWeights& w, std::uint8_t* codes, std::uint8_t* scales,
                                   PrepareReport* report) {
  if (!prepare_shape_ok(w.n, w.k)) return PrepareStatus::kBadShape;
  *report = inspect(w);
  const PrepareStatus status = prepare_status(w.format, *report);
  if (status != PrepareStatus::kOk) return status;
  const PreparedExtent e = prepared_extent(w.format, w.n, w.k);
  const int scale_words = scale_tile_bytes(w.format) / 4;
  for (int row_tile = 0; row_tile < e.row_tiles; ++row_tile) {
    for (int col_tile = 0; col_tile < e.col_tiles; ++col_tile) {
      for (int thread = 0; thread < 128; ++thread) {
        for (int block = 0; block < 4; ++block) {
          const std::uint32_t word = prepared_code_word(w, row_tile, col_tile, thread, block);
          std::memcpy(codes, &word, 4);
          codes += 4;
        }
      }
      for (int i = 0; i < scale_words; ++i) {
        const std::uint32_t word = prepared_scale_word(w, row_tile, col_tile, i, report->max_ue8m0);
        std::memcpy(scales, &word, 4);
        scales += 4;
      }
    }
  }
  return PrepareStatus::kOk;
}

void unprepare_weights_host(Format f, int n, int k, const std::uint8_t* codes, const std::uint8_t* scales,
                            int max_ue8m0, std::uint8_t* canonical_codes, std::uint8_t* canonical_scales) {
  const int col_tiles = prepared_extent(f, n, k).col_tiles;
  const int groups = k / group_size(f), per_tile = kTileCols / group_size(f);
  for (int row = 0; row < n; ++row) {
    for (int col = 0; col < k; ++col) {
      const CodePlace p = code_place(row, col, col_tiles);
      std::uint32_t word;
      std::memcpy(&word, codes + p.word_offset_bytes, 4);
      std::uint8_t eight[8];
      unpack_word(word, eight);
      const std::uint32_t code = eight[2 * p.a + p.h];
      std::uint8_t& byte = canonical_codes[static_cast<std::size_t>(row) * static_cast<std::size_t>(k / 2) +
                                           static_cast<std::size_t>(col / 2)];
      byte = static_cast<std::uint8_t>(col % 2 ? (byte & 15u) | code << 4 : code);
    }
    for (int group = 0; group < groups; ++group) {
      std::uint32_t word;
      std::memcpy(&word, scales + scale_word_offset_bytes(f, row, group, col_tiles), 4);
      const std::uint32_t byte = extract_scale(f, word, group % per_tile, row % 16 >= 8);
      const std::uint32_t scale = f == Format::kNvfp4 ? e4m3_from_e5m3(byte)
                                  : byte == 0         ? static_cast<std::uint32_t>(max_ue8m0 < 0 ? 127 : max_ue8m0)
                                                      : byte + static_cast<std::uint32_t>(max_ue8m0) - 254u;
      canonical_scales[static_cast<std::size_t>(row) * static_cast<std::size_t>(groups) +
                       static_cast<std::size_t>(group)] = static_cast<std::uint8_t>(scale);
    }
  }
}

}  // namespace pinch::gemm_bf16_fp4::sm90
