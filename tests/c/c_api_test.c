/* The C interface, from C: a product and attention on the CPU, errors with their words, weights for a device prepared,
 * saved and loaded, and what the functions of a device say where there is none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinch/pinch.h"

static int failures = 0;

#define CHECK(condition)                                                                                  \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      ++failures;                                                                                         \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, pinch_last_error()); \
    }                                                                                                     \
  } while (0)

enum { kN = 16, kK = 32, kM = 3 };

/* Every weight is 1.5 (code 3) x 2 (E4M3 0x40), every activation 1: a sum is 32 x 3, times alpha. */
static uint8_t codes[kN * kK / 2];
static uint8_t scales[kN * kK / 16];
static uint16_t activations[kM * kK];

static pinch_fp4 make_weights(void) {
  pinch_fp4 weights;
  memset(codes, 0x33, sizeof codes);
  memset(scales, 0x40, sizeof scales);
  weights.format = PINCH_NVFP4;
  weights.scale_layout = PINCH_LINEAR;
  weights.n = kN;
  weights.k = kK;
  weights.codes = codes;
  weights.scales = scales;
  weights.alpha = 0.25f;
  return weights;
}

static void product_on_the_cpu(void) {
  const pinch_fp4 weights = make_weights();
  pinch_weights* prepared = NULL;
  pinch_plan* plan = NULL;
  float out[kM * kN];
  void* workspace = NULL;
  size_t bytes;
  int i;
  for (i = 0; i < kM * kK; ++i) activations[i] = 0x3f80;
  CHECK(pinch_prepare(&weights, &prepared) == PINCH_OK);
  CHECK(pinch_plan_create(prepared, kM, PINCH_F32, NULL, 1, &plan) == PINCH_OK);
  pinch_weights_destroy(prepared); /* the plan keeps what it needs */
  bytes = (pinch_plan_workspace_bytes(plan) + 63) / 64 * 64;
  workspace = aligned_alloc(64, bytes + 64);
  CHECK(workspace != NULL);
  CHECK(strlen(pinch_plan_tactic(plan)) > 0);
  CHECK(pinch_run(plan, activations, kK, out, kN, workspace, bytes) == PINCH_OK);
  for (i = 0; i < kM * kN; ++i) CHECK(fabsf(out[i] - 24.0f) < 1e-4f);

  CHECK(pinch_run(plan, NULL, kK, out, kN, workspace, bytes) == PINCH_INVALID_ARGUMENT);
  CHECK(strstr(pinch_last_error(), "null") != NULL);
  CHECK(pinch_run(plan, activations, kK - 1, out, kN, workspace, bytes) == PINCH_INVALID_ARGUMENT);
  CHECK(strstr(pinch_last_error(), "lda") != NULL);
  CHECK(pinch_run(NULL, activations, kK, out, kN, workspace, bytes) == PINCH_INVALID_ARGUMENT);
  free(workspace);
  pinch_plan_destroy(plan);
}

static void errors_have_words(void) {
  pinch_fp4 weights = make_weights();
  pinch_weights* prepared = NULL;
  pinch_plan* plan = NULL;
  CHECK(pinch_prepare(&weights, NULL) == PINCH_INVALID_ARGUMENT);
  CHECK(pinch_prepare(NULL, &prepared) == PINCH_INVALID_ARGUMENT);
  CHECK(prepared == NULL);
  weights.format = 7;
  CHECK(pinch_prepare(&weights, &prepared) == PINCH_INVALID_ARGUMENT);
  CHECK(strstr(pinch_last_error(), "format: 7") != NULL);
  weights.format = PINCH_NVFP4;
  scales[5] = 0x7f;
  CHECK(pinch_prepare(&weights, &prepared) == PINCH_CORRUPT);
  scales[5] = 0x40;
  CHECK(pinch_prepare(&weights, &prepared) == PINCH_OK);
  CHECK(pinch_plan_create(prepared, 0, PINCH_BF16, NULL, 0, &plan) == PINCH_INVALID_ARGUMENT);
  CHECK(pinch_plan_create(prepared, 1, PINCH_BF16, "no_such_tactic", 0, &plan) == PINCH_NOT_FOUND);
  CHECK(strstr(pinch_last_error(), "no_such_tactic") != NULL);
  CHECK(plan == NULL);
  pinch_weights_destroy(prepared);
  pinch_weights_destroy(NULL);
  pinch_plan_destroy(NULL);
  CHECK(strcmp(pinch_status_name(PINCH_CORRUPT), "corrupt") == 0);
  CHECK(strcmp(pinch_status_name(99), "unknown") == 0);
  CHECK(strlen(pinch_version()) > 0);
}

static void weights_for_a_device(const char* path) {
  pinch_fp4 weights = make_weights();
  pinch_cuda_image *image = NULL, *loaded = NULL;
  pinch_cuda_weights* on_device = NULL;
  FILE* file;
  CHECK(pinch_cuda_image_prepare(&weights, &image) == PINCH_OK);
  CHECK(pinch_cuda_image_save(image, path) == PINCH_OK);
  CHECK(pinch_cuda_image_load(path, &loaded) == PINCH_OK);
  CHECK(pinch_cuda_image_save(image, "/no/such/folder/file") != PINCH_OK);
  CHECK(strstr(pinch_last_error(), "/no/such/folder/file") != NULL);
  if (pinch_cuda_available(0) == PINCH_OK) {
    CHECK(pinch_cuda_image_to_device(loaded, 0, &on_device) == PINCH_OK);
    pinch_cuda_weights_destroy(on_device);
  } else {
    CHECK(strlen(pinch_last_error()) > 0);
    CHECK(pinch_cuda_image_to_device(loaded, 0, &on_device) == PINCH_UNSUPPORTED);
    CHECK(pinch_cuda_prepare(&weights, 0, NULL, &on_device) == PINCH_UNSUPPORTED);
    CHECK(on_device == NULL);
  }
  pinch_cuda_image_destroy(loaded);
  pinch_cuda_image_destroy(image);
  file = fopen(path, "r+b");
  CHECK(file != NULL && fputc('X', file) == 'X' && fclose(file) == 0);
  loaded = NULL;
  CHECK(pinch_cuda_image_load(path, &loaded) == PINCH_CORRUPT);
  CHECK(loaded == NULL);
  remove(path);
  CHECK(pinch_cuda_image_load(path, &loaded) == PINCH_NOT_FOUND);
  CHECK(pinch_cuda_run(NULL, activations, kK, codes, kN, NULL, 0, NULL) == PINCH_INVALID_ARGUMENT);
}

enum { kHeads = 2, kSeq = 3, kKeys = 5, kDim = 64 };

/* All scores are 0, so that every query averages the values, which are 1 to 5 in all columns. */
static void attention_on_the_cpu(void) {
  static uint16_t q[kHeads * kSeq * kDim], k[kKeys * kDim], v[kKeys * kDim];
  static const uint16_t one_to_five[kKeys] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0};
  static float o[kHeads * kSeq * kDim], lse[kHeads * kSeq];
  pinch_attention problem = {1, kHeads, 1, kSeq, kKeys, kDim, 0, PINCH_BF16_PRODUCT, PINCH_BF16_PRODUCT, PINCH_F32};
  pinch_attention_arrays arrays;
  pinch_attention_plan* plan = NULL;
  pinch_cuda_attention_plan* cuda_plan = NULL;
  void* workspace;
  size_t bytes;
  int i;
  for (i = 0; i < kKeys * kDim; ++i) v[i] = one_to_five[i / kDim];
  memset(&arrays, 0, sizeof arrays);
  arrays.q.data = q;
  arrays.k.data = k;
  arrays.v.data = v;
  arrays.o.data = o;
  arrays.q.head_stride = arrays.o.head_stride = kSeq * kDim;
  arrays.q.row_stride = arrays.k.row_stride = arrays.v.row_stride = arrays.o.row_stride = kDim;
  arrays.scale = 0.125f;
  arrays.lse = lse;
  arrays.lse_head_stride = kSeq;
  CHECK(pinch_attention_plan_create(&problem, NULL, 1, &plan) == PINCH_OK);
  CHECK(strlen(pinch_attention_plan_tactic(plan)) > 0);
  bytes = (pinch_attention_plan_workspace_bytes(plan) + 63) / 64 * 64;
  workspace = aligned_alloc(64, bytes + 64);
  CHECK(workspace != NULL);
  CHECK(pinch_attention_run(plan, &arrays, workspace, bytes) == PINCH_OK);
  for (i = 0; i < kHeads * kSeq * kDim; ++i) CHECK(fabsf(o[i] - 3.0f) < 1e-4f);
  for (i = 0; i < kHeads * kSeq; ++i) CHECK(fabsf(lse[i] - logf(5.0f)) < 1e-4f);

  arrays.k.data = NULL;
  CHECK(pinch_attention_run(plan, &arrays, workspace, bytes) == PINCH_INVALID_ARGUMENT);
  CHECK(strstr(pinch_last_error(), "k: null") != NULL);
  CHECK(pinch_attention_run(plan, NULL, workspace, bytes) == PINCH_INVALID_ARGUMENT);
  CHECK(pinch_attention_run(NULL, &arrays, workspace, bytes) == PINCH_INVALID_ARGUMENT);
  CHECK(pinch_cuda_attention_run(NULL, &arrays, workspace, bytes, NULL) == PINCH_INVALID_ARGUMENT);
  free(workspace);
  pinch_attention_plan_destroy(plan);
  plan = NULL;
  problem.pv = 7;
  CHECK(pinch_attention_plan_create(&problem, NULL, 1, &plan) == PINCH_INVALID_ARGUMENT);
  CHECK(strstr(pinch_last_error(), "pv: 7") != NULL);
  problem.pv = PINCH_NVFP4_PRODUCT;
  problem.dim = 96;
  CHECK(pinch_attention_plan_create(&problem, NULL, 1, &plan) == PINCH_INVALID_ARGUMENT);
  CHECK(strstr(pinch_last_error(), "dim") != NULL);
  CHECK(pinch_cuda_attention_plan_create(&problem, 0, NULL, &cuda_plan) == PINCH_INVALID_ARGUMENT);
  CHECK(pinch_attention_plan_create(NULL, NULL, 1, &plan) == PINCH_INVALID_ARGUMENT);
  CHECK(plan == NULL && cuda_plan == NULL);
  problem.dim = kDim;
  if (pinch_cuda_available(0) != PINCH_OK)
    CHECK(pinch_cuda_attention_plan_create(&problem, 0, NULL, &cuda_plan) == PINCH_UNSUPPORTED);
  pinch_cuda_attention_plan_destroy(cuda_plan);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: c_api_test FILE (which it writes and removes)\n");
    return 2;
  }
  product_on_the_cpu();
  attention_on_the_cpu();
  errors_have_words();
  weights_for_a_device(argv[1]);
  if (failures == 0) puts("ok");
  return failures != 0;
}
