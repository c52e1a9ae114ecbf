// Attention forward as a task on a CUDA device.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "pinch/attention_cuda.h"
#include "pinch/gemm.h"
#include "src/core/temporary_folder.h"
#include "workbench/check/attention_check.h"
#include "workbench/ladder/attention_task.h"
#include "workbench/ladder/cuda_measure.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/ladder/waiting.h"
#include "workbench/trace/cuda_kernels.h"

namespace pinch::ladder {

namespace {

using cuda::DeviceMemory;
using measure::Protocol;
using measure::Verdict;

std::string_view cuda_numerics(const AttentionProblem& p) {
  const bool qk8 = p.qk == QkType::kFp8;
  switch (p.pv) {
    case PvType::kBf16:
      return qk8 ? "E4M3 Q.K, bf16 P.V, FP32 softmax and sums" : "bf16 products, FP32 softmax and sums";
    case PvType::kFp8:
      return qk8 ? "E4M3 products, FP32 softmax and sums" : "bf16 Q.K, E4M3 P.V, FP32 softmax and sums";
    case PvType::kFp4:
      break;
  }
  return "emulated: P and V rounded to NVFP4 and multiplied in bf16, FP32 softmax and sums";
}

Checked failed(const Error& error) {
  return {error.code == ErrorCode::kIllegal ? Verdict::kIllegal : Verdict::kLaunchFailed, error.message(), std::nullopt,
          0, 0};
}

/// Ids below the family's size are tactics, the others rivals.
class CudaAttentionTask final : public Task, private Subject {
 public:
  CudaAttentionTask(const AttentionProblem& problem, const cuda::Device& device, cuda::Timer timer, std::string sources)
      : problem_(problem),
        sources_(std::move(sources)),
        family_(cuda::built_attention_tactics()),
        device_(device),
        machine_(describe_device(device)),
        resources_{device.sm_count, 0},
        work_(attention_work(problem, cuda_numerics(problem))),
        q_elements_(problem.batch * problem.heads * problem.seq * problem.dim),
        kv_elements_(problem.batch * problem.kv_heads * problem.kv_seq * problem.dim),
        out_bytes_(static_cast<std::size_t>(q_elements_) * (problem.output == OutputType::kBf16 ? 2 : 4)),
        timer_(std::move(timer)),
        sampler_(timer_) {}

  [[nodiscard]] const Work& work() const override { return work_; }
  [[nodiscard]] const AttentionTacticFamily& family() const override { return family_; }
  [[nodiscard]] const Resources& resources() const override { return resources_; }
  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::string_view protocol() const override { return kCudaProtocol; }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(family_, problem_, resources_);
  }

  [[nodiscard]] Result<void> check_memory(const measure::Policy&, bool /*with_rivals*/) const override {
    const cuda::DeviceScope scope(device_.ordinal);
    PINCH_TRY(scope.ok());
    std::size_t free = 0, total = 0;
    PINCH_TRY(cuda::check(cudaMemGetInfo(&free, &total), "asking for the memory that is free"));
    // Operands and result, a workspace of as much, what limits are measured with.
    const double bytes = 2 * work_.least_bytes + 0x1p29;
    if (bytes <= 0.9 * static_cast<double>(free)) return {};
    return Error{ErrorCode::kOutOfMemory,
                 fmt::format("{} needs about {:.1f} GiB and {:.1f} GiB of the device's memory are free; give smaller "
                             "sizes",
                             work_.heading, bytes / 0x1p30, static_cast<double>(free) / 0x1p30),
                 "problem"};
  }

  Result<void> prepare(const measure::Policy&) override {
    host_q_ = attention_values(q_elements_, 1);
    host_k_ = attention_values(kv_elements_, 2);
    host_v_ = attention_values(kv_elements_, 3);
    for (const auto& [to, from] : {std::pair{&q_, &host_q_}, std::pair{&k_, &host_k_}, std::pair{&v_, &host_v_}}) {
      PINCH_ASSIGN(memory, upload(*from));
      *to = std::move(memory);
    }
    PINCH_ASSIGN(out, DeviceMemory::allocate(device_.ordinal, out_bytes_ + kMarginBytes));
    out_ = std::move(out);
    host_out_.resize(out_bytes_ + kMarginBytes);
    PINCH_ASSIGN(reference,
                 check::AttentionCheck::create(problem_, inputs(host_q_.data(), host_k_.data(), host_v_.data()),
                                               kReferenceWork, /*seed=*/12));
    reference_ = std::make_unique<check::AttentionCheck>(std::move(reference));
    const auto cublas = cuda::Cublas::open(device_.ordinal, timer_.stream());
    PINCH_ASSIGN(limits, measure_cuda_roofline(timer_, cublas, k_.data(), k_.bytes()));
    roofline_ = limits;
    // Both products have half of the operations; E4M3 has twice the rate of bf16, which is what was measured.
    const double of_qk = problem_.qk == QkType::kFp8 ? 2 : 1, of_pv = problem_.pv == PvType::kFp8 ? 2 : 1;
    roofline_.gflops *= 2 / (1 / of_qk + 1 / of_pv);
    return {};
  }

  [[nodiscard]] const Roofline& roofline() const override { return roofline_; }
  [[nodiscard]] std::size_t weight_bytes() const override { return static_cast<std::size_t>(4 * kv_elements_); }
  [[nodiscard]] std::size_t cold_set_bytes() const override { return cuda::Timer::kFlushBytes; }
  Subject& subject() override { return *this; }
  measure::Sampler& sampler() override { return sampler_; }

  Result<Rivals> rivals() override {
    Rival null{RowKind::kYardstick, "empty kernel", "what events and a replay cost", 0, family_.size(), {}};
    PINCH_ASSIGN(graph, timer_.capture([](cudaStream_t stream) { return cuda::Timer::enqueue_null(stream); }));
    sampler_.add(null.id, std::move(graph));
    PINCH_ASSIGN(ns, sampler_.replay_ns(null.id, Protocol::kCold));
    null.checked.call_ns = ns;
    return Rivals{{std::move(null)},
                  {"cuDNN, FlashAttention: none is a library that opens by itself; bench/attention_peers.py times them "
                   "from Python"}};
  }

  Result<Waiting> waits(const std::string& tactic, const std::function<bool()>& stop_requested) override {
    PINCH_ASSIGN(folder, TemporaryFolder::create());
    PINCH_ASSIGN(compiled, trace::compile_cuda_attention(
                               problem_, waiting_kernel(tactic, sources_, folder.path(), device_, stop_requested)));
    return trace_waiting(std::move(compiled), folder.path(), stop_requested);
  }

  Result<Code> code(const std::string& tactic) override {
    PINCH_ASSIGN(plan, cuda::plan_attention(problem_, device_.ordinal, {tactic}));
    PINCH_ASSIGN(room, workspace(plan.workspace_bytes()));
    return code_of_call(timer_, device_.sm_count, call_of(plan, room));
  }

 private:
  static constexpr std::size_t kMarginBytes = 4096;  // behind the output, that no call may touch
  static constexpr int kPoison = 0xff;               // a NaN in bf16 and in FP32
  static constexpr double kReferenceWork = 4e8;

  [[nodiscard]] Result<DeviceMemory> upload(const std::vector<Bf16>& values) const {
    PINCH_ASSIGN(memory, DeviceMemory::allocate(device_.ordinal, values.size() * sizeof(Bf16)));
    const cuda::DeviceScope scope(device_.ordinal);
    PINCH_TRY(scope.ok());
    PINCH_TRY(cuda::check(cudaMemcpy(memory.data(), values.data(), memory.bytes(), cudaMemcpyHostToDevice),
                          "copying operands to the device"));
    return std::move(memory);
  }
  [[nodiscard]] AttentionInputs inputs(const Bf16* q, const Bf16* k, const Bf16* v) const {
    const AttentionProblem& p = problem_;
    const std::int64_t q_head = p.seq * p.dim, kv_head = p.kv_seq * p.dim;
    return {{q, p.heads * q_head, q_head, p.dim},
            {k, p.kv_heads * kv_head, kv_head, p.dim},
            {v, p.kv_heads * kv_head, kv_head, p.dim},
            1 / std::sqrt(static_cast<float>(p.dim))};
  }

  /// A workspace that is replaced would leave captured graphs with its memory, so outgrown ones are kept.
  Result<std::span<std::byte>> workspace(std::size_t bytes) {
    if (workspaces_.empty() || workspaces_.back().bytes() < bytes) {
      PINCH_ASSIGN(memory, DeviceMemory::allocate(device_.ordinal, std::max<std::size_t>(bytes, 256)));
      workspaces_.push_back(std::move(memory));
    }
    return std::span(workspaces_.back().data(), workspaces_.back().bytes());
  }

  [[nodiscard]] std::function<Result<void>(cudaStream_t)> call_of(const cuda::AttentionPlan& plan,
                                                                  std::span<std::byte> room) const {
    return [this, plan, room](cudaStream_t on) -> Result<void> {
      const auto at = [](const DeviceMemory& memory) { return reinterpret_cast<const Bf16*>(memory.data()); };
      const std::int64_t head = problem_.seq * problem_.dim;
      return cuda::run_attention(plan, inputs(at(q_), at(k_), at(v_)),
                                 {{out_.data(), problem_.heads * head, head, problem_.dim}}, room, on);
    };
  }

  Checked check(std::size_t tactic) override {
    const auto plan = cuda::plan_attention(problem_, device_.ordinal, {family_.to_string(tactic)});
    if (!plan) return failed(plan.error());
    const auto room = workspace(plan->workspace_bytes());
    if (!room) return failed(room.error());
    const auto call = call_of(*plan, *room);
    if (const auto ran = run_once(call); !ran) return failed(ran.error());
    const check::OutputVerdict output = reference_->compare(host_out_.data());
    Checked checked{output.right ? Verdict::kOk : Verdict::kWrong, output.why, output.rel_l2, 0, 0};
    const bool beyond = std::any_of(host_out_.begin() + static_cast<std::ptrdiff_t>(out_bytes_), host_out_.end(),
                                    [](std::byte byte) { return byte != std::byte{kPoison}; });
    if (output.right && beyond) {
      checked.verdict = Verdict::kWrong;
      checked.why = "wrote past the end of the output";
    }
    if (checked.verdict != Verdict::kOk) return checked;
    Result<cuda::Graph> graph = timer_.capture(call);
    if (!graph) return failed(graph.error());
    sampler_.add(tactic, std::move(*graph));
    const auto ns = sampler_.replay_ns(tactic, Protocol::kWarm);
    if (!ns) return failed(ns.error());
    checked.call_ns = *ns;
    return checked;
  }

  /// A run into a poisoned output, which comes to the host.
  Result<void> run_once(const std::function<Result<void>(cudaStream_t)>& call) {
    const cuda::DeviceScope scope(device_.ordinal);
    PINCH_TRY(scope.ok());
    cudaStream_t stream = timer_.stream();
    PINCH_TRY(cuda::check(cudaMemsetAsync(out_.data(), kPoison, out_.bytes(), stream), "poisoning an output"));
    PINCH_TRY(call(stream));
    PINCH_TRY(cuda::check(cudaStreamSynchronize(stream), "running attention"));
    return cuda::check(cudaMemcpy(host_out_.data(), out_.data(), out_.bytes(), cudaMemcpyDeviceToHost),
                       "copying an output from the device");
  }

  AttentionProblem problem_;
  std::string sources_;
  const AttentionTacticFamily& family_;
  cuda::Device device_;
  Machine machine_;
  Resources resources_;
  Work work_;
  std::int64_t q_elements_, kv_elements_;
  std::size_t out_bytes_;
  Roofline roofline_;
  std::vector<Bf16> host_q_, host_k_, host_v_;
  std::vector<std::byte> host_out_;  ///< the output and the margin
  cuda::Timer timer_;
  DeviceMemory q_, k_, v_, out_;
  std::vector<DeviceMemory> workspaces_;
  std::unique_ptr<check::AttentionCheck> reference_;
  GraphSampler sampler_;
};

}  // namespace

Result<std::unique_ptr<Task>> make_cuda_attention_task(const AttentionProblem& problem, int ordinal,
                                                       const std::string& sources) {
  PINCH_TRY(check_rankable(gemm_trace_level()));
  PINCH_TRY(validate(problem));
  PINCH_ASSIGN(device, cuda::gemm_device(ordinal));
  PINCH_ASSIGN(timer, cuda::Timer::create(ordinal));
  return std::unique_ptr<Task>(std::make_unique<CudaAttentionTask>(problem, device, std::move(timer), sources));
}

}  // namespace pinch::ladder
