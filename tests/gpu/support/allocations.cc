// Counts what the host allocates, to show that a run allocates nothing.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/gpu/support/front_door.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Where gcc inlines one of the pair it takes the other for another allocator's.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace pinch::cuda {

long allocations() {
  return ::allocations.load();
}

}  // namespace pinch::cuda
