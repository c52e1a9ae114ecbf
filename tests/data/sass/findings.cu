// Code beside the findings: what each must report, and what looks like it and must be left alone. Built by build.sh.
extern "C" {

#define PINCH_PACK(out, x, y) \
  asm("{ .reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h, %1, %2; cvt.u32.u16 %0, h; }" : "=r"(out) : "f"(x), "f"(y))

// The permute takes one byte of each pack: the masks before it clear what nothing reads.
__global__ void mask_unread(const float4* in, unsigned* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    const float4 v = in[i];
    unsigned low, high, both;
    PINCH_PACK(low, v.x, v.y);
    PINCH_PACK(high, v.z, v.w);
    low &= 0xff;
    high &= 0xff;
    asm("prmt.b32 %0, %1, %2, 0x4040;" : "=r"(both) : "r"(low), "r"(high));
    out[i] = both;
  }
}

// The permute takes two bytes of each pack, and the mask clears one of them.
__global__ void mask_read(const float4* in, unsigned* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    const float4 v = in[i];
    unsigned low, high, both;
    PINCH_PACK(low, v.x, v.y);
    PINCH_PACK(high, v.z, v.w);
    low &= 0xff;
    high &= 0xff;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(both) : "r"(low), "r"(high));
    out[i] = both;
  }
}

// A byte is stored of a pack that cvt.u32.u16 masks to 16 bits.
__global__ void mask_stored(const float2* in, unsigned char* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    const float2 v = in[i];
    unsigned packed;
    PINCH_PACK(packed, v.x, v.y);
    out[i] = packed;
  }
}

// Words of one address that are not neighbours, and neighbours of two addresses.
__global__ void loads_apart(const float* a, const float* b, float* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) out[i] = a[8 * i] + a[8 * i + 2] + b[8 * i + 1] + b[8 * i + 5];
}

// A comparison with -126 that guards no exponential.
__global__ void exp_compared(const float* in, float* out, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(in[i]));
    out[i] = in[i] < -126.0f ? 0.0f : e;
  }
}

// Quotients of integers that no shift gives.
__global__ void integer_division(const unsigned* in, unsigned* out, int n, unsigned by) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 128) out[i] = in[i] / (by + i);
}

}  // extern "C"
