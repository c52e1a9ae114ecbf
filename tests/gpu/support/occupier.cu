#include "tests/gpu/support/occupier.h"

#include <chrono>

#include "tests/gpu/support/cuda_check.h"

namespace pinch::gpu_test {

namespace {

constexpr int kAllSharedBytes = 227 * 1024;

__global__ void occupy(int* begun, const volatile int* end) {
  atomicAdd_system(begun, 1);
  while (*end == 0) __nanosleep(10'000);
}

}  // namespace

Occupier::Occupier(int sms) {
  PINCH_CUDA_CHECK(cudaHostAlloc(&shared_, sizeof(Shared), cudaHostAllocMapped));
  shared_->begun = 0;
  shared_->end = 0;
  PINCH_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  PINCH_CUDA_CHECK(cudaFuncSetAttribute(occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, kAllSharedBytes));
  PINCH_CUDA_CHECK(cudaDeviceSynchronize());  // a block that others delay is waited for below
  occupy<<<sms, 1, kAllSharedBytes, stream_>>>(const_cast<int*>(&shared_->begun), &shared_->end);
  PINCH_CUDA_CHECK(cudaGetLastError());
  while (shared_->begun < sms) {
  }
}

Occupier::~Occupier() {
  shared_->end = 1;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(shared_);
}

bool Occupier::others_end_within_seconds(double seconds) const {
  const auto begin = std::chrono::steady_clock::now();
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) return false;
  }
  PINCH_CUDA_CHECK(cudaGetLastError());
  return true;
}

}  // namespace pinch::gpu_test
