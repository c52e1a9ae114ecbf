// The backend of a build without CUDA: it says so.
#include "kernels/attention/sm90/backend.h"

namespace pinch::attention::sm90 {

namespace {

constexpr std::string_view kWhy =
    "this build has no CUDA kernels; configure with -DPINCH_CUDA=ON where there is nvcc (preset cuda), and build again";

Error no_kernels() {
  return {ErrorCode::kUnsupported, std::string(kWhy), "device"};
}

}  // namespace

std::string_view backend_absent() {
  return kWhy;
}
Result<const DeviceFacts*> device_facts(int) {
  return no_kernels();
}
std::span<const BuiltKernel> built_kernels() {
  return {};
}
const BuiltKernel* find_kernel(const Kind&, const Tile&) {
  return nullptr;
}
Result<void> launch(const BuiltKernel&, const Tactic&, const AttentionProblem&, const LaunchCall&, const DeviceFacts&,
                    int, void*, Part) {
  return no_kernels();
}

}  // namespace pinch::attention::sm90
