#include <new>
#include <optional>
#include <string>
#include <utility>

#include "pinch/attention.h"
#include "pinch/attention_cuda.h"
#include "pinch/gemm.h"
#include "pinch/gemm_cuda.h"
#include "pinch/pinch.h"
#include "pinch/version.h"

struct pinch_weights {
  pinch::PreparedWeights held;
};
struct pinch_plan {
  pinch::GemmPlan held;
  std::string tactic;
};
struct pinch_cuda_image {
  pinch::cuda::HostWeights held;
};
struct pinch_cuda_weights {
  pinch::cuda::PreparedWeights held;
};
struct pinch_cuda_plan {
  pinch::cuda::GemmPlan held;
  std::string tactic;
};
struct pinch_attention_plan {
  pinch::AttentionPlan held;
  std::string tactic;
};
struct pinch_cuda_attention_plan {
  pinch::cuda::AttentionPlan held;
  std::string tactic;
};

namespace {

using pinch::Error;
using pinch::ErrorCode;
using pinch::Result;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

pinch_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return PINCH_INVALID_ARGUMENT;
    case ErrorCode::kIllegal:
      return PINCH_ILLEGAL;
    case ErrorCode::kNotFound:
      return PINCH_NOT_FOUND;
    case ErrorCode::kUnsupported:
      return PINCH_UNSUPPORTED;
    case ErrorCode::kCorrupt:
      return PINCH_CORRUPT;
    case ErrorCode::kIo:
      return PINCH_IO;
    case ErrorCode::kOutOfMemory:
      return PINCH_OUT_OF_MEMORY;
    case ErrorCode::kDevice:
      return PINCH_DEVICE;
    case ErrorCode::kInterrupted:
      return PINCH_INTERNAL;  // nothing here asks whether to stop
  }
  return PINCH_INTERNAL;
}

/// Runs `body`, which returns a Result<void>, and turns whatever becomes of it into a status.
template <class Body>
pinch_status guarded(Body&& body) noexcept {
  try {
    const Result<void> done = std::forward<Body>(body)();
    if (done) return PINCH_OK;
    last_error() = done.error().message();
    return status_of(done.error().code);
  } catch (const std::bad_alloc&) {
    last_error().clear();  // no memory to say more with
    return PINCH_OUT_OF_MEMORY;
  } catch (...) {
    last_error().clear();
    return PINCH_INTERNAL;
  }
}

Error missing(const char* what) {
  return {ErrorCode::kInvalidArgument, "null", what};
}

/// Enums come from C as any number.
template <class Enum>
Result<Enum> enum_of(int value, const char* what) {
  if (value == 0 || value == 1) return static_cast<Enum>(value);
  return Error{ErrorCode::kInvalidArgument, std::to_string(value) + "; give 0 or 1", what};
}

Result<pinch::Fp4View> view_of(const pinch_fp4* weights) {
  if (weights == nullptr) return missing("weights");
  PINCH_ASSIGN(format, enum_of<pinch::Fp4Format>(weights->format, "format"));
  PINCH_ASSIGN(layout, enum_of<pinch::ScaleLayout>(weights->scale_layout, "scale_layout"));
  return pinch::Fp4View{format, weights->n, weights->k, weights->codes, weights->scales, layout, weights->alpha};
}

Result<pinch::AttentionProblem> problem_of(const pinch_attention* p) {
  if (p == nullptr) return missing("problem");
  if (p->pv < 0 || p->pv > 2) {
    return Error{ErrorCode::kInvalidArgument, std::to_string(p->pv) + "; give 0, 1 or 2", "pv"};
  }
  PINCH_ASSIGN(qk, enum_of<pinch::QkType>(p->qk, "qk"));
  PINCH_ASSIGN(output, enum_of<pinch::OutputType>(p->output, "output"));
  return pinch::AttentionProblem{p->batch,  p->heads, p->kv_heads,    p->seq,
                                 p->kv_seq, p->dim,   p->causal != 0, static_cast<pinch::PvType>(p->pv),
                                 qk,        output};
}

template <class T>
pinch::AttentionArray<T> array_from(const pinch_array& array) {
  return {static_cast<T*>(array.data), array.batch_stride, array.head_stride, array.row_stride};
}
pinch::AttentionInputs inputs_of(const pinch_attention_arrays& a, std::int64_t batch) {
  const auto offsets = [&](const std::int32_t* data) {
    return std::span(data, data == nullptr ? 0 : static_cast<std::size_t>(batch + 1));
  };
  return {array_from<const pinch::Bf16>(a.q),
          array_from<const pinch::Bf16>(a.k),
          array_from<const pinch::Bf16>(a.v),
          a.scale,
          offsets(a.cu_seqlens_q),
          offsets(a.cu_seqlens_kv),
          a.total_q,
          a.total_kv};
}
pinch::AttentionOutputs outputs_of(const pinch_attention_arrays& a) {
  return {array_from<void>(a.o), a.lse, a.lse_batch_stride, a.lse_head_stride};
}

/// Hands a value out as a handle.
template <class Handle, class... Parts>
void give(Handle** to, Parts&&... parts) {
  *to = new Handle{std::forward<Parts>(parts)...};
}

std::span<std::byte> bytes_at(void* memory, std::size_t bytes) {
  return {static_cast<std::byte*>(memory), bytes};
}

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

}  // namespace

const char* pinch_status_name(int status) {
  switch (status) {
    case PINCH_OK:
      return "ok";
    case PINCH_INVALID_ARGUMENT:
      return "invalid_argument";
    case PINCH_ILLEGAL:
      return "illegal";
    case PINCH_NOT_FOUND:
      return "not_found";
    case PINCH_UNSUPPORTED:
      return "unsupported";
    case PINCH_CORRUPT:
      return "corrupt";
    case PINCH_IO:
      return "io";
    case PINCH_OUT_OF_MEMORY:
      return "out_of_memory";
    case PINCH_DEVICE:
      return "device";
    case PINCH_INTERNAL:
      return "internal";
  }
  return "unknown";
}

const char* pinch_last_error(void) {
  return last_error().c_str();
}

const char* pinch_version(void) {
  static const std::string text(pinch::version());
  return text.c_str();
}

// ---- on the CPU
// ------------------------------------------------------------------------------------------------------

pinch_status pinch_prepare(const pinch_fp4* weights, pinch_weights** prepared) {
  return guarded([&]() -> Result<void> {
    if (prepared == nullptr) return missing("prepared");
    PINCH_ASSIGN(view, view_of(weights));
    PINCH_ASSIGN(made, pinch::prepare_weights(view));
    give(prepared, std::move(made));
    return {};
  });
}

void pinch_weights_destroy(pinch_weights* weights) {
  delete weights;
}

pinch_status pinch_plan_create(const pinch_weights* weights, int64_t m, int output, const char* tactic, int threads,
                               pinch_plan** plan) {
  return guarded([&]() -> Result<void> {
    if (weights == nullptr) return missing("weights");
    if (plan == nullptr) return missing("plan");
    PINCH_ASSIGN(type, enum_of<pinch::OutputType>(output, "output"));
    PINCH_ASSIGN(made, pinch::plan_gemm(weights->held, m, {text_or_empty(tactic), threads, type}));
    std::string name = made.tactic();
    give(plan, std::move(made), std::move(name));
    return {};
  });
}

void pinch_plan_destroy(pinch_plan* plan) {
  delete plan;
}
size_t pinch_plan_workspace_bytes(const pinch_plan* plan) {
  return plan == nullptr ? 0 : plan->held.workspace_bytes();
}
const char* pinch_plan_tactic(const pinch_plan* plan) {
  return plan == nullptr ? "" : plan->tactic.c_str();
}

pinch_status pinch_run(const pinch_plan* plan, const void* a, int64_t lda, void* out, int64_t ldo, void* workspace,
                       size_t workspace_bytes) {
  return guarded([&]() -> Result<void> {
    if (plan == nullptr) return missing("plan");
    return pinch::run_gemm(plan->held, static_cast<const pinch::Bf16*>(a), lda, out, ldo,
                           bytes_at(workspace, workspace_bytes));
  });
}

// ---- on a CUDA device
// ------------------------------------------------------------------------------------------------

pinch_status pinch_cuda_available(int device) {
  return guarded([&]() -> Result<void> {
    PINCH_TRY(pinch::cuda::gemm_device(device));
    return {};
  });
}

pinch_status pinch_cuda_image_prepare(const pinch_fp4* weights, pinch_cuda_image** image) {
  return guarded([&]() -> Result<void> {
    if (image == nullptr) return missing("image");
    PINCH_ASSIGN(view, view_of(weights));
    PINCH_ASSIGN(made, pinch::cuda::prepare_weights_on_host(view));
    give(image, std::move(made));
    return {};
  });
}

pinch_status pinch_cuda_image_save(const pinch_cuda_image* image, const char* path) {
  return guarded([&]() -> Result<void> {
    if (image == nullptr) return missing("image");
    if (path == nullptr) return missing("path");
    return image->held.save(path);
  });
}

pinch_status pinch_cuda_image_load(const char* path, pinch_cuda_image** image) {
  return guarded([&]() -> Result<void> {
    if (path == nullptr) return missing("path");
    if (image == nullptr) return missing("image");
    PINCH_ASSIGN(made, pinch::cuda::HostWeights::load(path));
    give(image, std::move(made));
    return {};
  });
}

void pinch_cuda_image_destroy(pinch_cuda_image* image) {
  delete image;
}

pinch_status pinch_cuda_image_to_device(const pinch_cuda_image* image, int device, pinch_cuda_weights** prepared) {
  return guarded([&]() -> Result<void> {
    if (image == nullptr) return missing("image");
    if (prepared == nullptr) return missing("prepared");
    PINCH_ASSIGN(made, pinch::cuda::to_device(image->held, device));
    give(prepared, std::move(made));
    return {};
  });
}

pinch_status pinch_cuda_prepare(const pinch_fp4* weights, int device, void* stream, pinch_cuda_weights** prepared) {
  return guarded([&]() -> Result<void> {
    if (prepared == nullptr) return missing("prepared");
    PINCH_ASSIGN(view, view_of(weights));
    PINCH_ASSIGN(made, pinch::cuda::prepare_weights(view, device, stream));
    give(prepared, std::move(made));
    return {};
  });
}

void pinch_cuda_weights_destroy(pinch_cuda_weights* weights) {
  delete weights;
}

pinch_status pinch_cuda_plan_create(const pinch_cuda_weights* weights, int64_t m, int output, const char* tactic,
                                    pinch_cuda_plan** plan) {
  return guarded([&]() -> Result<void> {
    if (weights == nullptr) return missing("weights");
    if (plan == nullptr) return missing("plan");
    PINCH_ASSIGN(type, enum_of<pinch::OutputType>(output, "output"));
    PINCH_ASSIGN(made, pinch::cuda::plan_gemm(weights->held, m, {text_or_empty(tactic), type}));
    std::string name = made.tactic();
    give(plan, std::move(made), std::move(name));
    return {};
  });
}

void pinch_cuda_plan_destroy(pinch_cuda_plan* plan) {
  delete plan;
}
size_t pinch_cuda_plan_workspace_bytes(const pinch_cuda_plan* plan) {
  return plan == nullptr ? 0 : plan->held.workspace_bytes();
}
const char* pinch_cuda_plan_tactic(const pinch_cuda_plan* plan) {
  return plan == nullptr ? "" : plan->tactic.c_str();
}

pinch_status pinch_cuda_clear_workspace(void* workspace, size_t workspace_bytes, int device, void* stream) {
  return guarded([&]() { return pinch::cuda::clear_workspace(bytes_at(workspace, workspace_bytes), device, stream); });
}

pinch_status pinch_cuda_run(const pinch_cuda_plan* plan, const void* a, int64_t lda, void* out, int64_t ldo,
                            void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&]() -> Result<void> {
    if (plan == nullptr) return missing("plan");
    return pinch::cuda::run_gemm(plan->held, static_cast<const pinch::Bf16*>(a), lda, out, ldo,
                                 bytes_at(workspace, workspace_bytes), stream);
  });
}

// ---- attention
// -------------------------------------------------------------------------------------------------------

pinch_status pinch_attention_plan_create(const pinch_attention* problem, const char* tactic, int threads,
                                         pinch_attention_plan** plan) {
  return guarded([&]() -> Result<void> {
    if (plan == nullptr) return missing("plan");
    PINCH_ASSIGN(asked, problem_of(problem));
    PINCH_ASSIGN(made, pinch::plan_attention(asked, {text_or_empty(tactic), threads}));
    std::string name = made.tactic();
    give(plan, std::move(made), std::move(name));
    return {};
  });
}

void pinch_attention_plan_destroy(pinch_attention_plan* plan) {
  delete plan;
}
size_t pinch_attention_plan_workspace_bytes(const pinch_attention_plan* plan) {
  return plan == nullptr ? 0 : plan->held.workspace_bytes();
}
const char* pinch_attention_plan_tactic(const pinch_attention_plan* plan) {
  return plan == nullptr ? "" : plan->tactic.c_str();
}

pinch_status pinch_attention_run(const pinch_attention_plan* plan, const pinch_attention_arrays* arrays,
                                 void* workspace, size_t workspace_bytes) {
  return guarded([&]() -> Result<void> {
    if (plan == nullptr) return missing("plan");
    if (arrays == nullptr) return missing("arrays");
    return pinch::run_attention(plan->held, inputs_of(*arrays, plan->held.problem().batch), outputs_of(*arrays),
                                bytes_at(workspace, workspace_bytes));
  });
}

pinch_status pinch_cuda_attention_plan_create(const pinch_attention* problem, int device, const char* tactic,
                                              pinch_cuda_attention_plan** plan) {
  return guarded([&]() -> Result<void> {
    if (plan == nullptr) return missing("plan");
    PINCH_ASSIGN(asked, problem_of(problem));
    PINCH_ASSIGN(made, pinch::cuda::plan_attention(asked, device, {text_or_empty(tactic)}));
    std::string name = made.tactic();
    give(plan, std::move(made), std::move(name));
    return {};
  });
}

void pinch_cuda_attention_plan_destroy(pinch_cuda_attention_plan* plan) {
  delete plan;
}
size_t pinch_cuda_attention_plan_workspace_bytes(const pinch_cuda_attention_plan* plan) {
  return plan == nullptr ? 0 : plan->held.workspace_bytes();
}
const char* pinch_cuda_attention_plan_tactic(const pinch_cuda_attention_plan* plan) {
  return plan == nullptr ? "" : plan->tactic.c_str();
}

pinch_status pinch_cuda_attention_run(const pinch_cuda_attention_plan* plan, const pinch_attention_arrays* arrays,
                                      void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&]() -> Result<void> {
    if (plan == nullptr) return missing("plan");
    if (arrays == nullptr) return missing("arrays");
    return pinch::cuda::run_attention(plan->held, inputs_of(*arrays, plan->held.problem().batch), outputs_of(*arrays),
                                      bytes_at(workspace, workspace_bytes), stream);
  });
}
