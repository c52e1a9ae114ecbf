// Refused with: ignoring return.*nodiscard
#include "pinch/fp4.h"

void check(const pinch::Fp4View& weights) {
#ifndef PINCH_FAULT
  (void)
#endif
      pinch::validate(weights);
}
