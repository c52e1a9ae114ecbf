// A loop with every mark. Compiled twice at level 0, with the marks and without (PINCH_NO_MARKS), it is the same code.
#ifndef PINCH_NO_MARKS
#include "pinch/trace.h"
#else
#define PINCH_TRACE_SCOPE() static_cast<void>(0)
#define PINCH_TRACE_STEP(role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT(what) static_cast<void>(0)
#define PINCH_TRACE_PHASE(name) static_cast<void>(0)
#endif

extern "C" float work(const float* in, int count) {
  float sum = 0;
  PINCH_TRACE_SCOPE();
  for (int i = 0; i < count; ++i) {
    PINCH_TRACE_STEP(0, i);
    {
      PINCH_TRACE_WAIT(1);
      sum += in[i];
    }
    PINCH_TRACE_PHASE(2);
    sum *= 1.5F;
  }
  return sum;
}
