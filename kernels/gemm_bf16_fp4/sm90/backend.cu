#include "kernels/gemm_bf16_fp4/sm90/backend.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/common/cuda/runtime.h"
#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/prepare.cuh"
#include "kernels/gemm_bf16_fp4/sm90/stream/device.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"

namespace pinch::gemm_bf16_fp4::sm90 {

using cuda::check;
using cuda::DeviceScope;

struct BuiltKernel {
  const WgmmaKernel* wgmma = nullptr;  // one of the two
  const StreamKernel* stream = nullptr;
};

namespace {

constexpr int kMostDevices = 64;

Result<Device> ask_device(int ordinal) {
  const DeviceScope scope(ordinal);
  PINCH_TRY(scope.ok());
  Device device{};
  PINCH_TRY(check(query_stream_device(&device.stream), "asking what a device holds"));
  device.wgmma.sm_count = device.stream.sm_count;
  return device;
}

/// One entry a compiled kernel, made once, so that a plan keeps a pointer.
const std::vector<BuiltKernel>& kernels() {
  static const std::vector<BuiltKernel> all = [] {
    std::vector<BuiltKernel> list;
    for (const WgmmaKernel& kernel : wgmma_kernels()) list.push_back({&kernel, nullptr});
    for (const StreamKernel& kernel : stream_kernels()) list.push_back({nullptr, &kernel});
    return list;
  }();
  return all;
}

OutputType output_of(pinch::OutputType output) {
  return output == pinch::OutputType::kBf16 ? OutputType::kBf16 : OutputType::kF32;
}

bool runs(const BuiltKernel& kernel, const Tactic& tactic, Format format, OutputType output) {
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
    return kernel.wgmma != nullptr && kernel.wgmma->tile == wgmma->tile && kernel.wgmma->format == format &&
           kernel.wgmma->output == output;
  }
  return kernel.stream != nullptr && kernel.stream->instance == instance_of(std::get<StreamTactic>(tactic)) &&
         kernel.stream->format == format;
}

WgmmaArgs wgmma_args(const LaunchCall& call) {
  return {.a = call.a,
          .a_stride = call.lda,
          .codes = call.codes,
          .scales = call.scales,
          .alpha = call.alpha,
          .acc_exponent = call.acc_exponent,
          .out = call.out,
          .out_stride = call.ldo,
          .m = call.sizes.m,
          .n = call.sizes.n,
          .k = call.sizes.k,
          .workspace = call.workspace};
}

StreamArgs stream_args(const LaunchCall& call) {
  return {.a = static_cast<const __nv_bfloat16*>(call.a),
          .lda = call.lda,
          .codes = call.codes,
          .scales = call.scales,
          .out = call.out,
          .ldo = call.ldo,
          .workspace = call.workspace,
          .m = call.sizes.m,
          .n = call.sizes.n,
          .k = call.sizes.k,
          .alpha = call.alpha,
          .acc_scale = std::ldexp(1.0F, call.acc_exponent),
          .out_f32 = call.output == pinch::OutputType::kF32};
}

}  // namespace

std::string_view backend_absent() {
  return {};
}

std::string_view backend_toolkit() {
  static const std::string version =
      std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  return version;
}

int backend_trace_level() {
#ifdef PINCH_TRACE_LEVEL
  return PINCH_TRACE_LEVEL;
#else
  return 0;
#endif
}

Result<const Device*> launch_device(int ordinal) {
  static std::array<std::once_flag, kMostDevices> asked;
  static std::array<std::unique_ptr<const Result<Device>>, kMostDevices> known;
  if (ordinal < 0 || ordinal >= kMostDevices) {
    return Error{ErrorCode::kNotFound, "no device " + std::to_string(ordinal), "device"};
  }
  const auto at = static_cast<std::size_t>(ordinal);
  std::call_once(asked[at], [&] { known[at] = std::make_unique<const Result<Device>>(ask_device(ordinal)); });
  if (!*known[at]) return known[at]->error();
  return &known[at]->value();
}

Result<std::shared_ptr<std::byte>> allocate(int device, std::size_t bytes) {
  PINCH_ASSIGN(memory, cuda::DeviceMemory::allocate(device, bytes));
  auto owner = std::make_shared<cuda::DeviceMemory>(std::move(memory));
  std::byte* data = owner->data();
  return std::shared_ptr<std::byte>(std::move(owner), data);
}

Result<void> copy_to_device(int device, std::byte* to, std::span<const std::byte> from) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  return check(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), "copying to a device");
}

Result<void> copy_to_host(int device, std::span<std::byte> to, const std::byte* from) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  return check(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost), "copying from a device");
}

Result<void> enqueue_zeros(int device, std::byte* to, std::size_t bytes, void* stream) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  PINCH_TRY(check_stream(device, static_cast<cudaStream_t>(stream)));
  return check(cudaMemsetAsync(to, 0, bytes, static_cast<cudaStream_t>(stream)), "writing zeros");
}

Result<void> check_memory(int device, const void* pointer, const char* where) {
  cudaPointerAttributes attributes{};
  PINCH_TRY(check(cudaPointerGetAttributes(&attributes, pointer), "asking what a pointer is"));
  if (attributes.type == cudaMemoryTypeManaged) return {};
  if (attributes.type != cudaMemoryTypeDevice) {
    return Error{ErrorCode::kInvalidArgument, "host memory; give a pointer of device " + std::to_string(device), where};
  }
  if (attributes.device == device) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      "memory of device " + std::to_string(attributes.device) + "; the plan is for device " + std::to_string(device),
      where};
}

// CUDA 13 accepts a launch into a stream of another device, whose pointers are not the plan's. A stream that is being
// captured is not asked: the question would break the capture off.
Result<void> check_stream(int device, void* asked) {
  const auto stream = static_cast<cudaStream_t>(asked);
  if (stream == nullptr) return {};
  int of_stream = device;
#if CUDART_VERSION >= 12080
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  PINCH_TRY(check(cudaStreamIsCapturing(stream, &capture), "asking whether a stream is captured"));
  if (capture != cudaStreamCaptureStatusNone) return {};
  if (cudaStreamGetDevice(stream, &of_stream) != cudaSuccess) {
    cudaGetLastError();  // a driver older than the toolkit cannot say
    return {};
  }
#endif
  if (of_stream == device) return {};
  return Error{ErrorCode::kInvalidArgument,
               "a stream of device " + std::to_string(of_stream) + "; the plan is for device " + std::to_string(device),
               "stream"};
}

Result<PrepareReport> prepare_on_device(const CanonicalWeights& weights, std::uint8_t* codes, std::uint8_t* scales,
                                        int device, void* stream) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  PINCH_TRY(check_stream(device, static_cast<cudaStream_t>(stream)));
  PINCH_ASSIGN(memory, cuda::DeviceMemory::allocate(device, sizeof(PrepareReport)));
  auto* device_report = reinterpret_cast<PrepareReport*>(memory.data());
  const auto on = static_cast<cudaStream_t>(stream);
  PINCH_TRY(check(prepare_weights_device(weights, codes, scales, device_report, on), "preparing weights"));
  PrepareReport report{};
  PINCH_TRY(
      check(cudaMemcpyAsync(&report, device_report, sizeof report, cudaMemcpyDeviceToHost, on), "preparing weights"));
  PINCH_TRY(check(cudaStreamSynchronize(on), "preparing weights"));
  return report;
}

const BuiltKernel* find_kernel(const Tactic& tactic, Format format, pinch::OutputType output) {
  for (const BuiltKernel& kernel : kernels()) {
    if (runs(kernel, tactic, format, output_of(output))) return &kernel;
  }
  return nullptr;
}

Result<void> launch(const BuiltKernel& kernel, const Tactic& tactic, const LaunchCall& call, const Device& facts,
                    int device, void* stream) {
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  const auto on = static_cast<cudaStream_t>(stream);
  PINCH_TRY(check_stream(device, on));
  const cudaError_t error =
      kernel.wgmma != nullptr
          ? kernel.wgmma->launch(std::get<WgmmaTactic>(tactic), wgmma_args(call), facts.wgmma, on)
          : kernel.stream->launch(std::get<StreamTactic>(tactic), stream_args(call), facts.stream, on);
  if (error == cudaSuccess) return {};
  return cuda::error_of(error, "launching " + to_string(tactic));
}

}  // namespace pinch::gemm_bf16_fp4::sm90
