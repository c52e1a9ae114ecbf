// The handoff of P from softmax to its product with V, in the order in which the sm_90a attention kernel issues it, on
// a CPU: which part of P is written when the product's first part is issued is decided by the kernel's own handoff().
//
//   handoff TILE_KV CHUNKS NUMERATOR DENOMINATOR WRITTEN READ
//
// writes O to $PINCH_OUTPUTS/o.bin, FP32 [16, 64]. WRITTEN and READ are what the caller takes the handoff to be: the
// program refuses to run where handoff() says otherwise. With PINCH_POISON, P holds NaN where nothing was written.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/sm90/tactic.h"

namespace {

namespace attention = pinch::attention;
using attention::sm90::Handoff;

constexpr int kRows = 16, kDim = 64, kTiles = 4, kStep = 16;  // keys of a k step, pv = bf16

/// Scores and values between -2 and 2, the same in every run.
float value_at(unsigned place) {
  place = (place ^ place >> 16) * 0x45d9f3bU;
  return static_cast<float>((place ^ place >> 16) & 0xffffU) / 16384.0F - 2.0F;
}

class Attention {
 public:
  Attention(int tile_kv, int chunks, const Handoff& handoff)
      : tile_kv_(tile_kv),
        chunks_(chunks),
        handoff_(handoff),
        p_(static_cast<std::size_t>(kRows * tile_kv)),
        o_(kRows * kDim) {}

  std::vector<float> run(bool poison) {
    for (int tile = 0; tile < kTiles; ++tile) {
      if (poison) p_.assign(p_.size(), std::numeric_limits<float>::quiet_NaN());
      const int steps_a_chunk = handoff_.steps / chunks_, released = handoff_.written / steps_a_chunk;
      for (int chunk = 0; chunk < released; ++chunk) softmax(tile, chunk);
      product(tile, 0, handoff_.read);
      for (int chunk = released; chunk < chunks_; ++chunk) softmax(tile, chunk);
      product(tile, handoff_.read, handoff_.steps);
    }
    for (int row = 0; row < kRows; ++row) {
      for (int c = 0; c < kDim; ++c) o_[static_cast<std::size_t>(row * kDim + c)] /= sum_[row];
    }
    return o_;
  }

 private:
  /// Scores stay below 2, so that no maximum is subtracted.
  void softmax(int tile, int chunk) {
    const int keys = tile_kv_ / chunks_;
    for (int row = 0; row < kRows; ++row) {
      for (int key = chunk * keys; key < (chunk + 1) * keys; ++key) {
        const float p = attention::exp2_poly<5>(value_at(static_cast<unsigned>((tile * tile_kv_ + key) * kRows + row)));
        p_[static_cast<std::size_t>(row * tile_kv_ + key)] = p;
        sum_[row] += p;
      }
    }
  }

  void product(int tile, int first_step, int last_step) {
    for (int key = first_step * kStep; key < last_step * kStep; ++key) {
      for (int row = 0; row < kRows; ++row) {
        const float p = p_[static_cast<std::size_t>(row * tile_kv_ + key)];
        for (int c = 0; c < kDim; ++c) {
          const float v = value_at(0x10000U + static_cast<unsigned>((tile * tile_kv_ + key) * kDim + c));
          o_[static_cast<std::size_t>(row * kDim + c)] += p * v;
        }
      }
    }
  }

  int tile_kv_, chunks_;
  Handoff handoff_;
  std::vector<float> p_, o_;  // [rows, tile_kv], [rows, dim]
  float sum_[kRows] = {};
};

}  // namespace

int main(int argc, char** argv) {
  const char* folder = std::getenv("PINCH_OUTPUTS");
  if (argc != 7 || folder == nullptr) {
    std::fprintf(stderr, "usage: handoff TILE_KV CHUNKS NUMERATOR DENOMINATOR WRITTEN READ, with PINCH_OUTPUTS\n");
    return 2;
  }
  int given[6];
  for (int i = 0; i < 6; ++i) given[i] = std::atoi(argv[i + 1]);
  const attention::sm90::Tile tile{
      .tile_kv = given[0], .split_numerator = given[2], .split_denominator = given[3], .chunks = given[1]};
  const Handoff handoff = attention::sm90::handoff(tile, pinch::PvType::kBf16);
  if (handoff.written != given[4] || handoff.read != given[5]) {
    std::fprintf(stderr, "handoff() says %d written and %d read of %d steps; %d and %d were given\n", handoff.written,
                 handoff.read, handoff.steps, given[4], given[5]);
    return 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<float> o =
      Attention(tile.tile_kv, tile.chunks, handoff).run(std::getenv("PINCH_POISON") != nullptr);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  std::ofstream file(std::string(folder) + "/o.bin", std::ios::binary);
  file.write(reinterpret_cast<const char*>(o.data()), static_cast<std::streamsize>(o.size() * sizeof(float)));
  if (!file.flush()) return 3;
  std::printf("{\"us\": %.3f, \"steps\": %d, \"written\": %d, \"read\": %d}\n", took.count(), handoff.steps,
              handoff.written, handoff.read);
}
