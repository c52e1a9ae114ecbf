// The marks of pinch/trace.cuh in the library's own kernels. A shipped instance defines no PINCH_TRACE_LEVEL: there
// every mark is nothing and no header is read. An instance that `pinch trace` compiles defines it.
#pragma once

#ifdef PINCH_TRACE_LEVEL
#include "pinch/trace.cuh"
#else
#define PINCH_TRACE_SCOPE() static_cast<void>(0)
#define PINCH_TRACE_SCOPE_LATER() static_cast<void>(0)
#define PINCH_TRACE_ENTER() static_cast<void>(0)
#define PINCH_TRACE_PARAMETER
#define PINCH_TRACE_PASSED
#define PINCH_TRACE_MEMBER
#define PINCH_TRACE_NOW(moment) static_cast<void>(0)
#define PINCH_TRACE_RENEW(moment) static_cast<void>(0)
#define PINCH_TRACE_ROW(row) static_cast<void>(0)
#define PINCH_TRACE_KEEP(row, step, moment) static_cast<void>(0)
#define PINCH_TRACE_STEPS_OF(row, role, low, high) static_cast<void>(0)
#define PINCH_TRACE_WAITS_OF(begin_row, end_row, what, low, high) static_cast<void>(0)
#define PINCH_TRACE_STEP_AT(moment, role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT_AT(begin, end, what) static_cast<void>(0)
#define PINCH_TRACE_STEP(role, step) static_cast<void>(0)
#define PINCH_TRACE_WAIT(what) static_cast<void>(0)
#define PINCH_TRACE_PHASE(name) static_cast<void>(0)
#endif

namespace pinch {

#if defined(PINCH_TRACE_LEVEL) && PINCH_TRACE_LEVEL >= 1
inline constexpr bool kTraced = true;
#else
inline constexpr bool kTraced = false;
#endif

}  // namespace pinch
