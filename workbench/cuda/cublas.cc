#include "workbench/cuda/cublas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <limits>
#include <string>

namespace pinch::cuda {

namespace {

Result<void*> open_library() {
  const char* named = std::getenv("PINCH_CUBLAS");
  std::string why;
  for (const char* path :
       {named != nullptr ? named : "libcublas.so.13", named != nullptr ? named : "libcublas.so.12"}) {
    if (void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL)) return library;
    if (why.empty()) why = dlerror();
  }
  return Error{ErrorCode::kNotFound, "not there (" + why + "); PINCH_CUBLAS=/path/to/libcublas.so.13 names it",
               "cuBLAS"};
}

Error refusal(const char* call, int status) {
  return {ErrorCode::kDevice, std::string(call) + " gave status " + std::to_string(status), "cuBLAS"};
}

}  // namespace

Result<Cublas> Cublas::open(int device, cudaStream_t stream) {
  PINCH_ASSIGN(library, open_library());
  const DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
  const auto set_stream = reinterpret_cast<int (*)(void*, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"));
  const auto set_workspace =
      reinterpret_cast<int (*)(void*, void*, std::size_t)>(dlsym(library, "cublasSetWorkspace_v2"));
  const auto get_version = reinterpret_cast<int (*)(void*, int*)>(dlsym(library, "cublasGetVersion_v2"));
  Cublas cublas;
  cublas.gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
  if (create == nullptr || set_stream == nullptr || set_workspace == nullptr || get_version == nullptr ||
      cublas.gemm_ == nullptr) {
    return Error{ErrorCode::kNotFound, "the library lacks a function of cuBLAS 12", "cuBLAS"};
  }
  if (const int status = create(&cublas.handle_); status != 0) return refusal("cublasCreate", status);
  PINCH_ASSIGN(workspace, DeviceMemory::allocate(device, kWorkspaceBytes));
  cublas.workspace_ = std::move(workspace);
  if (const int status = set_stream(cublas.handle_, stream); status != 0) return refusal("cublasSetStream", status);
  if (const int status = set_workspace(cublas.handle_, cublas.workspace_.data(), kWorkspaceBytes); status != 0) {
    return refusal("cublasSetWorkspace", status);
  }
  if (const int status = get_version(cublas.handle_, &cublas.version_); status != 0) {
    return refusal("cublasGetVersion", status);
  }
  return cublas;
}

Result<void> Cublas::run(const void* a, const void* w, void* out, CublasOutput output, float alpha, std::int64_t m,
                         std::int64_t n, std::int64_t k) const {
  constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
  if (m > kLargest || n > kLargest || k > kLargest) {
    return Error{ErrorCode::kUnsupported, "its sizes are 32 bits wide", "cuBLAS"};
  }
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
  constexpr int kTranspose = 1, kNoTranspose = 0, kBf16 = 14, kF32 = 0, kCompute32F = 68, kDefaultAlgorithm = -1;
  const float zero = 0;
  const int status =
      gemm_(handle_, kTranspose, kNoTranspose, columns, rows, depth, &alpha, w, kBf16, depth, a, kBf16, depth, &zero,
            out, output == CublasOutput::kBf16 ? kBf16 : kF32, columns, kCompute32F, kDefaultAlgorithm);
  if (status != 0) return refusal("cublasGemmEx", status);
  return {};
}

}  // namespace pinch::cuda
