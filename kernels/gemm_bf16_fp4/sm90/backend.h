// The CUDA side of the front door, without a CUDA type: what src/ops/gemm_cuda.cc asks of it. backend.cu is it;
// backend_absent.cc stands in for it in a build without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/gemm_bf16_fp4/sm90/prepare.h"
#include "kernels/gemm_bf16_fp4/sm90/tactics.h"
#include "pinch/gemm_problem.h"
#include "pinch/result.h"

namespace pinch::gemm_bf16_fp4::sm90 {

/// Empty where the kernels are there; else why not.
std::string_view backend_absent();

/// "13.0"; empty where there is none.
std::string_view backend_toolkit();

/// PINCH_TRACE_LEVEL that the CUDA sources of this build were compiled with, attention's among them.
int backend_trace_level();

/// What launches must know about a device of compute capability 9.0. Asked once a device and process, from any thread.
Result<const Device*> launch_device(int ordinal);

/// Memory of a device, freed with its last owner. Errors: kOutOfMemory, kDevice.
Result<std::shared_ptr<std::byte>> allocate(int device, std::size_t bytes);
Result<void> copy_to_device(int device, std::byte* to, std::span<const std::byte> from);
Result<void> copy_to_host(int device, std::span<std::byte> to, const std::byte* from);

/// Zeros that a stream writes.
Result<void> enqueue_zeros(int device, std::byte* to, std::size_t bytes, void* stream);

/// Whether a device's kernels may use the memory: allocated on it, or managed. Errors: kInvalidArgument that says what
/// memory it is instead, placed at `where`.
Result<void> check_memory(int device, const void* pointer, const char* where);

/// Whether a stream is the device's; one that is being captured is not asked. Errors: kInvalidArgument, at "stream".
Result<void> check_stream(int device, void* stream);

/// prepare_weights_device() on a stream, which it waits for.
Result<PrepareReport> prepare_on_device(const CanonicalWeights& weights, std::uint8_t* codes, std::uint8_t* scales,
                                        int device, void* stream);

/// A compiled kernel that runs a tactic; null where the build left it out.
struct BuiltKernel;
const BuiltKernel* find_kernel(const Tactic& tactic, Format format, pinch::OutputType output);

/// One call; pointers are the device's.
struct LaunchCall {
  const void* a;
  int lda;
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  float alpha;
  int acc_exponent;
  void* out;
  int ldo;
  WgmmaProblem sizes;
  pinch::OutputType output;
  void* workspace;
};

/// Enqueues a call; no allocation, no waiting. Errors: kInvalidArgument for a stream of another device, kDevice.
Result<void> launch(const BuiltKernel& kernel, const Tactic& tactic, const LaunchCall& call, const Device& facts,
                    int device, void* stream);

}  // namespace pinch::gemm_bf16_fp4::sm90
