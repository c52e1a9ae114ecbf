// Cases of attention (tests/kernel/attention_cases.h) on a device, through the CUDA front door.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/sm90/tactics.h"
#include "pinch/attention_cuda.h"
#include "tests/gpu/support/front_door.h"
#include "tests/kernel/attention_cases.h"

namespace pinch::cuda {

using namespace test;  // NOLINT

inline constexpr PvType kBf16 = PvType::kBf16, kFp8 = PvType::kFp8, kFp4 = PvType::kFp4;

/// A case with its arrays on a device, and room for its results there.
class OnDevice {
 public:
  explicit OnDevice(const Case& c, int device = 0)
      : host_(c),
        device_(device),
        q_(device, c.q_data),
        k_(device, c.k_data),
        v_(device, c.v_data),
        cu_q_(device, c.variable() ? c.cu_q : std::vector<std::int32_t>{0}),
        cu_kv_(device, c.variable() ? c.cu_kv : std::vector<std::int32_t>{0}),
        memory_(device, output_bytes(c)),
        lse_(device, static_cast<std::size_t>(c.problem.batch * c.problem.heads * c.problem.seq)) {}

  [[nodiscard]] AttentionInputs inputs() const {
    AttentionInputs in = host_.inputs();
    in.q.data = q_.data();
    in.k.data = k_.data();
    in.v.data = v_.data();
    if (host_.variable()) {
      in.cu_seqlens_q = {cu_q_.data(), cu_q_.size()};
      in.cu_seqlens_kv = {cu_kv_.data(), cu_kv_.size()};
      in.total_q = host_.cu_q.back();
      in.total_kv = host_.cu_kv.back();
    }
    return in;
  }
  [[nodiscard]] AttentionOutputs outputs() const { return outputs_in(host_, memory_.data(), lse_.data()); }
  void poison() const {
    memory_.fill(0xff);
    lse_.fill(0xff);
  }
  /// Waits for the device.
  [[nodiscard]] Outcome outcome() const { return collect(host_, raw(), lse_.download()); }
  /// The bytes alone.
  [[nodiscard]] std::vector<std::byte> raw() const {
    const DeviceScope scope(device_);
    check(cudaDeviceSynchronize());
    return memory_.download();
  }
  /// Bits of O and of the log-sum-exp, so that what is no number is compared too.
  [[nodiscard]] std::vector<std::byte> bits() const {
    std::vector<std::byte> all = raw();
    const std::vector<float> lse = lse_.download();
    const auto bytes = std::as_bytes(std::span(lse));
    all.insert(all.end(), bytes.begin(), bytes.end());
    return all;
  }

 private:
  const Case& host_;
  int device_;
  Array<Bf16> q_, k_, v_;
  Array<std::int32_t> cu_q_, cu_kv_;
  Array<std::byte> memory_;
  Array<float> lse_;
};

inline Result<Outcome> run_on_device(const Case& c, const std::string& tactic) {
  PINCH_ASSIGN(plan, plan_attention(c.problem, 0, {tactic}));
  const OnDevice arrays(c);
  const Workspace workspace(plan.device(), plan.workspace_bytes());
  PINCH_TRY(run_attention(plan, arrays.inputs(), arrays.outputs(), workspace.memory.bytes()));
  return arrays.outcome();
}

/// Places of the tactics that this build has for a problem.
inline std::vector<std::size_t> legal_tactics(const AttentionProblem& p) {
  const AttentionTacticFamily& family = built_attention_tactics();
  std::vector<std::size_t> legal;
  for (std::size_t i = 0; i < family.size(); ++i) {
    if (!family.illegal(i, p, Resources{132, 0})) legal.push_back(i);
  }
  return legal;
}
inline const attention::sm90::Tactic& tactic_at(std::size_t index) {
  return attention::sm90::tactics()[index];
}
inline std::string name_at(std::size_t index) {
  return built_attention_tactics().to_string(index);
}

using AttentionFrontDoor = FrontDoorTest;

}  // namespace pinch::cuda
