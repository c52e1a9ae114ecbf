// wgmma (sm_90a) with more kinds of operands than wgmma.cuh has, as attention needs them: A from shared memory too, B
// also with its N dimension contiguous, and E4M3 operands. FP32 accumulators in the layout of wgmma.cuh.
//
//   function      A (64 rows)                        B (kN columns)                      k of one instruction
//   bf16_ss       shared memory, K-major             K-major                             16
//   bf16_rs_mn    four bf16x2 registers, m64k16      N contiguous ("MN-major")           16
//   e4m3_ss       shared memory, K-major             K-major                             32
//   e4m3_rs       four registers of four, m64k32     K-major                             32
//
// Registers of A: thread t of the warpgroup holds rows r = 16*(t/32) + (t%32)/4 and r + 8; with c = t%4, m64k16 is
// {(r, 2c..), (r+8, 2c..), (r, 2c+8..), (r+8, 2c+8..)}, two columns each, and m64k32 {(r, 4c..), (r+8, 4c..),
// (r, 4c+16..), (r+8, 4c+16..)}, four columns each.
#pragma once

#include <cstdint>

#include "kernels/common/cuda/ptx/wgmma.cuh"

namespace pinch::ptx {

// Lower half of the descriptor of an MN-major bf16 tile with 128-byte swizzle: rows of K, each 64 columns (128 bytes);
// columns 64 to 127 are `columns_apart` bytes further (the leading offset). Eight rows are 1024 bytes, as in the upper
// half that wgmma.cuh has, so 16 rows of K further is + 128.
__device__ __forceinline__ uint32_t wgmma_descriptor_mn_swizzle128(uint32_t shared_address, uint32_t columns_apart) {
  return wgmma_descriptor_swizzle128(shared_address) | (columns_apart >> 4) << 16;
}

// D = A * B + (accumulate ? D : 0) for one kN.
template <int kN>
struct Wgmma;

#define PINCH_R0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define PINCH_R1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define PINCH_R2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define PINCH_R3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define PINCH_R4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define PINCH_R5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define PINCH_R6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define PINCH_R7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define PINCH_R8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define PINCH_R9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define PINCH_R10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define PINCH_R11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define PINCH_R12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define PINCH_R13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define PINCH_R14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define PINCH_R15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define PINCH_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define PINCH_D8(i) PINCH_D4(i), PINCH_D4(i + 4)
#define PINCH_D16(i) PINCH_D8(i), PINCH_D8(i + 8)
#define PINCH_D32(i) PINCH_D16(i), PINCH_D16(i + 16)
#define PINCH_D64(i) PINCH_D32(i), PINCH_D32(i + 32)
#define PINCH_WGMMA_SS(FUNCTION, SHAPE, TYPES, MAJOR, D_NAMES, A, B, SCALE, UPPER, ...)                               \
  static __device__ __forceinline__ void FUNCTION(float(&d)[kAccumulators], uint32_t a, uint32_t b, int accumulate) { \
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, " SCALE ", 0; mov.b64 x, {" A ", " UPPER             \
                 "}; mov.b64 y, {" B ", " UPPER "};\nwgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES " {" D_NAMES  \
                 "}, x, y, p, 1, 1" MAJOR "; }"                                                                       \
                 : __VA_ARGS__                                                                                        \
                 : "r"(a), "r"(b), "r"(accumulate), "n"(kWgmmaDescriptorUpper));                                      \
  }
#define PINCH_WGMMA_RS(FUNCTION, SHAPE, TYPES, MAJOR, D_NAMES, A, B, SCALE, UPPER, ...)                              \
  static __device__ __forceinline__ void FUNCTION(float(&d)[kAccumulators], const uint32_t(&a)[4], uint32_t b,       \
                                                  int accumulate) {                                                  \
    asm volatile("{ .reg .pred p; .reg .b64 y; setp.ne.b32 p, " SCALE ", 0; mov.b64 y, {" B ", " UPPER               \
                 "};\nwgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES " {" D_NAMES "}, {" A "}, y, p, 1, 1" MAJOR \
                 "; }"                                                                                               \
                 : __VA_ARGS__                                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(accumulate), "n"(kWgmmaDescriptorUpper)); \
  }

template <>
struct Wgmma<64> {
  static constexpr int kAccumulators = 32;
  PINCH_WGMMA_SS(bf16_ss, "m64n64k16", "bf16.bf16", ", 0, 0", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3, "%32",
                 "%33", "%34", "%35", PINCH_D32(0))
  PINCH_WGMMA_SS(e4m3_ss, "m64n64k32", "e4m3.e4m3", "", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3, "%32",
                 "%33", "%34", "%35", PINCH_D32(0))
  PINCH_WGMMA_RS(bf16_rs_mn, "m64n64k16", "bf16.bf16", ", 1", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3,
                 "%32, %33, %34, %35", "%36", "%37", "%38", PINCH_D32(0))
  PINCH_WGMMA_RS(e4m3_rs, "m64n64k32", "e4m3.e4m3", "", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3,
                 "%32, %33, %34, %35", "%36", "%37", "%38", PINCH_D32(0))
};

template <>
struct Wgmma<80> {
  static constexpr int kAccumulators = 40;
  PINCH_WGMMA_SS(bf16_ss, "m64n80k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4, "%40", "%41", "%42", "%43",
                 PINCH_D32(0), PINCH_D8(32))
};

template <>
struct Wgmma<96> {
  static constexpr int kAccumulators = 48;
  PINCH_WGMMA_SS(bf16_ss, "m64n96k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5, "%48", "%49", "%50",
                 "%51", PINCH_D32(0), PINCH_D16(32))
};

template <>
struct Wgmma<112> {
  static constexpr int kAccumulators = 56;
  PINCH_WGMMA_SS(bf16_ss, "m64n112k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6, "%56",
                 "%57", "%58", "%59", PINCH_D32(0), PINCH_D16(32), PINCH_D8(48))
};

template <>
struct Wgmma<128> {
  static constexpr int kAccumulators = 64;
  PINCH_WGMMA_SS(bf16_ss, "m64n128k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7,
                 "%64", "%65", "%66", "%67", PINCH_D64(0))
  PINCH_WGMMA_SS(e4m3_ss, "m64n128k32", "e4m3.e4m3", "",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7,
                 "%64", "%65", "%66", "%67", PINCH_D64(0))
  PINCH_WGMMA_RS(bf16_rs_mn, "m64n128k16", "bf16.bf16", ", 1",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7,
                 "%64, %65, %66, %67", "%68", "%69", "%70", PINCH_D64(0))
  PINCH_WGMMA_RS(e4m3_rs, "m64n128k32", "e4m3.e4m3", "",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7,
                 "%64, %65, %66, %67", "%68", "%69", "%70", PINCH_D64(0))
};

template <>
struct Wgmma<144> {
  static constexpr int kAccumulators = 72;
  PINCH_WGMMA_SS(bf16_ss, "m64n144k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7 ", " PINCH_R8,
                 "%72", "%73", "%74", "%75", PINCH_D64(0), PINCH_D8(64))
};

template <>
struct Wgmma<160> {
  static constexpr int kAccumulators = 80;
  PINCH_WGMMA_SS(bf16_ss, "m64n160k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9,
                 "%80", "%81", "%82", "%83", PINCH_D64(0), PINCH_D16(64))
};

template <>
struct Wgmma<176> {
  static constexpr int kAccumulators = 88;
  PINCH_WGMMA_SS(bf16_ss, "m64n176k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10,
                 "%88", "%89", "%90", "%91", PINCH_D64(0), PINCH_D16(64), PINCH_D8(80))
};

template <>
struct Wgmma<192> {
  static constexpr int kAccumulators = 96;
  PINCH_WGMMA_SS(bf16_ss, "m64n192k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11,
                 "%96", "%97", "%98", "%99", PINCH_D64(0), PINCH_D32(64))
};

template <>
struct Wgmma<208> {
  static constexpr int kAccumulators = 104;
  PINCH_WGMMA_SS(bf16_ss, "m64n208k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11 ", " PINCH_R12,
                 "%104", "%105", "%106", "%107", PINCH_D64(0), PINCH_D32(64), PINCH_D8(96))
};

template <>
struct Wgmma<224> {
  static constexpr int kAccumulators = 112;
  PINCH_WGMMA_SS(bf16_ss, "m64n224k16", "bf16.bf16", ", 0, 0",
                 PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                          ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11 ", " PINCH_R12
                          ", " PINCH_R13,
                 "%112", "%113", "%114", "%115", PINCH_D64(0), PINCH_D32(64), PINCH_D16(96))
};

#undef PINCH_WGMMA_SS
#undef PINCH_WGMMA_RS
#undef PINCH_D4
#undef PINCH_D8
#undef PINCH_D16
#undef PINCH_D32
#undef PINCH_D64
#undef PINCH_R0
#undef PINCH_R1
#undef PINCH_R2
#undef PINCH_R3
#undef PINCH_R4
#undef PINCH_R5
#undef PINCH_R6
#undef PINCH_R7
#undef PINCH_R8
#undef PINCH_R9
#undef PINCH_R10
#undef PINCH_R11
#undef PINCH_R12
#undef PINCH_R13
#undef PINCH_R14
#undef PINCH_R15

}  // namespace pinch::ptx
