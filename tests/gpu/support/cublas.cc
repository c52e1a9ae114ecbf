#include "tests/gpu/support/cublas.h"

#include <dlfcn.h>

#include <cstdlib>

namespace pinch::gpu_test {

Cublas::Cublas(cudaStream_t stream) {
  const char* named = std::getenv("PINCH_CUBLAS");
  void* library = nullptr;
  for (const char* path : {named != nullptr ? named : "libcublas.so.13", named != nullptr ? named : "libcublas.so.12"})
    if (library == nullptr) library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    why_absent_ = dlerror();
    return;
  }
  const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
  const auto set_stream = reinterpret_cast<int (*)(void*, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"));
  const auto set_workspace =
      reinterpret_cast<int (*)(void*, void*, std::size_t)>(dlsym(library, "cublasSetWorkspace_v2"));
  gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
  void* handle = nullptr;
  if (create == nullptr || set_stream == nullptr || set_workspace == nullptr || gemm_ == nullptr ||
      create(&handle) != 0) {
    why_absent_ = "the library opened but gave no handle";
    return;
  }
  workspace_ = DeviceBuffer<std::byte>(kWorkspaceBytes);
  if (set_stream(handle, stream) != 0 || set_workspace(handle, workspace_.data(), kWorkspaceBytes) != 0) {
    why_absent_ = "it took no stream or workspace";
    return;
  }
  handle_ = handle;
}

bool Cublas::run(const void* a, const void* w, void* out, int m, int n, int k) const {
  const float one = 1, zero = 0;
  constexpr int kTranspose = 1, kNoTranspose = 0, kBf16 = 14, kCompute32F = 68, kDefaultAlgorithm = -1;
  return gemm_(handle_, kTranspose, kNoTranspose, n, m, k, &one, w, kBf16, k, a, kBf16, k, &zero, out, kBf16, n,
               kCompute32F, kDefaultAlgorithm) == 0;
}

}  // namespace pinch::gpu_test
