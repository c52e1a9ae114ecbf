// wgmma (sm_90a): asynchronous warpgroup matrix multiply, bf16 operands, FP32 accumulators, A in registers.
//
// Shapes: A is 64 x 16 (four bf16x2 registers a thread), B is N x 16, K-major in shared memory behind a matrix
// descriptor, D is 64 x N: thread t of the warpgroup holds rows 16*(t/32) + (t%32)/4 and that + 8, and columns
// 8*j + 2*(t%4) + {0, 1}, in the order d[4*j + 2*(row >= 8) + column].
#pragma once

#include <cstdint>

namespace pinch::ptx {

// Orders the warpgroup's earlier register accesses before the wgmma that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending of the newest groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Descriptor of a K-major bf16 tile with 128-byte swizzle: rows of 128 bytes, atoms of 8 rows (1024 bytes, aligned to
// 1024). Its lower half is the address >> 4 (one k16 step further is 32 bytes, that is + 2); the upper half is
// constant, so the instruction below takes the lower half only. PTX ISA, "Matrix descriptor": address >> 4 in bits
// 0-13, leading offset in 16-29 (unused with a swizzle), stride between atoms >> 4 in 32-45, swizzle mode in 62-63 (1 =
// 128 bytes).
__device__ __forceinline__ uint32_t wgmma_descriptor_swizzle128(uint32_t shared_address) {
  return (shared_address & 0x3FFFF) >> 4;
}
inline constexpr uint32_t kWgmmaDescriptorUpper = (1u << 30) | (1024u >> 4);

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
#define PINCH_WGMMA(N, D_NAMES, A0, A1, A2, A3, DESC, SCALE, UPPER, ...)                                             \
  asm volatile("{ .reg .pred p; .reg .b64 b; setp.ne.b32 p, " SCALE ", 0; mov.b64 b, {" DESC ", " UPPER              \
               "};\n"                                                                                                \
               "wgmma.mma_async.sync.aligned.m64n" N "k16.f32.bf16.bf16 {" D_NAMES "}, {" A0 ", " A1 ", " A2 ", " A3 \
               "}, b, p, 1, 1, 0; }\n"                                                                               \
               : __VA_ARGS__                                                                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(descriptor_b), "r"(accumulate),                     \
                 "n"(kWgmmaDescriptorUpper))

// D = A * B + (accumulate ? D : 0). kN is the number of B's rows, one of the widths below.
template <int kN>
__device__ __forceinline__ void wgmma_mma_async_bf16(float (&d)[kN / 2], const uint32_t (&a)[4], uint32_t descriptor_b,
                                                     int accumulate) {
  if constexpr (kN == 8) {
    PINCH_WGMMA("8", "%0, %1, %2, %3", "%4", "%5", "%6", "%7", "%8", "%9", "%10", PINCH_D4(0));
  } else if constexpr (kN == 16) {
    PINCH_WGMMA("16", PINCH_R0, "%8", "%9", "%10", "%11", "%12", "%13", "%14", PINCH_D8(0));
  } else if constexpr (kN == 32) {
    PINCH_WGMMA("32", PINCH_R0 ", " PINCH_R1, "%16", "%17", "%18", "%19", "%20", "%21", "%22", PINCH_D16(0));
  } else if constexpr (kN == 48) {
    PINCH_WGMMA("48", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2, "%24", "%25", "%26", "%27", "%28", "%29", "%30",
                PINCH_D16(0), PINCH_D8(16));
  } else if constexpr (kN == 64) {
    PINCH_WGMMA("64", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3, "%32", "%33", "%34", "%35", "%36", "%37",
                "%38", PINCH_D32(0));
  } else if constexpr (kN == 80) {
    PINCH_WGMMA("80", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4, "%40", "%41", "%42", "%43",
                "%44", "%45", "%46", PINCH_D32(0), PINCH_D8(32));
  } else if constexpr (kN == 96) {
    PINCH_WGMMA("96", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5, "%48", "%49",
                "%50", "%51", "%52", "%53", "%54", PINCH_D32(0), PINCH_D16(32));
  } else if constexpr (kN == 112) {
    PINCH_WGMMA("112", PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6,
                "%56", "%57", "%58", "%59", "%60", "%61", "%62", PINCH_D32(0), PINCH_D16(32), PINCH_D8(48));
  } else if constexpr (kN == 128) {
    PINCH_WGMMA("128",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7,
                "%64", "%65", "%66", "%67", "%68", "%69", "%70", PINCH_D64(0));
  } else if constexpr (kN == 144) {
    PINCH_WGMMA("144",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8,
                "%72", "%73", "%74", "%75", "%76", "%77", "%78", PINCH_D64(0), PINCH_D8(64));
  } else if constexpr (kN == 160) {
    PINCH_WGMMA("160",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9,
                "%80", "%81", "%82", "%83", "%84", "%85", "%86", PINCH_D64(0), PINCH_D16(64));
  } else if constexpr (kN == 176) {
    PINCH_WGMMA("176",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10,
                "%88", "%89", "%90", "%91", "%92", "%93", "%94", PINCH_D64(0), PINCH_D16(64), PINCH_D8(80));
  } else if constexpr (kN == 192) {
    PINCH_WGMMA("192",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11,
                "%96", "%97", "%98", "%99", "%100", "%101", "%102", PINCH_D64(0), PINCH_D32(64));
  } else if constexpr (kN == 208) {
    PINCH_WGMMA("208",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11 ", " PINCH_R12,
                "%104", "%105", "%106", "%107", "%108", "%109", "%110", PINCH_D64(0), PINCH_D32(64), PINCH_D8(96));
  } else if constexpr (kN == 224) {
    PINCH_WGMMA("224",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11 ", " PINCH_R12
                         ", " PINCH_R13,
                "%112", "%113", "%114", "%115", "%116", "%117", "%118", PINCH_D64(0), PINCH_D32(64), PINCH_D16(96));
  } else if constexpr (kN == 240) {
    PINCH_WGMMA("240",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11 ", " PINCH_R12
                         ", " PINCH_R13 ", " PINCH_R14,
                "%120", "%121", "%122", "%123", "%124", "%125", "%126", PINCH_D64(0), PINCH_D32(64), PINCH_D16(96),
                PINCH_D8(112));
  } else if constexpr (kN == 256) {
    PINCH_WGMMA("256",
                PINCH_R0 ", " PINCH_R1 ", " PINCH_R2 ", " PINCH_R3 ", " PINCH_R4 ", " PINCH_R5 ", " PINCH_R6
                         ", " PINCH_R7 ", " PINCH_R8 ", " PINCH_R9 ", " PINCH_R10 ", " PINCH_R11 ", " PINCH_R12
                         ", " PINCH_R13 ", " PINCH_R14 ", " PINCH_R15,
                "%128", "%129", "%130", "%131", "%132", "%133", "%134", PINCH_D64(0), PINCH_D64(64));
  } else {
    static_assert(kN == 8, "wgmma width not listed: 8 or a multiple of 16 up to 256");
  }
}

#undef PINCH_WGMMA
#undef PINCH_D64
#undef PINCH_D32
#undef PINCH_D16
#undef PINCH_D8
#undef PINCH_D4
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
