// What this CPU can do at most, measured by loops that do nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pinch/machine.h"

namespace pinch::bench {

/// Runs independent chains of the instruction set's widest multiply-add, from registers, on every thread. Returns the
/// floating-point operations done (2 a multiply-add). kScalar: SSE2 multiplies and adds, what portable C++ becomes.
double multiply_add_flops(CpuIsa isa, int threads);

/// Reads every line of the buffer once, each thread a contiguous part, prefetched as the kernels do; returns the bytes.
double read_bytes(std::span<const std::byte> buffer, int threads);

}  // namespace pinch::bench
