#include "kernels/attention/sm90/backend.h"

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/attention/sm90/instances.h"
#include "kernels/attention/sm90/prepare.cuh"
#include "kernels/common/cuda/runtime.h"

namespace pinch::attention::sm90 {

using cuda::check;
using cuda::DeviceScope;

namespace {

constexpr int kMostDevices = 64;

Result<DeviceFacts> ask_device(int ordinal) {
  int sms = 0, l2 = 0;
  PINCH_TRY(check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, ordinal), "asking what a device holds"));
  PINCH_TRY(check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, ordinal), "asking what a device holds"));
  return DeviceFacts{sms, static_cast<std::size_t>(l2)};
}

Error invalid(std::string text, const char* where) {
  return {ErrorCode::kInvalidArgument, std::move(text), where};
}

bool misaligned(const void* pointer, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to != 0;
}

Result<void> check_array(const Array& array, const char* where, std::uintptr_t alignment, std::int64_t multiple) {
  if (array.data == nullptr) return invalid("null; give a pointer of the device", where);
  if (misaligned(array.data, alignment))
    return invalid("misaligned; give an address that is a multiple of " + std::to_string(alignment), where);
  for (const std::int64_t stride : {array.batch_stride, array.head_stride, array.row_stride}) {
    if (stride % multiple == 0) continue;
    return invalid(
        "a stride of " + std::to_string(stride) + " elements; give a multiple of " + std::to_string(multiple), where);
  }
  return {};
}

Result<void> check_call(const AttentionProblem& problem, const LaunchCall& call) {
  PINCH_TRY(check_array(call.q, "q", kAlignment, kStrideMultiple));
  PINCH_TRY(check_array(call.k, "k", kAlignment, kStrideMultiple));
  PINCH_TRY(check_array(call.v, "v", kAlignment, kStrideMultiple));
  PINCH_TRY(check_array(call.o, "o", problem.output == OutputType::kF32 ? 8 : 4, 2));
  if (!(call.scale > 0)) return invalid(std::to_string(call.scale) + "; give a factor above 0", "scale");
  if (call.workspace == nullptr || misaligned(call.workspace, kAlignment))
    return invalid("null or misaligned; give workspace_bytes() bytes, aligned to 16", "workspace");
  if ((call.cu_seqlens_q == nullptr) != (call.cu_seqlens_kv == nullptr))
    return invalid("one of cu_seqlens_q and cu_seqlens_kv is missing; give both or none", "cu_seqlens");
  return {};
}

}  // namespace

std::string_view backend_absent() {
  return {};
}

Result<const DeviceFacts*> device_facts(int ordinal) {
  static std::array<std::once_flag, kMostDevices> asked;
  static std::array<std::unique_ptr<const Result<DeviceFacts>>, kMostDevices> known;
  if (ordinal < 0 || ordinal >= kMostDevices) {
    return Error{ErrorCode::kNotFound, "no device " + std::to_string(ordinal), "device"};
  }
  const auto at = static_cast<std::size_t>(ordinal);
  std::call_once(asked[at], [&] { known[at] = std::make_unique<const Result<DeviceFacts>>(ask_device(ordinal)); });
  if (!*known[at]) return known[at]->error();
  return &known[at]->value();
}

std::span<const BuiltKernel> built_kernels() {
  static const std::vector<BuiltKernel> all = [] {
    std::vector<BuiltKernel> list;
    for (const Instance& instance : instances()) list.push_back({instance.kind, instance.tile, &instance});
    return list;
  }();
  return all;
}

const BuiltKernel* find_kernel(const Kind& kind, const Tile& tile) {
  for (const BuiltKernel& kernel : built_kernels()) {
    if (kernel.kind == kind && kernel.tile == tile) return &kernel;
  }
  return nullptr;
}

Result<void> launch(const BuiltKernel& kernel, const Tactic& tactic, const AttentionProblem& problem,
                    const LaunchCall& call, const DeviceFacts& facts, int device, void* stream, Part part) {
  Tactic legal = tactic;
  legal.tile.read_ahead = 0;  // a demonstration is launched too
  if (const auto why = illegal(legal, problem, facts); !why.empty())
    return Error{ErrorCode::kIllegal, std::string(why), "tactic"};
  PINCH_TRY(check_call(problem, call));
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  const auto on = static_cast<cudaStream_t>(stream);
  if ((static_cast<unsigned>(part) & static_cast<unsigned>(Part::kPrepare)) != 0)
    PINCH_TRY(check(prepare(problem, call, facts, on), "preparing keys and values"));
  if ((static_cast<unsigned>(part) & static_cast<unsigned>(Part::kAttend)) == 0) return {};
  const auto& instance = *static_cast<const Instance*>(kernel.entry);
  const cudaError_t error = instance.launch(tactic, problem, call, facts, on);
  if (error == cudaErrorInvalidValue)
    return Error{ErrorCode::kUnsupported, "the driver takes no tensor map of these strides", "q, k, v"};
  return check(error, "launching attention");
}

}  // namespace pinch::attention::sm90
