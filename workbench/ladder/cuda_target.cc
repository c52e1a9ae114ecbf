#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "pinch/gemm.h"
#include "pinch/gemm_cuda.h"
#include "src/core/temporary_folder.h"
#include "workbench/cuda/cublas.h"
#include "workbench/cuda/gemm_check.h"
#include "workbench/cuda/operands.h"
#include "workbench/ladder/cuda_measure.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/ladder/waiting.h"
#include "workbench/trace/cuda_kernels.h"

namespace pinch::ladder {

namespace {

using cuda::DeviceMemory;
using cuda::Graph;
using measure::Protocol;
using measure::Verdict;

constexpr std::uint64_t kActivationSeed = 11;
constexpr std::size_t kMarginBytes = 4096;  // behind the output, that no call may touch
constexpr int kPoison = 0xff;               // a NaN in bf16 and in FP32

Bf16* bf16(const DeviceMemory& memory) {
  return reinterpret_cast<Bf16*>(memory.data());
}

/// What every problem of one set of weights shares.
struct CudaContext {
  cuda::Device device;
  cuda::Timer timer;
  Result<cuda::Cublas> cublas;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Fp4Format format = Fp4Format::kNvfp4;
  std::unique_ptr<cuda::PreparedWeights> weights;
  DeviceMemory dense;  ///< [n, k] bf16, without alpha
};

/// Ids below the family's size are tactics, the others rivals.
class CudaCase final : public GemmCase, private Subject {
 public:
  static Result<std::unique_ptr<GemmCase>> create(const CudaContext& context, const TacticFamily& family,
                                                  const Resources& resources, std::int64_t m, OutputType output) {
    std::unique_ptr<CudaCase> made(new CudaCase(context, family, resources));
    made->problem_ = {m, context.n, context.k, context.format, output};
    PINCH_TRY(validate(made->problem_));
    PINCH_TRY(made->allocate());
    return std::unique_ptr<GemmCase>(std::move(made));
  }

  Subject& subject() override { return *this; }
  measure::Sampler& sampler() override { return sampler_; }

  Result<Rivals> rivals() override {
    Rivals rivals;
    std::size_t id = family_.size();
    const auto add = [&](Rival rival, const std::function<Result<void>(cudaStream_t)>& work) -> Result<void> {
      rival.id = id++;
      if (rival.checked.verdict == Verdict::kOk) {
        PINCH_ASSIGN(graph, context_.timer.capture(work));
        sampler_.add(rival.id, std::move(graph));
        PINCH_ASSIGN(ns, sampler_.replay_ns(rival.id, Protocol::kCold));
        rival.checked.call_ns = ns;
      }
      rivals.list.push_back(std::move(rival));
      return {};
    };
    if (context_.cublas) {
      Rival rival{RowKind::kPeer,
                  fmt::format("cuBLAS {} bf16", cublas_version()),
                  "bf16 weights, exact; FP32 sums",
                  context_.dense.bytes(),
                  0,
                  check_cublas()};
      PINCH_TRY(add(std::move(rival), [&](cudaStream_t) { return run_cublas(); }));
    } else {
      rivals.absent.push_back(context_.cublas.error().message());
    }
    const std::size_t bytes = context_.weights->bytes();
    PINCH_TRY(
        add({RowKind::kYardstick, "read of the weights", "one pass over their bytes", bytes, 0, {}},
            [&](cudaStream_t stream) { return context_.timer.enqueue_read(context_.weights->data(), bytes, stream); }));
    PINCH_TRY(add({RowKind::kYardstick, "empty kernel", "what events and a replay cost", 0, 0, {}},
                  [](cudaStream_t stream) { return cuda::Timer::enqueue_null(stream); }));
    return rivals;
  }

  Result<Code> code(const std::string& tactic) override {
    PINCH_ASSIGN(plan, cuda::plan_gemm(*context_.weights, problem_.m, {tactic, problem_.output}));
    PINCH_ASSIGN(room, workspace(plan.workspace_bytes()));
    return code_of_call(context_.timer, context_.device.sm_count, call_of(plan, room));
  }

 private:
  CudaCase(const CudaContext& context, const TacticFamily& family, const Resources& resources)
      : context_(context), family_(family), resources_(resources), sampler_(context.timer) {}

  [[nodiscard]] const TacticFamily& family() const override { return family_; }
  [[nodiscard]] Result<std::vector<RankedTactic>> ranked() const override {
    return rank_tactics(family_, problem_, resources_);
  }

  [[nodiscard]] int device() const { return context_.device.ordinal; }
  [[nodiscard]] cudaStream_t stream() const { return context_.timer.stream(); }
  [[nodiscard]] std::string cublas_version() const {
    const int version = context_.cublas->version();
    return fmt::format("{}.{}", version / 10000, version / 100 % 100);
  }

  Result<void> allocate() {
    const std::size_t element = problem_.output == OutputType::kBf16 ? sizeof(Bf16) : sizeof(float);
    out_bytes_ = static_cast<std::size_t>(problem_.m * problem_.n) * element;
    PINCH_ASSIGN(a, DeviceMemory::allocate(device(), static_cast<std::size_t>(problem_.m * problem_.k) * sizeof(Bf16)));
    PINCH_ASSIGN(out, DeviceMemory::allocate(device(), out_bytes_ + kMarginBytes));
    a_ = std::move(a);
    out_ = std::move(out);
    PINCH_TRY(cuda::enqueue_random_bf16(bf16(a_), problem_.m * problem_.k, kActivationSeed, stream()));
    PINCH_ASSIGN(reference, cuda::GemmCheck::create({bf16(a_), bf16(context_.dense), context_.weights->alpha(),
                                                     problem_.m, problem_.n, problem_.k, problem_.output},
                                                    device(), stream()));
    reference_ = std::make_unique<cuda::GemmCheck>(std::move(reference));
    return {};
  }

  /// A workspace that is replaced would leave captured graphs with its memory, so outgrown ones are kept.
  Result<std::span<std::byte>> workspace(std::size_t bytes) {
    if (workspaces_.empty() || workspaces_.back().bytes() < bytes) {
      PINCH_ASSIGN(memory, DeviceMemory::allocate(device(), std::max<std::size_t>(bytes, std::size_t{1} << 20)));
      workspaces_.push_back(std::move(memory));
    }
    const std::span<std::byte> whole(workspaces_.back().data(), workspaces_.back().bytes());
    PINCH_TRY(cuda::clear_workspace(whole, device(), stream()));
    return whole;
  }

  [[nodiscard]] std::function<Result<void>(cudaStream_t)> call_of(const cuda::GemmPlan& plan,
                                                                  std::span<std::byte> room) const {
    return [this, plan, room](cudaStream_t on) {
      return cuda::run_gemm(plan, bf16(a_), problem_.k, out_.data(), problem_.n, room, on);
    };
  }

  Checked check(std::size_t tactic) override {
    const auto failed = [](const Error& error) {
      const Verdict verdict = error.code == ErrorCode::kIllegal ? Verdict::kIllegal : Verdict::kLaunchFailed;
      return Checked{verdict, error.message(), std::nullopt, 0, 0};
    };
    const auto plan = cuda::plan_gemm(*context_.weights, problem_.m, {family_.to_string(tactic), problem_.output});
    if (!plan) return failed(plan.error());
    const auto room = workspace(plan->workspace_bytes());
    if (!room) return failed(room.error());
    const auto work = call_of(*plan, *room);
    Checked checked = compare(work);
    if (checked.verdict != Verdict::kOk) return checked;
    Result<Graph> graph = context_.timer.capture(work);
    if (!graph) return failed(graph.error());
    sampler_.add(tactic, std::move(*graph));
    const auto ns = sampler_.replay_ns(tactic, Protocol::kCold);
    if (!ns) return failed(ns.error());
    checked.call_ns = *ns;
    return checked;
  }

  Checked check_cublas() const {
    return compare([&](cudaStream_t) { return run_cublas(); });
  }
  Result<void> run_cublas() const {
    return context_.cublas->run(
        a_.data(), context_.dense.data(), out_.data(),
        problem_.output == OutputType::kBf16 ? cuda::CublasOutput::kBf16 : cuda::CublasOutput::kF32,
        context_.weights->alpha(), problem_.m, problem_.n, problem_.k);
  }

  /// One run into a poisoned output, compared.
  Checked compare(const std::function<Result<void>(cudaStream_t)>& work) const {
    const auto failed = [](const Error& error) {
      return Checked{Verdict::kLaunchFailed, error.message(), std::nullopt, 0, 0};
    };
    if (const auto poisoned =
            cuda::check(cudaMemsetAsync(out_.data(), kPoison, out_.bytes(), stream()), "poisoning an output");
        !poisoned) {
      return failed(poisoned.error());
    }
    if (const auto ran = work(stream()); !ran) return failed(ran.error());
    const auto output = reference_->compare(out_.data());
    if (!output) return failed(output.error());
    if (!output->right) return {Verdict::kWrong, output->why, output->rel_l2, 0, 0};
    std::array<std::uint8_t, kMarginBytes> margin{};
    if (const auto copied = cuda::check(
            cudaMemcpy(margin.data(), out_.data() + out_bytes_, kMarginBytes, cudaMemcpyDeviceToHost), "comparing");
        !copied) {
      return failed(copied.error());
    }
    if (std::any_of(margin.begin(), margin.end(), [](std::uint8_t byte) { return byte != kPoison; })) {
      return {Verdict::kWrong, "wrote past the end of the output", output->rel_l2, 0, 0};
    }
    return {Verdict::kOk, "", output->rel_l2, 0, 0};
  }

  const CudaContext& context_;
  const TacticFamily& family_;
  const Resources& resources_;
  GemmProblem problem_;
  DeviceMemory a_;
  DeviceMemory out_;
  std::size_t out_bytes_ = 0;
  std::unique_ptr<cuda::GemmCheck> reference_;
  std::vector<DeviceMemory> workspaces_;
  GraphSampler sampler_;
};

/// Copies host bytes to new memory of a device.
Result<DeviceMemory> upload(int device, std::span<const std::uint8_t> bytes) {
  PINCH_ASSIGN(memory, DeviceMemory::allocate(device, bytes.size()));
  const cuda::DeviceScope scope(device);
  PINCH_TRY(scope.ok());
  PINCH_TRY(cuda::check(cudaMemcpy(memory.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                        "copying weights to the device"));
  return std::move(memory);
}

class CudaTarget final : public GemmTarget {
 public:
  CudaTarget(const TacticFamily& family, CudaContext context, std::string sources)
      : family_(family),
        sources_(std::move(sources)),
        context_(std::move(context)),
        machine_(describe_device(context_.device)),
        resources_{context_.device.sm_count, 0} {}

  [[nodiscard]] const TacticFamily& family() const override { return family_; }
  [[nodiscard]] const Resources& resources() const override { return resources_; }
  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::string_view protocol() const override { return kCudaProtocol; }

  [[nodiscard]] Result<void> check_memory(const GemmProblem& problem, const measure::Policy&, bool) const override {
    const cuda::DeviceScope scope(context_.device.ordinal);
    PINCH_TRY(scope.ok());
    std::size_t free = 0, total = 0;
    PINCH_TRY(cuda::check(cudaMemGetInfo(&free, &total), "asking for the memory that is free"));
    const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n),
                 k = static_cast<double>(problem.k);
    // Weights canonical, prepared and dense, signed sums of them; activations; an output; sums of its rows.
    const double bytes = n * k * (2 * 0.5625 + 2) + n * k / 16 + 2 * m * k + 4 * m * n + m * n / 8;
    if (bytes <= 0.9 * static_cast<double>(free)) return {};
    return Error{ErrorCode::kOutOfMemory,
                 fmt::format("m {} n {} k {} needs about {:.1f} GiB and {:.1f} GiB of the device's memory are free; "
                             "give smaller sizes",
                             problem.m, problem.n, problem.k, bytes / 0x1p30, static_cast<double>(free) / 0x1p30),
                 "problem"};
  }

  Result<void> prepare(Fp4Matrix weights, const measure::Policy&) override {
    const int device = context_.device.ordinal;
    const cuda::DeviceScope scope(device);
    PINCH_TRY(scope.ok());
    PINCH_ASSIGN(codes, upload(device, weights.codes));
    PINCH_ASSIGN(scales, upload(device, weights.scales));
    Fp4View view = weights.view();
    view.codes = reinterpret_cast<const std::uint8_t*>(codes.data());
    view.scales = reinterpret_cast<const std::uint8_t*>(scales.data());
    PINCH_ASSIGN(prepared, cuda::prepare_weights(view, device, context_.timer.stream()));
    PINCH_ASSIGN(dense, DeviceMemory::allocate(device, static_cast<std::size_t>(view.n * view.k) * sizeof(Bf16)));
    PINCH_TRY(cuda::enqueue_dequantise(view, bf16(dense), context_.timer.stream()));
    PINCH_TRY(cuda::check(cudaStreamSynchronize(context_.timer.stream()), "dequantising weights"));
    context_.n = view.n;
    context_.k = view.k;
    context_.format = view.format;
    context_.dense = std::move(dense);
    context_.weights = std::make_unique<cuda::PreparedWeights>(std::move(prepared));
    PINCH_ASSIGN(limits, measure_cuda_roofline(context_.timer, context_.cublas, context_.weights->data(),
                                               context_.weights->bytes()));
    roofline_ = limits;
    return {};
  }

  [[nodiscard]] const Roofline& roofline() const override { return roofline_; }
  [[nodiscard]] std::size_t weight_bytes() const override { return context_.weights->bytes(); }
  [[nodiscard]] std::size_t cold_set_bytes() const override { return cuda::Timer::kFlushBytes; }

  Result<std::unique_ptr<GemmCase>> problem(std::int64_t m, OutputType output) override {
    return CudaCase::create(context_, family_, resources_, m, output);
  }

  Result<Waiting> waits(const GemmProblem& problem, const std::string& tactic,
                        const std::function<bool()>& stop_requested) override {
    PINCH_ASSIGN(folder, TemporaryFolder::create());
    PINCH_ASSIGN(compiled, trace::compile_cuda_gemm(problem, waiting_kernel(tactic, sources_, folder.path(),
                                                                            context_.device, stop_requested)));
    return trace_waiting(std::move(compiled), folder.path(), stop_requested);
  }

 private:
  const TacticFamily& family_;
  std::string sources_;
  CudaContext context_;
  Machine machine_;
  Resources resources_;
  Roofline roofline_;
};

}  // namespace

Result<std::unique_ptr<GemmTarget>> make_cuda_target(int ordinal, const std::string& sources) {
  PINCH_TRY(check_rankable(gemm_trace_level()));
  PINCH_ASSIGN(device, cuda::gemm_device(ordinal));
  PINCH_ASSIGN(timer, cuda::Timer::create(ordinal));
  auto cublas = cuda::Cublas::open(ordinal, timer.stream());
  CudaContext context{device, std::move(timer), std::move(cublas), 0, 0, Fp4Format::kNvfp4, nullptr, {}};
  return std::unique_ptr<GemmTarget>(std::make_unique<CudaTarget>(cuda::built_tactics(), std::move(context), sources));
}

}  // namespace pinch::ladder
