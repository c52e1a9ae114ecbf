// Refused with: narrow
#include "pinch/formats.h"

pinch::Bf16 encode(float value) {
#ifdef PINCH_FAULT
  return pinch::Bf16{value};  // would be the integer part as bits
#else
  return pinch::to_bf16(value);
#endif
}
