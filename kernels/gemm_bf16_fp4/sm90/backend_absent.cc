// The backend of a build without CUDA: it says so.
#include "kernels/gemm_bf16_fp4/sm90/backend.h"

namespace pinch::gemm_bf16_fp4::sm90 {

namespace {

constexpr std::string_view kWhy =
    "this build has no CUDA kernels; configure with -DPINCH_CUDA=ON where there is nvcc (preset cuda), and build again";

Error absent() {
  return {ErrorCode::kUnsupported, std::string(kWhy), "device"};
}

}  // namespace

std::string_view backend_absent() {
  return kWhy;
}
std::string_view backend_toolkit() {
  return {};
}
int backend_trace_level() {
  return 0;
}
Result<const Device*> launch_device(int) {
  return absent();
}
Result<std::shared_ptr<std::byte>> allocate(int, std::size_t) {
  return absent();
}
Result<void> copy_to_device(int, std::byte*, std::span<const std::byte>) {
  return absent();
}
Result<void> copy_to_host(int, std::span<std::byte>, const std::byte*) {
  return absent();
}
Result<void> enqueue_zeros(int, std::byte*, std::size_t, void*) {
  return absent();
}
Result<void> check_memory(int, const void*, const char*) {
  return absent();
}
Result<void> check_stream(int, void*) {
  return absent();
}
Result<PrepareReport> prepare_on_device(const CanonicalWeights&, std::uint8_t*, std::uint8_t*, int, void*) {
  return absent();
}
const BuiltKernel* find_kernel(const Tactic&, Format, pinch::OutputType) {
  return nullptr;
}
Result<void> launch(const BuiltKernel&, const Tactic&, const LaunchCall&, const Device&, int, void*) {
  return absent();
}

}  // namespace pinch::gemm_bf16_fp4::sm90
