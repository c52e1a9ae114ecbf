// What a user of the installed library writes first: quantise, read a weight back, multiply, choose a tactic.
#include <cstdio>
#include <vector>

#include "every_header.h"

namespace {

int fail(const pinch::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main() {
  const std::vector<float> w(8 * 32, 1.5F);
  const auto matrix = pinch::quantize_fp4(w, 8, 32, pinch::Fp4Format::kNvfp4);
  if (!matrix.ok()) return fail(matrix.error());
  if (const auto valid = pinch::validate(matrix->view()); !valid.ok()) return fail(valid.error());
  std::vector<float> row(32);
  pinch::dequantize_row(matrix->view(), 7, row);
  if (row[31] < 1.49F || row[31] > 1.51F) return fail({pinch::ErrorCode::kCorrupt, "a weight of 1.5 changed", ""});

  const auto prepared = pinch::prepare_weights(matrix->view());
  if (!prepared.ok()) return fail(prepared.error());
  const std::vector<pinch::Bf16> a(32, pinch::to_bf16(1.0F));
  std::vector<float> out(8);
  const auto product =
      pinch::mm_bf16_fp4(*prepared, a.data(), 32, 1, out.data(), 8, {.output = pinch::OutputType::kF32});
  if (!product.ok()) return fail(product.error());
  if (out[7] < 47.9F || out[7] > 48.1F) return fail({pinch::ErrorCode::kCorrupt, "32 * 1.5 is not 48", ""});

  const auto family = pinch::find_tactic_family("sm100");
  if (!family.ok()) return fail(family.error());
  const auto tactic = pinch::default_tactic(**family, {.m = 8, .n = 4096, .k = 4096}, {.sm_count = 148, .threads = 0});
  if (!tactic.ok()) return fail(tactic.error());
  std::printf("pinch %s: %s\n", std::string(pinch::version()).c_str(), (*family)->to_string(tactic->index).c_str());
  return 0;
}
