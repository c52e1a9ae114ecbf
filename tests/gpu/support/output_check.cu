#include "tests/gpu/support/output_check.h"

#include <cuda_bf16.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace pinch::gpu_test {

namespace {

__device__ std::int64_t first_index() {
  return blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
}
__device__ std::int64_t index_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

struct OutputView {
  const void* raw;
  bool f32;
  int m, n, stride;
  std::int64_t guard;
};

__global__ void compare(OutputView out, const double* expected, int m_step, OutputCounts* counts) {
  const std::int64_t count = 2 * out.guard + static_cast<std::int64_t>(out.m) * out.stride;
  double error2 = 0, norm2 = 0;
  unsigned long long wrong_class = 0, outside = 0;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::int64_t at = i - out.guard;
    const std::int64_t row = at >= 0 ? at / out.stride : out.m, column = at >= 0 ? at % out.stride : 0;
    const std::uint32_t bits =
        out.f32 ? static_cast<const std::uint32_t*>(out.raw)[i] : static_cast<const std::uint16_t*>(out.raw)[i];
    if (row >= out.m || column >= out.n) {
      outside += bits != (out.f32 ? 0xFFFFFFFFu : 0xFFFFu);
      continue;
    }
    const float got = __uint_as_float(out.f32 ? bits : bits << 16);
    if (row % m_step != 0) {
      wrong_class += !isfinite(got);
      continue;
    }
    const double want = expected[row / m_step * out.n + column];
    if (!isfinite(want)) {
      wrong_class += isnan(want) ? !isnan(got) : got != static_cast<float>(want);
    } else if (!isfinite(got)) {
      ++wrong_class;
    } else {
      error2 += (got - want) * (got - want);
      norm2 += want * want;
    }
  }
  atomicAdd(&counts->error2, error2);
  atomicAdd(&counts->norm2, norm2);
  atomicAdd(&counts->wrong_class, wrong_class);
  atomicAdd(&counts->outside, outside);
}

__global__ void count_other_bytes(const std::uint8_t* bytes, std::int64_t count, int expected,
                                  unsigned long long* total) {
  unsigned long long other = 0;
  for (std::int64_t i = first_index(); i < count; i += index_step()) other += bytes[i] != expected;
  atomicAdd(total, other);
}

__global__ void hash_words(const std::uint16_t* words, std::int64_t count, unsigned long long* total) {
  unsigned long long h = 0;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    std::uint64_t x = static_cast<std::uint64_t>(words[i]) * 0x100000001B3ull + static_cast<std::uint64_t>(i);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    h += x ^ (x >> 31);
  }
  atomicAdd(total, h);
}

}  // namespace

GuardedOutput::GuardedOutput(int m_, int n_, int stride_, bool f32_)
    : m(m_),
      n(n_),
      stride(stride_),
      f32(f32_),
      element_bytes_(f32_ ? 4 : 2),
      bytes_((static_cast<std::size_t>(m_) * static_cast<std::size_t>(stride_) + 2 * kGuard) * element_bytes_) {}

void GuardedOutput::poison() {
  bytes_.fill_bytes(0xFF);
}

GuardedWorkspace::GuardedWorkspace(std::size_t most_bytes) : bytes_(most_bytes + kGuardBytes) {
  bytes_.fill_bytes(0);
}

void GuardedWorkspace::poison(std::size_t bytes, std::size_t flag_bytes) {
  used_bytes_ = bytes;
  flag_bytes_ = bytes == 0 ? 0 : flag_bytes;
  PINCH_CUDA_CHECK(cudaMemset(bytes_.data(), 0, flag_bytes_));
  PINCH_CUDA_CHECK(cudaMemset(bytes_.data() + flag_bytes_, 0xFF, bytes - flag_bytes_));
  PINCH_CUDA_CHECK(cudaMemset(bytes_.data() + bytes, 0xA5, kGuardBytes));
}

OutputChecker::OutputChecker() : counts_(1) {}

OutputVerdict OutputChecker::check(const GuardedOutput& out, const double* expected, int m_step, double limit,
                                   const GuardedWorkspace& workspace) {
  counts_.fill_bytes(0);
  compare<<<512, 256>>>(OutputView{out.raw(), out.f32, out.m, out.n, out.stride, GuardedOutput::kGuard}, expected,
                        m_step, counts_.data());
  if (workspace.flag_bytes_ > 0)
    count_other_bytes<<<64, 256>>>(workspace.bytes_.data(), static_cast<std::int64_t>(workspace.flag_bytes_), 0,
                                   &counts_.data()->flags);
  count_other_bytes<<<16, 256>>>(workspace.bytes_.data() + workspace.used_bytes_,
                                 static_cast<std::int64_t>(GuardedWorkspace::kGuardBytes), 0xA5,
                                 &counts_.data()->workspace);
  PINCH_CUDA_CHECK(cudaGetLastError());
  const OutputCounts c = counts_.download()[0];
  OutputVerdict verdict;
  verdict.relative_l2 = c.norm2 > 0 ? std::sqrt(c.error2 / c.norm2) : std::sqrt(c.error2);
  const auto fault = [&](bool found, const std::string& what) {
    if (found) verdict.fault += (verdict.fault.empty() ? "" : "; ") + what;
  };
  const auto counted = [&](unsigned long long count, const char* what) {
    fault(count > 0, std::to_string(count) + what);
  };
  counted(c.wrong_class, " outputs not written, or inf or nan in the wrong place");
  fault(!(verdict.relative_l2 <= limit), "error above the limit");
  counted(c.outside, " elements outside the output written");
  counted(c.flags, " flag bytes left set");
  counted(c.workspace, " bytes behind the workspace written");
  return verdict;
}

std::uint64_t OutputChecker::hash(const GuardedOutput& out) {
  counts_.fill_bytes(0);
  hash_words<<<256, 256>>>(static_cast<const std::uint16_t*>(out.raw()), static_cast<std::int64_t>(out.raw_bytes() / 2),
                           &counts_.data()->hash);
  PINCH_CUDA_CHECK(cudaGetLastError());
  return counts_.download()[0].hash;
}

int planted_faults_missed() {
  constexpr int kM = 5, kN = 24, kStride = 32;
  std::vector<double> expected(kM * kN);
  for (int i = 0; i < kM * kN; ++i) expected[i] = 1 + i % 7 - 0.25 * (i % 3);
  expected[kN] = std::numeric_limits<double>::quiet_NaN();
  expected[2 * kN + 1] = -std::numeric_limits<double>::infinity();
  DeviceBuffer<double> device_expected(expected.size());
  PINCH_CUDA_CHECK(
      cudaMemcpy(device_expected.data(), expected.data(), expected.size() * sizeof(double), cudaMemcpyHostToDevice));
  OutputChecker checker;
  int missed = 0;
  for (const bool f32 : {false, true}) {
    GuardedOutput out(kM, kN, kStride, f32);
    GuardedWorkspace workspace(16384);
    const auto put = [&](std::int64_t element, float value) {  // counted from the first output; negative: the guard
      const __nv_bfloat16 half = __float2bfloat16(value);
      auto* to = static_cast<std::uint8_t*>(out.data()) + element * (f32 ? 4 : 2);
      PINCH_CUDA_CHECK(
          cudaMemcpy(to, f32 ? static_cast<const void*>(&value) : &half, f32 ? 4 : 2, cudaMemcpyHostToDevice));
    };
    const auto verdict_with = [&](auto&& plant) {
      out.poison();
      workspace.poison(8192, 1024);
      for (int i = 0; i < kM * kN; ++i) put(i / kN * kStride + i % kN, static_cast<float>(expected[i]));
      plant();
      return checker.check(out, device_expected.data(), 1, 2.5e-3, workspace);
    };
    auto* const workspace_bytes = static_cast<std::uint8_t*>(workspace.data());
    const auto expect = [&](bool right, const char* planted, auto&& plant) {
      const OutputVerdict v = verdict_with(plant);
      if (v.fault.empty() == right) return;
      ++missed;
      std::printf("MISSED %s (%s): the checker says '%s'\n", planted, f32 ? "f32" : "bf16", v.fault.c_str());
    };
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    expect(true, "a right output", [] {});
    expect(false, "an output that is 1/8 off",
           [&] { put(3 * kStride + 2, static_cast<float>(expected[3 * kN + 2]) * 1.125f); });
    expect(false, "an output left as it was", [&] { put(4 * kStride + kN - 1, nan); });
    expect(false, "an infinity where a finite value belongs", [&] { put(0, inf); });
    expect(false, "a finite value where a nan belongs", [&] { put(kStride, 1); });
    expect(false, "an infinity of the other sign", [&] { put(2 * kStride + 1, inf); });
    expect(false, "an element written between rows", [&] { put(kN, 0); });
    expect(false, "an element written before the output", [&] { put(-1, 0); });
    expect(false, "an element written after the output", [&] { put(kM * kStride, 0); });
    expect(false, "a flag left set", [&] { PINCH_CUDA_CHECK(cudaMemset(workspace_bytes + 1023, 1, 1)); });
    expect(false, "a byte written behind the workspace",
           [&] { PINCH_CUDA_CHECK(cudaMemset(workspace_bytes + 8192, 0, 1)); });
    verdict_with([] {});
    const std::uint64_t before = checker.hash(out);
    put(7, 0);
    if (checker.hash(out) == before) ++missed, std::printf("MISSED a changed element by the hash\n");
  }
  return missed;
}

}  // namespace pinch::gpu_test
