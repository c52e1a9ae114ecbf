#include "tests/gpu/support/candidates.h"

#include <cmath>

#include "kernels/gemm_bf16_fp4/sm90/instances.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/device.h"
#include "kernels/gemm_bf16_fp4/sm90/stream/launch.cuh"
#include "kernels/gemm_bf16_fp4/sm90/tactics.h"

namespace pinch::gpu_test {

using namespace gemm_bf16_fp4::sm90;

namespace {

const StreamDevice& stream_device() {
  static const StreamDevice device = [] {
    StreamDevice d{};
    PINCH_CUDA_CHECK(query_stream_device(&d));
    return d;
  }();
  return device;
}

Candidate candidate_of(const ProblemData& data, int m, const WgmmaKernel& kernel, const WgmmaTactic& tactic) {
  const ProblemShape& s = data.shape;
  const WgmmaProblem problem{m, s.n, s.k};
  const WgmmaDevice device{stream_device().sm_count};
  Candidate c{.family = "wgmma", .tactic = to_string(tactic), .kernel = &kernel};
  if (illegal(tactic, problem, device).empty()) c.workspace_bytes = workspace_bytes(tactic, problem, device);
  c.launch = [&data, &s, &kernel, tactic, device, m](void* to, void* workspace, cudaStream_t stream) {
    return kernel.launch(tactic,
                         {.a = data.a.data(),
                          .a_stride = s.a_stride,
                          .codes = data.codes.data(),
                          .scales = data.scales.data(),
                          .alpha = kAlpha,
                          .acc_exponent = data.acc_exponent,
                          .out = to,
                          .out_stride = s.out_stride,
                          .m = m,
                          .n = s.n,
                          .k = s.k,
                          .workspace = workspace},
                         device, stream);
  };
  return c;
}

Candidate candidate_of(const ProblemData& data, int m, bool f32, const StreamKernel& kernel,
                       const StreamTactic& tactic) {
  const ProblemShape& s = data.shape;
  const StreamArgs args{.a = data.a.data(),
                        .lda = s.a_stride,
                        .codes = data.codes.data(),
                        .scales = data.scales.data(),
                        .out = nullptr,
                        .ldo = s.out_stride,
                        .workspace = nullptr,
                        .m = m,
                        .n = s.n,
                        .k = s.k,
                        .alpha = kAlpha,
                        .acc_scale = std::ldexp(1.f, data.acc_exponent),
                        .out_f32 = f32};
  Candidate c{.family = "stream", .tactic = to_string(tactic), .kernel = &kernel};
  if (illegal(tactic, args, stream_device()) == nullptr)
    c.workspace_bytes = stream_workspace_bytes(tactic, s.n, stream_device());
  c.launch = [&kernel, tactic, args](void* to, void* workspace, cudaStream_t stream) {
    StreamArgs call = args;
    call.out = to;
    call.workspace = workspace;
    return kernel.launch(tactic, call, stream_device(), stream);
  };
  return c;
}

}  // namespace

const Device& tactics_device() {
  static const Device device{.wgmma = {.sm_count = stream_device().sm_count}, .stream = stream_device()};
  return device;
}

std::optional<Candidate> candidate(const ProblemData& data, int m, bool f32, const Tactic& tactic) {
  const Format format = data.shape.format;
  if (const auto* wgmma = std::get_if<WgmmaTactic>(&tactic)) {
    for (const WgmmaKernel& kernel : wgmma_kernels())
      if (kernel.tile == wgmma->tile && kernel.format == format && (kernel.output == OutputType::kF32) == f32)
        return candidate_of(data, m, kernel, *wgmma);
    return std::nullopt;
  }
  const auto& stream = std::get<StreamTactic>(tactic);
  for (const StreamKernel& kernel : stream_kernels())
    if (kernel.instance == instance_of(stream) && kernel.format == format)
      return candidate_of(data, m, f32, kernel, stream);
  return std::nullopt;
}

std::vector<Candidate> candidates(const ProblemData& data, int m, bool f32) {
  std::vector<Candidate> all;
  for (const Tactic& tactic : tactics()) {
    if (!illegal(tactic, {m, data.shape.n, data.shape.k}, tactics_device()).empty()) continue;
    if (auto c = candidate(data, m, f32, tactic)) all.push_back(std::move(*c));
  }
  return all;
}

}  // namespace pinch::gpu_test
