// Products that no iteration executes for certain: each stands behind a branch of its own. Built by build.sh.
extern "C" {

#define PINCH_MMA(d, a, b)                                                                          \
  asm volatile(                                                                                     \
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " \
      "{%0,%1,%2,%3};"                                                                              \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                              \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y))

// Two slots an iteration, of which the last of a row may be empty; a row's end stores the sums. So many products a slot
// that no compiler predicates them.
__global__ void guarded_products(const uint4* __restrict__ in, float* out, int rows, int tiles) {
  float d[4][4] = {};
  int left = tiles;
#pragma unroll 1
  while (rows > 0) {
    const uint4 a = in[0], b = in[1], c = in[2];
    in += 3;
    if (left > 0) {
#pragma unroll
      for (int i = 0; i < 64; ++i) PINCH_MMA(d[i % 4], a, b);
    }
    if (left > 1) {
#pragma unroll
      for (int i = 0; i < 64; ++i) PINCH_MMA(d[i % 4], b, c);
    }
    left -= 2;
    if (left <= 0) {
#pragma unroll
      for (int i = 0; i < 16; ++i) atomicAdd(out + i * 32 + threadIdx.x, d[i / 4][i % 4]);
      left = tiles;
      --rows;
    }
  }
}

// The same with too few registers for what it keeps.
__global__ void __maxnreg__(32) guarded_spill(const float* __restrict__ in, float* out, int n, int tiles) {
  float v[48], d[4] = {};
#pragma unroll
  for (int i = 0; i < 48; ++i) v[i] = in[i * 1024 + threadIdx.x];
#pragma unroll 1
  for (int k = 0; k < n; ++k) {
    const float w = in[k];
#pragma unroll
    for (int i = 0; i < 48; ++i) v[i] = fmaf(v[i], w, v[(i + 7) % 48]);
    if (k % tiles != 0) {
      const uint4 a = reinterpret_cast<const uint4*>(in)[k];
#pragma unroll
      for (int i = 0; i < 16; ++i) PINCH_MMA(d, a, a);
    }
  }
#pragma unroll
  for (int i = 0; i < 48; ++i) out[i * 1024 + threadIdx.x] = v[i] + d[i % 4];
}

}  // extern "C"
