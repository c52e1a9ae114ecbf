/* The C interface: mm_bf16_fp4 on the CPU (pinch/gemm.h) and on a CUDA device (pinch/gemm_cuda.h), attention forward
 * on both (pinch/attention.h, pinch/attention_cuda.h); those headers document shapes, layouts and errors. C99; the same
 * functions are in every build.
 *
 * A function that can fail returns a pinch_status; pinch_last_error() then has the words. Handles are opaque, belong to
 * the caller until their _destroy, and may be used from any number of threads. Destroying null does nothing. Outputs
 * are written on success alone. No C++ exception leaves a function. */
#ifndef PINCH_PINCH_H
#define PINCH_PINCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pinch_status {
  PINCH_OK = 0,
  PINCH_INVALID_ARGUMENT = 1, /* the caller gave something that can never work */
  PINCH_ILLEGAL = 2,          /* well formed, but refused by a named rule */
  PINCH_NOT_FOUND = 3,        /* a named thing (file, tactic, device) does not exist */
  PINCH_UNSUPPORTED = 4,      /* valid, but this build or machine cannot do it */
  PINCH_CORRUPT = 5,          /* a file or buffer breaks its format */
  PINCH_IO = 6,               /* the operating system refused a read or a write */
  PINCH_OUT_OF_MEMORY = 7,
  PINCH_DEVICE = 8,  /* a device refused or broke off what it was given */
  PINCH_INTERNAL = 9 /* a bug of Pinch */
} pinch_status;

/* "invalid_argument"; "unknown" for a number that is no status. */
const char* pinch_status_name(int status);

/* What the calling thread's last failed call says: what was given, what is allowed, what to do. Empty before the first;
 * valid until the thread's next call. */
const char* pinch_last_error(void);

/* "0.1.0" */
const char* pinch_version(void);

typedef enum pinch_format { PINCH_NVFP4 = 0, PINCH_MXFP4 = 1 } pinch_format;
typedef enum pinch_output { PINCH_BF16 = 0, PINCH_F32 = 1 } pinch_output;
typedef enum pinch_scale_layout { PINCH_LINEAR = 0, PINCH_SWIZZLED_128X4 = 1 } pinch_scale_layout;

/* Weights [n, k] in memory of the caller's: pinch::Fp4View. */
typedef struct pinch_fp4 {
  int format;       /* a pinch_format */
  int scale_layout; /* a pinch_scale_layout */
  int64_t n;
  int64_t k;
  const uint8_t* codes;  /* [n, k / 2], low nibble first */
  const uint8_t* scales; /* an E4M3 scale per 16 columns (NVFP4), a UE8M0 scale per 32 (MXFP4) */
  float alpha;
} pinch_fp4;

/* ---- on the CPU: pinch/gemm.h ---------------------------------------------------------------------------------------
 */

typedef struct pinch_weights pinch_weights;
typedef struct pinch_plan pinch_plan;

pinch_status pinch_prepare(const pinch_fp4* weights, pinch_weights** prepared);
void pinch_weights_destroy(pinch_weights* weights);

/* output: a pinch_output; tactic: a name of the cpu family, or null for its default; threads: 0 for every CPU the
 * process may use. The plan keeps the weights' memory alive. */
pinch_status pinch_plan_create(const pinch_weights* weights, int64_t m, int output, const char* tactic, int threads,
                               pinch_plan** plan);
void pinch_plan_destroy(pinch_plan* plan);
size_t pinch_plan_workspace_bytes(const pinch_plan* plan);
const char* pinch_plan_tactic(const pinch_plan* plan); /* lives as long as the plan */

/* a: [m, k] bf16; out: [m, n]; strides in elements; workspace: aligned to 64 bytes. */
pinch_status pinch_run(const pinch_plan* plan, const void* a, int64_t lda, void* out, int64_t ldo, void* workspace,
                       size_t workspace_bytes);

/* ---- on a CUDA device: pinch/gemm_cuda.h ----------------------------------------------------------------------------
 * * Streams are cudaStream_t or CUstream; null is the device's default stream. */

typedef struct pinch_cuda_image pinch_cuda_image;     /* prepared weights in host memory */
typedef struct pinch_cuda_weights pinch_cuda_weights; /* prepared weights on a device */
typedef struct pinch_cuda_plan pinch_cuda_plan;

/* PINCH_OK where this build has the kernels and the device can run them. */
pinch_status pinch_cuda_available(int device);

/* Prepares weights of host memory; saves, loads and sends them. */
pinch_status pinch_cuda_image_prepare(const pinch_fp4* weights, pinch_cuda_image** image);
pinch_status pinch_cuda_image_save(const pinch_cuda_image* image, const char* path);
pinch_status pinch_cuda_image_load(const char* path, pinch_cuda_image** image);
void pinch_cuda_image_destroy(pinch_cuda_image* image);
pinch_status pinch_cuda_image_to_device(const pinch_cuda_image* image, int device, pinch_cuda_weights** prepared);

/* Prepares weights of the device's memory, and waits for it. */
pinch_status pinch_cuda_prepare(const pinch_fp4* weights, int device, void* stream, pinch_cuda_weights** prepared);
void pinch_cuda_weights_destroy(pinch_cuda_weights* weights);

/* output: a pinch_output; tactic: a name of the sm90 family, or null for its default. */
pinch_status pinch_cuda_plan_create(const pinch_cuda_weights* weights, int64_t m, int output, const char* tactic,
                                    pinch_cuda_plan** plan);
void pinch_cuda_plan_destroy(pinch_cuda_plan* plan);
size_t pinch_cuda_plan_workspace_bytes(const pinch_cuda_plan* plan);
const char* pinch_cuda_plan_tactic(const pinch_cuda_plan* plan);

/* The one write that a workspace needs before its first run, and again after a run that failed. */
pinch_status pinch_cuda_clear_workspace(void* workspace, size_t workspace_bytes, int device, void* stream);

/* Enqueues a run: allocates nothing, waits for nothing, may be captured into a graph. Pointers are the device's,
 * aligned to 16 bytes; strides are multiples of 8 elements. */
pinch_status pinch_cuda_run(const pinch_cuda_plan* plan, const void* a, int64_t lda, void* out, int64_t ldo,
                            void* workspace, size_t workspace_bytes, void* stream);

/* ---- attention forward: pinch/attention.h ---------------------------------------------------------------------------
 */

/* In what the operands of a product enter it: PINCH_NVFP4_PRODUCT of P and V alone. */
typedef enum pinch_product { PINCH_BF16_PRODUCT = 0, PINCH_FP8_PRODUCT = 1, PINCH_NVFP4_PRODUCT = 2 } pinch_product;

/* pinch::AttentionProblem: O = softmax(scale Q K^T + mask) V. */
typedef struct pinch_attention {
  int64_t batch;
  int64_t heads;
  int64_t kv_heads; /* divides heads */
  int64_t seq;      /* queries; of variable lengths the largest */
  int64_t kv_seq;   /* keys, the same */
  int64_t dim;      /* 64 or 128 */
  int causal;       /* 1: the last query sees the last key */
  int pv;           /* a pinch_product */
  int qk;           /* a pinch_product */
  int output;       /* a pinch_output */
} pinch_attention;

/* [batch, heads, rows, dim]: dim is contiguous, strides count elements. */
typedef struct pinch_array {
  void* data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
} pinch_array;

/* pinch::AttentionInputs and pinch::AttentionOutputs. */
typedef struct pinch_attention_arrays {
  pinch_array q; /* bf16, not written */
  pinch_array k; /* bf16, not written */
  pinch_array v; /* bf16, not written */
  pinch_array o; /* bf16 or float, as planned */
  float scale;
  const int32_t* cu_seqlens_q;  /* batch + 1 offsets where lengths vary, else null */
  const int32_t* cu_seqlens_kv; /* the same */
  int64_t total_q;              /* the last of them, where a device holds them */
  int64_t total_kv;
  float* lse; /* [batch, heads, seq] natural log-sum-exp, or null */
  int64_t lse_batch_stride;
  int64_t lse_head_stride;
} pinch_attention_arrays;

typedef struct pinch_attention_plan pinch_attention_plan;

/* tactic: a name of the cpu_attention family, or null for its default; threads: 0 for every CPU the process may use. */
pinch_status pinch_attention_plan_create(const pinch_attention* problem, const char* tactic, int threads,
                                         pinch_attention_plan** plan);
void pinch_attention_plan_destroy(pinch_attention_plan* plan);
size_t pinch_attention_plan_workspace_bytes(const pinch_attention_plan* plan);
const char* pinch_attention_plan_tactic(const pinch_attention_plan* plan); /* lives as long as the plan */

/* workspace: aligned to 64 bytes. */
pinch_status pinch_attention_run(const pinch_attention_plan* plan, const pinch_attention_arrays* arrays,
                                 void* workspace, size_t workspace_bytes);

/* ---- the same on a CUDA device: pinch/attention_cuda.h --------------------------------------------------------------
 */

typedef struct pinch_cuda_attention_plan pinch_cuda_attention_plan;

/* tactic: a name of the sm90_attention family, or null for its default. */
pinch_status pinch_cuda_attention_plan_create(const pinch_attention* problem, int device, const char* tactic,
                                              pinch_cuda_attention_plan** plan);
void pinch_cuda_attention_plan_destroy(pinch_cuda_attention_plan* plan);
size_t pinch_cuda_attention_plan_workspace_bytes(const pinch_cuda_attention_plan* plan);
const char* pinch_cuda_attention_plan_tactic(const pinch_cuda_attention_plan* plan);

/* Enqueues a run: allocates nothing, waits for nothing, may be captured into a graph. Pointers are the device's,
 * aligned to 16 bytes; strides are multiples of 8 elements. The workspace was cleared once by
 * pinch_cuda_clear_workspace. */
pinch_status pinch_cuda_attention_run(const pinch_cuda_attention_plan* plan, const pinch_attention_arrays* arrays,
                                      void* workspace, size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* PINCH_PINCH_H */
