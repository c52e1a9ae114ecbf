// Refused with: deleted
#include "pinch/gemm.h"

pinch::PreparedWeights keep(pinch::PreparedWeights& weights) {
#ifdef PINCH_FAULT
  return weights;  // hundreds of MB by accident
#else
  return std::move(weights);
#endif
}
