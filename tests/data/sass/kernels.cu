// Kernels whose SASS the tests of `pinch sass` read: each shows one thing that the analysis must find. Built by
// build.sh.
#include <cuda_bf16.h>

#if __CUDA_ARCH__ == 900
#define PINCH_SM90A 1
#endif
#if __CUDA_ARCH__ >= 900
#define PINCH_ASYNC 1
#endif

extern "C" {

// exp2 of a row, packed to bf16, with its running sum: MUFU and F2FP side by side.
__global__ void softmax_loop(const float4* __restrict__ scores, uint2* __restrict__ out, float* sums, int n,
                             float scale, float row_max) {
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    const float4 s = scores[i];
    float p[4] = {s.x, s.y, s.z, s.w};
#pragma unroll
    for (float& x : p) {
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(fmaf(x, scale, -row_max)));
      sum += x;
    }
    uint2 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed.x) : "f"(p[1]), "f"(p[0]));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed.y) : "f"(p[3]), "f"(p[2]));
    out[i] = packed;
  }
  sums[threadIdx.x] = sum;
}

// Eight 4-bit codes a word to bf16 by byte permutes, scaled by HFMA2.
__global__ void dequant_loop(const unsigned* __restrict__ codes, uint4* __restrict__ out, int n, unsigned low_table,
                             unsigned high_table, unsigned scale) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    const unsigned word = codes[i];
    unsigned halves[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      unsigned bytes;
      asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low_table), "r"(high_table), "r"(word >> (8 * j)));
      asm("lop3.b32 %0, %1, 0x80008000, %2, 0xea;" : "=r"(bytes) : "r"(word << j), "r"(bytes));
      asm("fma.rn.bf16x2 %0, %1, %2, %2;" : "=r"(halves[j]) : "r"(bytes), "r"(scale));
    }
    out[i] = {halves[0], halves[1], halves[2], halves[3]};
  }
}

// Four independent m16n8k16 products an iteration.
__global__ void hmma_loop(const uint4* __restrict__ a, const uint2* __restrict__ b, float4* out, int n) {
  const uint4 x = a[threadIdx.x];
  const uint2 y = b[threadIdx.x];
  float d[4][4] = {};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (auto& c : d) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y));
    }
  }
  for (int j = 0; j < 4; ++j) out[4 * threadIdx.x + j] = {d[j][0], d[j][1], d[j][2], d[j][3]};
}

// A run-time index sends the array to local memory although nothing spills.
__global__ void dynamic_array(const int* __restrict__ index, int* out, int n) {
  int bins[32];
  for (int i = 0; i < 32; ++i) bins[i] = out[i];
#pragma unroll 1
  for (int i = 0; i < n; ++i) bins[index[i] & 31] += i;
  for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = bins[i];
}

// More live values than registers: ptxas must spill.
__global__ void __maxnreg__(32) forced_spill(const float* __restrict__ in, float* out, int n) {
  float v[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) v[i] = in[i * 1024 + threadIdx.x];
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    const float w = in[k];
#pragma unroll
    for (int i = 0; i < 48; ++i) v[i] = fmaf(v[i], w, v[(i + 7) % 48]);
  }
#pragma unroll
  for (int i = 0; i < 48; ++i) out[i * 1024 + threadIdx.x] = v[i];
}

// exp2f without ftz: a compare and two multiplies around every MUFU.
__global__ void exp_denormal(const float* __restrict__ in, float* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) out[i] = exp2f(in[i]);
}

__global__ void poly_rolled(const float* __restrict__ in, float* out, int n, float a, float b) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) out[i] = fmaf(fmaf(in[i], a, b), a, b);
}

__global__ void poly_unrolled(const float* __restrict__ in, float* out, float a, float b) {
#pragma unroll
  for (int i = 0; i < 16; ++i) out[threadIdx.x + 128 * i] = fmaf(fmaf(in[threadIdx.x + 128 * i], a, b), a, b);
}

// IEEE division: a reciprocal, its refinement and a call for the rest.
__global__ void division_loop(const float* __restrict__ in, float* out, int n, float by) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) out[i] = in[i] / by;
}

// Four neighbouring words fetched one by one.
__global__ void scalar_loads(const float* in, float* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) out[i] = in[4 * i] + in[4 * i + 1] + in[4 * i + 2] + in[4 * i + 3];
}

// A loop in a loop: depth 2.
__global__ void nested_loops(const float* __restrict__ in, float* out, int n, int m) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < m; ++j) sum = fmaf(in[j], sum, in[i]);
    out[i * blockDim.x + threadIdx.x] = sum;
  }
}

#if PINCH_ASYNC
// An 8-bit pack and the mask that follows it.
__global__ void pack8_loop(const float2* __restrict__ in, unsigned* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    const float2 v = in[i];
    unsigned packed;
    asm("{ .reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h, %1, %2; cvt.u32.u16 %0, h; }"
        : "=r"(packed)
        : "f"(v.x), "f"(v.y));
    out[i] = packed & 0xff;
  }
}

// Producer and consumer warps with their own register counts.
__global__ void __launch_bounds__(384, 1) warp_roles(const float* __restrict__ in, float* out, int n) {
  extern __shared__ float stage[];
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#pragma unroll 1
    for (int i = 0; i < n; ++i) stage[i * 128 + threadIdx.x] = in[i * 128 + threadIdx.x];
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
      const float v = stage[i * 128 + (threadIdx.x & 127)];
      sum = fmaf(v, v, sum);
      sum = fmaf(sum, v, v);
    }
    out[threadIdx.x] = sum;
  }
}
#endif

#if PINCH_SM90A
#define PINCH_WGMMA \
  "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 0;"
#define PINCH_WGMMA_OUT "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])

// Four products, one wait.
__global__ void __launch_bounds__(128) wgmma_loop(unsigned long long a, unsigned long long b, float* out, int n) {
  float d[8] = {};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) asm volatile(PINCH_WGMMA:PINCH_WGMMA_OUT : "l"(a + 2 * k), "l"(b + 2 * k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = d[i];
}

// The same products with a wait after each: serialised.
__global__ void __launch_bounds__(128) wgmma_serial(unsigned long long a, unsigned long long b, float* out, int n) {
  float d[8] = {};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      asm volatile(PINCH_WGMMA:PINCH_WGMMA_OUT : "l"(a + 2 * k), "l"(b + 2 * k));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
  }
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = d[i];
}
#endif

}  // extern "C"
