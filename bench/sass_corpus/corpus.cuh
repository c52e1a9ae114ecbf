// What every kernel of the corpus shares: where its time is taken and how its results are kept alive.
#pragma once

#include <cuda_runtime.h>

struct WarpSpan {
  long long begin, end;  // clock64 of the SM
};

#define CORPUS_PARAMETERS int iterations, float fa, float fb, unsigned ua, unsigned ub, unsigned *sink, WarpSpan *spans

// Matrix without swizzle, 128 bytes a core matrix, at `offset` bytes of shared memory.
__device__ inline unsigned long long wgmma_descriptor(unsigned offset) {
  return ((offset >> 4) & 0x3fffull) | (8ull << 16) | (16ull << 32);
}

// Values of the chains depend on the thread, so that nothing of them is uniform or known to the compiler.
#define CORPUS_PROLOGUE                                                                                      \
  __shared__ unsigned shared_words[4096];                                                                    \
  const unsigned shared_base = static_cast<unsigned>(__cvta_generic_to_shared(shared_words));                \
  if (threadIdx.x < 32) shared_words[threadIdx.x] = shared_base + 4 * threadIdx.x;                           \
  const unsigned seed_u = threadIdx.x * ua + blockIdx.x;                                                     \
  const float seed_f = static_cast<float>(threadIdx.x) * fa;                                                 \
  const unsigned uc = ua ^ threadIdx.x, ud = ub ^ threadIdx.x, ue = ua + threadIdx.x, uf = ub + threadIdx.x; \
  unsigned sum = uc + ud + ue + uf + seed_u + __float_as_uint(seed_f)

#define CORPUS_BEGIN \
  __syncthreads();   \
  const long long begin = clock64()

#define CORPUS_END const long long end = clock64()

#define CORPUS_EPILOGUE                \
  if (sum == 0x7fffffffu) *sink = sum; \
  if ((threadIdx.x & 31) == 0 && blockIdx.x == 0) spans[threadIdx.x >> 5] = {begin, end}
