// What this machine can do at most, measured in the same run as what it is compared with: a pure multiply-add loop of
// each instruction set, and pure reading. Their roofline bounds a GEMM's time from below.
#pragma once

#include <cstddef>

#include "pinch/machine.h"
#include "workbench/measure/policy.h"

namespace pinch::measure {

/// Rate of independent multiply-adds in registers: VDPBF16PS, VFMADD231PS on 512 or 256 bits, TDPBF16PS, or scalar
/// multiply and add; two floating-point operations each. The best of several runs of about 2 ms. 0 where the machine
/// lacks the instructions.
double multiply_add_gflops(CpuIsa isa, int threads);

/// Rate of reading `bytes` once a pass with the widest loads, each thread its own contiguous part; the best pass. 10^9
/// bytes a second.
double read_gbps(std::size_t bytes, int threads);

/// Bytes of a set that no cache holds, where the policy names none: twice the last-level cache, at least 64 MiB, at
/// most 1 GiB and a quarter of the memory that is free.
std::size_t cold_set_bytes(const Policy& policy);

/// MemAvailable of the machine; 0 where unknown.
std::size_t available_memory_bytes();

}  // namespace pinch::measure
