// What the handoff's contract keeps out, on a device: kernels whose product reads no more of P than softmax has
// released, and twins that read further (kernels/attention/sm90/unlisted.inc), which no list of tactics holds. There P
// is NaN until it is written. Usage: attention_handoff READ_AHEAD     half of P released, and k steps that are read
// beyond it, 0 or 1; writes O to
//                                         $PINCH_OUTPUTS/o.bin
//        attention_handoff check          every compiled split, of every kind and key tile, gives the bits of the
//        kernel
//                                         without one; none that reads further does
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

constexpr AttentionShape shape_of(const Kind& kind) {
  AttentionShape shape;
  shape.problem = {1, 2, 1, 300, 1000, kind.dim, false, kind.pv, kind.qk, OutputType::kF32};
  return shape;
}

const BuiltKernel* without_read_ahead(const BuiltKernel& kernel) {
  Tile tile = kernel.tile;
  tile.read_ahead = 0;
  return find_kernel(kernel.kind, tile);
}

/// How many kernels are not what they should be.
int faults() {
  int splits = 0, wrong = 0, further = 0, unseen = 0;
  for (const BuiltKernel& kernel : built_kernels()) {
    const Tile& tile = kernel.tile;
    if (tile.split_numerator == tile.split_denominator) continue;
    const BuiltKernel* whole = find_kernel(kernel.kind, Tile{.tile_kv = tile.tile_kv});
    if (whole == nullptr || without_read_ahead(kernel) == nullptr) {
      std::printf("no kernel to compare %s with\n", to_string(Tactic{tile}).c_str());
      ++wrong;
      continue;
    }
    AttentionData data(shape_of(kernel.kind), 7);
    run(data, *whole);
    const std::uint64_t right = data.hash();
    run(data, kernel);
    const bool same = data.hash() == right, ahead = tile.read_ahead > 0;
    (ahead ? further : splits) += 1;
    if (same != ahead) continue;
    (ahead ? unseen : wrong) += 1;
    std::printf("%s: dim %d, qk %s, pv %s, %s, %d steps further\n", ahead ? "THE SAME BITS" : "OTHER BITS",
                kernel.kind.dim, std::string(pinch::to_string(kernel.kind.qk)).c_str(),
                std::string(pinch::to_string(kernel.kind.pv)).c_str(), to_string(Tactic{tile}).c_str(),
                tile.read_ahead);
  }
  std::printf("%d splits, %d with other bits than without a split; %d that read further, %d with the same bits\n",
              splits, wrong, further, unseen);
  return wrong + unseen + (splits == 0 || further == 0 ? 1 : 0);
}

int main_of(const std::string& mode) {
  skip_without_device();
  const Tile half{.split_denominator = 2, .chunks = 2};
  Tile further = half;
  further.read_ahead = 1;
  const BuiltKernel *split = find_kernel(kKind, half), *ahead = find_kernel(kKind, further);
  if (split == nullptr || ahead == nullptr) {
    std::printf("skipped: this build left the kernels out; configure with -DPINCH_TACTICS=full\n");
    return kSkipped;
  }
  if (mode == "check") return faults() == 0 ? 0 : 1;
  const char* folder = std::getenv("PINCH_OUTPUTS");
  if (folder == nullptr || (mode != "0" && mode != "1")) {
    std::printf("usage: attention_handoff 0|1 with PINCH_OUTPUTS, or attention_handoff check\n");
    return 2;
  }
  AttentionData data(shape_of(kKind), 7);
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
