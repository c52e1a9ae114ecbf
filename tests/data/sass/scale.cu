// The contents of the containers scale.*: one loop with one exponential.
extern "C" __global__ void scale(const float* in, float* out, int n, float c) {
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(in[i] * c));
    out[i] = e;
  }
}
