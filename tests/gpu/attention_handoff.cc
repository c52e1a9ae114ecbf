// What the handoff's contract keeps out, on a device: a kernel whose product reads no more of P than softmax has
// released, and its twin that reads further (kernels/attention/sm90/demonstrations.inc), which no list of tactics
// holds. There P is NaN until it is written. Usage: attention_handoff READ_AHEAD     k steps beyond the released part,
// 0 or 1; writes O to $PINCH_OUTPUTS/o.bin
//        attention_handoff check          the first gives the bits of the kernel without a split, the second does not
// Exit status: 0 right, 1 not, 2 usage, 77 no device or no such kernels (PINCH_TACTICS=full has them).
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/attention/sm90/backend.h"
#include "tests/gpu/support/attention_data.h"

namespace pinch::gpu_test {
namespace {

using namespace attention::sm90;

constexpr Kind kKind{128, QkType::kBf16, PvType::kBf16};

/// One run of the kernel into poisoned memory.
void run(AttentionData& data, const BuiltKernel& kernel) {
  const DeviceFacts& facts = *require(device_facts(0), "device");
  data.poison();
  require(launch(kernel, {kernel.tile}, data.shape.problem, data.call(), facts, 0, nullptr), "launch");
  PINCH_CUDA_CHECK(cudaDeviceSynchronize());
}

/// O, [heads, seq, dim] without what lies between its rows.
std::vector<float> output(const AttentionProblem& p, const Array& o) {
  std::vector<float> dense(static_cast<std::size_t>(p.heads * p.seq * p.dim));
  const std::size_t row_bytes = static_cast<std::size_t>(p.dim) * sizeof(float);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    PINCH_CUDA_CHECK(cudaMemcpy2D(dense.data() + h * p.seq * p.dim, row_bytes,
                                  static_cast<const float*>(o.data) + h * o.head_stride,
                                  static_cast<std::size_t>(o.row_stride) * sizeof(float), row_bytes,
                                  static_cast<std::size_t>(p.seq), cudaMemcpyDeviceToHost));
  }
  return dense;
}

int main_of(const std::string& mode) {
  skip_without_device();
  const BuiltKernel *split = nullptr, *ahead = nullptr;
  for (const BuiltKernel& kernel : built_kernels()) {
    if (kernel.kind == kKind && kernel.tile.read_ahead > 0) ahead = &kernel;
  }
  if (ahead != nullptr) {
    Tile tile = ahead->tile;
    tile.read_ahead = 0;
    split = find_kernel(kKind, tile);
  }
  const BuiltKernel* whole = find_kernel(kKind, Tile{});
  if (split == nullptr || whole == nullptr) {
    std::printf("skipped: this build left the kernels out; configure with -DPINCH_TACTICS=full\n");
    return kSkipped;
  }
  AttentionShape shape;
  shape.problem = {1, 2, 1, 300, 1000, 128, false, PvType::kBf16, QkType::kBf16, OutputType::kF32};
  AttentionData data(shape, 7);
  const auto hash_of = [&](const BuiltKernel& kernel) {
    run(data, kernel);
    return data.hash();
  };
  if (mode == "check") {
    const auto right = hash_of(*whole);
    const bool same = hash_of(*split) == right, fault = hash_of(*ahead) != right;
    std::printf("split %d of %d: %s; %d steps further: %s\n", split->tile.split_numerator,
                split->tile.split_denominator, same ? "the same bits" : "OTHER BITS", ahead->tile.read_ahead,
                fault ? "other bits" : "THE SAME BITS");
    return same && fault ? 0 : 1;
  }
  const char* folder = std::getenv("PINCH_OUTPUTS");
  if (folder == nullptr || (mode != "0" && mode != "1")) {
    std::printf("usage: attention_handoff 0|1 with PINCH_OUTPUTS, or attention_handoff check\n");
    return 2;
  }
  run(data, mode == "0" ? *split : *ahead);
  const std::vector<float> o = output(data.shape.problem, data.call().o);
  std::ofstream file(std::string(folder) + "/o.bin", std::ios::binary);
  file.write(reinterpret_cast<const char*>(o.data()), static_cast<std::streamsize>(o.size() * sizeof(float)));
  return file.flush() ? 0 : 1;
}

}  // namespace
}  // namespace pinch::gpu_test

int main(int argc, char** argv) {
  return pinch::gpu_test::main_of(argc == 2 ? argv[1] : "");
}
