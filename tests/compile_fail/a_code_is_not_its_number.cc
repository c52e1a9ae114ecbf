// Refused with: no matching function
#include "pinch/formats.h"

float decode(std::uint8_t byte) {
#ifdef PINCH_FAULT
  return pinch::to_f32(byte);  // of which format?
#else
  return pinch::to_f32(pinch::E4m3{byte});
#endif
}
