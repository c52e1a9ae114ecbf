/* The C interface on a device, from C: a product (prepare there, plan, clear, run, read back), and attention. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinch/pinch.h"

enum { kN = 64, kK = 64, kM = 5, kSkipped = 77 };

#define REQUIRE(condition)                                                                                \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, pinch_last_error()); \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)

static void* upload(const void* bytes, size_t count) {
  void* memory = NULL;
  REQUIRE(cudaMalloc(&memory, count) == cudaSuccess);
  REQUIRE(cudaMemcpy(memory, bytes, count, cudaMemcpyHostToDevice) == cudaSuccess);
  return memory;
}

/* All scores are 0, so that every query averages the values, which are 1 to 5 in all columns. */
static void attention(cudaStream_t stream) {
  enum { kHeads = 2, kSeq = 3, kKeys = 5, kDim = 64 };
  static uint16_t q[kHeads * kSeq * kDim], k[kKeys * kDim], v[kKeys * kDim];
  static const uint16_t one_to_five[kKeys] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0};
  static float o[kHeads * kSeq * kDim];
  const pinch_attention problem = {1,        kHeads, 1, kSeq, kKeys, kDim, 0, PINCH_BF16_PRODUCT, PINCH_BF16_PRODUCT,
                                   PINCH_F32};
  pinch_attention_arrays arrays;
  pinch_cuda_attention_plan* plan = NULL;
  void* workspace = NULL;
  size_t bytes;
  int i;
  for (i = 0; i < kKeys * kDim; ++i) v[i] = one_to_five[i / kDim];
  memset(&arrays, 0, sizeof arrays);
  arrays.q.data = upload(q, sizeof q);
  arrays.k.data = upload(k, sizeof k);
  arrays.v.data = upload(v, sizeof v);
  arrays.o.data = upload(o, sizeof o);
  arrays.q.head_stride = arrays.o.head_stride = kSeq * kDim;
  arrays.q.row_stride = arrays.k.row_stride = arrays.v.row_stride = arrays.o.row_stride = kDim;
  arrays.scale = 0.125f;
  REQUIRE(pinch_cuda_attention_plan_create(&problem, 0, NULL, &plan) == PINCH_OK);
  bytes = pinch_cuda_attention_plan_workspace_bytes(plan);
  if (bytes > 0) REQUIRE(cudaMalloc(&workspace, bytes) == cudaSuccess);
  REQUIRE(pinch_cuda_clear_workspace(workspace, bytes, 0, stream) == PINCH_OK);
  REQUIRE(pinch_cuda_attention_run(plan, &arrays, workspace, bytes, stream) == PINCH_OK);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaMemcpy(o, arrays.o.data, sizeof o, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (i = 0; i < kHeads * kSeq * kDim; ++i) REQUIRE(fabsf(o[i] - 3.0f) < 1e-4f);
  arrays.k.data = k;
  REQUIRE(pinch_cuda_attention_run(plan, &arrays, workspace, bytes, stream) == PINCH_INVALID_ARGUMENT);
  REQUIRE(strstr(pinch_last_error(), "k: host memory") != NULL);
  printf("ok: %s\n", pinch_cuda_attention_plan_tactic(plan));
  pinch_cuda_attention_plan_destroy(plan);
}

int main(void) {
  static uint8_t codes[kN * kK / 2], scales[kN * kK / 16];
  static uint16_t activations[kM * kK];
  static float out[kM * kN];
  pinch_fp4 weights;
  pinch_cuda_weights* prepared = NULL;
  pinch_cuda_plan* plan = NULL;
  cudaStream_t stream = NULL;
  void *device_a, *device_out, *workspace = NULL;
  size_t bytes;
  int i;
  if (pinch_cuda_available(0) != PINCH_OK) {
    printf("skipped: %s\n", pinch_last_error());
    return kSkipped;
  }
  /* Every weight is 1.5 (code 3) x 2 (E4M3 0x40), every activation 1: a sum is 64 x 3, times alpha. */
  memset(codes, 0x33, sizeof codes);
  memset(scales, 0x40, sizeof scales);
  for (i = 0; i < kM * kK; ++i) activations[i] = 0x3f80;
  weights.format = PINCH_NVFP4;
  weights.scale_layout = PINCH_LINEAR;
  weights.n = kN;
  weights.k = kK;
  weights.codes = (const uint8_t*)upload(codes, sizeof codes);
  weights.scales = (const uint8_t*)upload(scales, sizeof scales);
  weights.alpha = 0.25f;
  device_a = upload(activations, sizeof activations);
  device_out = upload(out, sizeof out);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(pinch_cuda_prepare(&weights, 0, stream, &prepared) == PINCH_OK);
  REQUIRE(pinch_cuda_plan_create(prepared, kM, PINCH_F32, NULL, &plan) == PINCH_OK);
  pinch_cuda_weights_destroy(prepared); /* the plan keeps what it needs */
  bytes = pinch_cuda_plan_workspace_bytes(plan);
  if (bytes > 0) REQUIRE(cudaMalloc(&workspace, bytes) == cudaSuccess);
  REQUIRE(pinch_cuda_clear_workspace(workspace, bytes, 0, stream) == PINCH_OK);
  REQUIRE(pinch_cuda_run(plan, device_a, kK, device_out, kN, workspace, bytes, stream) == PINCH_OK);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost) == cudaSuccess);
  for (i = 0; i < kM * kN; ++i) REQUIRE(fabsf(out[i] - 48.0f) < 1e-4f);
  REQUIRE(pinch_cuda_run(plan, activations, kK, device_out, kN, workspace, bytes, stream) == PINCH_INVALID_ARGUMENT);
  REQUIRE(strstr(pinch_last_error(), "host memory") != NULL);
  printf("ok: %s\n", pinch_cuda_plan_tactic(plan));
  pinch_cuda_plan_destroy(plan);
  attention(stream);
  return 0;
}
