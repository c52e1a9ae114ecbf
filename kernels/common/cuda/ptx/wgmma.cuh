// wgmma (sm_90a): asynchronous warpgroup matrix multiply, D = A * B + (accumulate ? D : 0), FP32 accumulators.
//
//   Wgmma<kN>::    A (64 rows)                        B (kN columns), shared memory      k of one instruction
//   bf16_rs        four bf16x2 registers, m64k16      K-major                            16
//   bf16_rs_mn     the same                           N contiguous ("MN-major")          16
//   bf16_ss        shared memory, K-major             K-major                            16
//   e4m3_rs        four registers of four, m64k32     K-major                            32
//   e4m3_ss        shared memory, K-major             K-major                            32
//
// D is 64 x kN: thread t of the warpgroup holds rows 16*(t/32) + (t%32)/4 and that + 8, and columns 8*j + 2*(t%4) +
// {0, 1}, in the order d[4*j + 2*(row >= 8) + column].
// Registers of A: the rows r and r + 8 are the same; with c = t%4, m64k16 is {(r, 2c..), (r+8, 2c..), (r, 2c+8..),
// (r+8, 2c+8..)}, two columns each, and m64k32 {(r, 4c..), (r+8, 4c..), (r, 4c+16..), (r+8, 4c+16..)}, four each.
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

// Descriptor of a K-major tile with 128-byte swizzle: rows of 128 bytes, atoms of 8 rows (1024 bytes, aligned to
// 1024). Its lower half is the address >> 4 (one step of k further is 32 bytes, that is + 2); the upper half is
// constant, so the instructions below take lower halves only. PTX ISA, "Matrix descriptor": address >> 4 in bits
// 0-13, leading offset in 16-29 (unused with a swizzle), stride between atoms >> 4 in 32-45, swizzle mode in 62-63 (1 =
// 128 bytes).
__device__ __forceinline__ uint32_t wgmma_descriptor_swizzle128(uint32_t shared_address) {
  return (shared_address & 0x3FFFF) >> 4;
}
inline constexpr uint32_t kWgmmaDescriptorUpper = (1u << 30) | (1024u >> 4);

// The same of an MN-major bf16 tile: rows of K, each 64 columns (128 bytes); columns 64 to 127 are `columns_apart`
// bytes further (the leading offset). Eight rows are 1024 bytes, as the upper half has it, so 16 rows of K further is
// + 128.
__device__ __forceinline__ uint32_t wgmma_descriptor_mn_swizzle128(uint32_t shared_address, uint32_t columns_apart) {
  return wgmma_descriptor_swizzle128(shared_address) | (columns_apart >> 4) << 16;
}

// One kN: 8 or a multiple of 16 up to 256.
template <int kN>
struct Wgmma;

// Names and operands of the first so many registers of D.
#define PINCH_NAMES_4 "%0, %1, %2, %3"
#define PINCH_NAMES_8 PINCH_NAMES_4 ", %4, %5, %6, %7"
#define PINCH_NAMES_16 PINCH_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define PINCH_NAMES_24 PINCH_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define PINCH_NAMES_32 PINCH_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define PINCH_NAMES_40 PINCH_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define PINCH_NAMES_48 PINCH_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define PINCH_NAMES_56 PINCH_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define PINCH_NAMES_64 PINCH_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define PINCH_NAMES_72 PINCH_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define PINCH_NAMES_80 PINCH_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define PINCH_NAMES_88 PINCH_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define PINCH_NAMES_96 PINCH_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define PINCH_NAMES_104 PINCH_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define PINCH_NAMES_112 PINCH_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define PINCH_NAMES_120 PINCH_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define PINCH_NAMES_128 PINCH_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define PINCH_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define PINCH_SUMS_4 PINCH_FOUR(0)
#define PINCH_SUMS_8 PINCH_SUMS_4, PINCH_FOUR(4)
#define PINCH_SUMS_16 PINCH_SUMS_8, PINCH_FOUR(8), PINCH_FOUR(12)
#define PINCH_SUMS_24 PINCH_SUMS_16, PINCH_FOUR(16), PINCH_FOUR(20)
#define PINCH_SUMS_32 PINCH_SUMS_24, PINCH_FOUR(24), PINCH_FOUR(28)
#define PINCH_SUMS_40 PINCH_SUMS_32, PINCH_FOUR(32), PINCH_FOUR(36)
#define PINCH_SUMS_48 PINCH_SUMS_40, PINCH_FOUR(40), PINCH_FOUR(44)
#define PINCH_SUMS_56 PINCH_SUMS_48, PINCH_FOUR(48), PINCH_FOUR(52)
#define PINCH_SUMS_64 PINCH_SUMS_56, PINCH_FOUR(56), PINCH_FOUR(60)
#define PINCH_SUMS_72 PINCH_SUMS_64, PINCH_FOUR(64), PINCH_FOUR(68)
#define PINCH_SUMS_80 PINCH_SUMS_72, PINCH_FOUR(72), PINCH_FOUR(76)
#define PINCH_SUMS_88 PINCH_SUMS_80, PINCH_FOUR(80), PINCH_FOUR(84)
#define PINCH_SUMS_96 PINCH_SUMS_88, PINCH_FOUR(88), PINCH_FOUR(92)
#define PINCH_SUMS_104 PINCH_SUMS_96, PINCH_FOUR(96), PINCH_FOUR(100)
#define PINCH_SUMS_112 PINCH_SUMS_104, PINCH_FOUR(104), PINCH_FOUR(108)
#define PINCH_SUMS_120 PINCH_SUMS_112, PINCH_FOUR(112), PINCH_FOUR(116)
#define PINCH_SUMS_128 PINCH_SUMS_120, PINCH_FOUR(120), PINCH_FOUR(124)

// I0 and on: the numbers of the operands after D's.
#define PINCH_WGMMA_SS(FUNCTION, SHAPE, TYPES, MAJOR, SUMS, I0, I1, I2, I3)                                  \
  static __device__ __forceinline__ void FUNCTION(float(&d)[SUMS], uint32_t a, uint32_t b, int accumulate) { \
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, " I2 ", 0; mov.b64 x, {" I0 ", " I3         \
                 "}; mov.b64 y, {" I1 ", " I3 "};\nwgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES        \
                 " {" PINCH_NAMES_##SUMS "}, x, y, p, 1, 1" MAJOR "; }"                                      \
                 : PINCH_SUMS_##SUMS                                                                         \
                 : "r"(a), "r"(b), "r"(accumulate), "n"(kWgmmaDescriptorUpper));                             \
  }
#define PINCH_WGMMA_RS(FUNCTION, SHAPE, TYPES, MAJOR, SUMS, I0, I1, I2, I3, I4, I5, I6)                              \
  static __device__ __forceinline__ void FUNCTION(float(&d)[SUMS], const uint32_t(&a)[4], uint32_t b,                \
                                                  int accumulate) {                                                  \
    asm volatile("{ .reg .pred p; .reg .b64 y; setp.ne.b32 p, " I5 ", 0; mov.b64 y, {" I4 ", " I6                    \
                 "};\nwgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES " {" PINCH_NAMES_##SUMS                     \
                 "}, {" I0 ", " I1 ", " I2 ", " I3 "}, y, p, 1, 1" MAJOR "; }"                                       \
                 : PINCH_SUMS_##SUMS                                                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(accumulate), "n"(kWgmmaDescriptorUpper)); \
  }
#define PINCH_WGMMA(N, SUMS, I0, I1, I2, I3, ...)                                                      \
  template <>                                                                                          \
  struct Wgmma<N> {                                                                                    \
    PINCH_WGMMA_RS(bf16_rs, "m64n" #N "k16", "bf16.bf16", ", 0", SUMS, I0, I1, I2, I3, __VA_ARGS__)    \
    PINCH_WGMMA_RS(bf16_rs_mn, "m64n" #N "k16", "bf16.bf16", ", 1", SUMS, I0, I1, I2, I3, __VA_ARGS__) \
    PINCH_WGMMA_RS(e4m3_rs, "m64n" #N "k32", "e4m3.e4m3", "", SUMS, I0, I1, I2, I3, __VA_ARGS__)       \
    PINCH_WGMMA_SS(bf16_ss, "m64n" #N "k16", "bf16.bf16", ", 0, 0", SUMS, I0, I1, I2, I3)              \
    PINCH_WGMMA_SS(e4m3_ss, "m64n" #N "k32", "e4m3.e4m3", "", SUMS, I0, I1, I2, I3)                    \
  };
PINCH_WGMMA(8, 4, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
PINCH_WGMMA(16, 8, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
PINCH_WGMMA(32, 16, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
PINCH_WGMMA(48, 24, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
PINCH_WGMMA(64, 32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
PINCH_WGMMA(80, 40, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
PINCH_WGMMA(96, 48, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
PINCH_WGMMA(112, 56, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
PINCH_WGMMA(128, 64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
PINCH_WGMMA(144, 72, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
PINCH_WGMMA(160, 80, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
PINCH_WGMMA(176, 88, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
PINCH_WGMMA(192, 96, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
PINCH_WGMMA(208, 104, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
PINCH_WGMMA(224, 112, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
PINCH_WGMMA(240, 120, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
PINCH_WGMMA(256, 128, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#undef PINCH_WGMMA
#undef PINCH_WGMMA_RS
#undef PINCH_WGMMA_SS
#undef PINCH_FOUR
#undef PINCH_SUMS_4
#undef PINCH_SUMS_8
#undef PINCH_SUMS_16
#undef PINCH_SUMS_24
#undef PINCH_SUMS_32
#undef PINCH_SUMS_40
#undef PINCH_SUMS_48
#undef PINCH_SUMS_56
#undef PINCH_SUMS_64
#undef PINCH_SUMS_72
#undef PINCH_SUMS_80
#undef PINCH_SUMS_88
#undef PINCH_SUMS_96
#undef PINCH_SUMS_104
#undef PINCH_SUMS_112
#undef PINCH_SUMS_120
#undef PINCH_SUMS_128
#undef PINCH_NAMES_4
#undef PINCH_NAMES_8
#undef PINCH_NAMES_16
#undef PINCH_NAMES_24
#undef PINCH_NAMES_32
#undef PINCH_NAMES_40
#undef PINCH_NAMES_48
#undef PINCH_NAMES_56
#undef PINCH_NAMES_64
#undef PINCH_NAMES_72
#undef PINCH_NAMES_80
#undef PINCH_NAMES_88
#undef PINCH_NAMES_96
#undef PINCH_NAMES_104
#undef PINCH_NAMES_112
#undef PINCH_NAMES_120
#undef PINCH_NAMES_128

}  // namespace pinch::ptx
