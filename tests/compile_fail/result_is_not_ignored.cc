// Refused with: ignoring return.*nodiscard
#include "pinch/fp4.h"

void quantize(std::span<const float> w) {
#ifndef PINCH_FAULT
  const auto matrix =
#endif
      pinch::quantize_fp4(w, 1, 16, pinch::Fp4Format::kNvfp4);
#ifndef PINCH_FAULT
  (void)matrix;
#endif
}
