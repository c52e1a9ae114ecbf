#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "pinch/families.h"
#include "workbench/ladder/gemm_subject.h"
#include "workbench/ladder/gemm_target.h"
#include "workbench/ladder/waiting.h"
#include "workbench/measure/host_sampler.h"
#include "workbench/measure/limits.h"
#include "workbench/peers/peer_module.h"

namespace pinch::ladder {

namespace {

using measure::Protocol;
using measure::Verdict;

/// A peer with weights of its own in the peer's layout: the first warm, the others cold, and an output of its own type.
class PeerSubject {
 public:
  PeerSubject(std::unique_ptr<peers::Peer> peer, const GemmProblem& problem)
      : peer_(std::move(peer)),
        out_(static_cast<std::size_t>(problem.m * problem.n) *
                 (peer_->output() == OutputType::kBf16 ? sizeof(Bf16) : sizeof(float)),
             std::byte{0xff}) {}

  [[nodiscard]] const peers::Peer& peer() const { return *peer_; }

  Result<void> prepare(const Fp4Matrix& weights, std::size_t cold_bytes) {
    PINCH_TRY(peer_->add_weights(weights.view()));
    count_ = 1 + std::max<std::size_t>(2, (cold_bytes - 1) / peer_->weight_bytes() + 1);
    for (std::size_t variant = 1; variant < count_; ++variant) {
      PINCH_TRY(peer_->add_weights(other_weights(weights, variant).view()));
    }
    return {};
  }

  Result<void> run(Protocol protocol, int calls) {
    for (int i = 0; i < calls; ++i) {
      if (protocol == Protocol::kCold) next_ = next_ + 1 < count_ ? next_ + 1 : 1;
      PINCH_TRY(peer_->run(protocol == Protocol::kCold ? next_ : 0, out_.data()));
    }
    return {};
  }

  Checked check(const Fp4View& weights, std::span<const Bf16> a, const GemmProblem& problem, int threads) {
    measure::SystemClock clock;
    constexpr std::int64_t kReferenceRows = 8;
    auto reference = check::GemmCheck::create(weights, a, problem.m, peer_->output(), kReferenceRows, /*seed=*/13);
    if (!reference) return {Verdict::kLaunchFailed, reference.error().message(), std::nullopt, threads, 0};
    if (const auto ran = run(Protocol::kWarm, 1); !ran) {
      return {Verdict::kLaunchFailed, ran.error().message(), std::nullopt, threads, 0};
    }
    const check::OutputVerdict output = reference->compare(out_.data());
    if (!output.right) return {Verdict::kWrong, output.why, output.rel_l2, threads, 0};
    const double start = clock.wall_ns();
    if (const auto ran = run(Protocol::kWarm, 1); !ran) {
      return {Verdict::kLaunchFailed, ran.error().message(), output.rel_l2, threads, 0};
    }
    return {Verdict::kOk, "", output.rel_l2, threads, clock.wall_ns() - start};
  }

 private:
  std::unique_ptr<peers::Peer> peer_;
  std::vector<std::byte> out_;
  std::size_t count_ = 1;
  std::size_t next_ = 0;
};

/// Ids below the family's size are tactics, the others peers.
class CpuCase final : public GemmCase, private measure::Runner {
 public:
  CpuCase(const PreparedSet& set, std::unique_ptr<GemmSubject> ours, std::size_t cold_bytes)
      : set_(set), ours_(std::move(ours)), cold_bytes_(cold_bytes), meter_(clock_), sampler_(*this, clock_, meter_) {}

  Subject& subject() override { return *ours_; }
  measure::Sampler& sampler() override { return sampler_; }

  Result<Rivals> rivals() override {
    const GemmProblem& problem = ours_->problem();
    const int threads = ours_->resources().threads;
    peers::PeerList list = peers::make_peers({problem, ours_->activations().data(), threads});
    Rivals rivals{{}, std::move(list.absent)};
    for (std::unique_ptr<peers::Peer>& peer : list.peers) {
      PeerSubject subject(std::move(peer), problem);
      PINCH_TRY(subject.prepare(set_.matrix(), cold_bytes_));
      const std::size_t id = ours_->family().size() + peers_.size();
      Rival rival{RowKind::kPeer,
                  subject.peer().name(),
                  subject.peer().numerics(),
                  subject.peer().weight_bytes(),
                  id,
                  subject.check(set_.view(), ours_->activations(), problem, threads)};
      rivals.list.push_back(std::move(rival));
      peers_.emplace(id, std::move(subject));
    }
    return rivals;
  }

 private:
  Result<void> ready(std::size_t id, Protocol protocol, int calls) override {
    return peers_.contains(id) ? Result<void>() : ours_->ready(id, protocol, calls);
  }
  Result<void> run(std::size_t id, Protocol protocol, int calls) override {
    const auto peer = peers_.find(id);
    return peer != peers_.end() ? peer->second.run(protocol, calls) : ours_->run(id, protocol, calls);
  }

  const PreparedSet& set_;
  std::unique_ptr<GemmSubject> ours_;
  std::size_t cold_bytes_;
  std::map<std::size_t, PeerSubject> peers_;
  measure::SystemClock clock_;
  measure::AddChain meter_;
  measure::HostSampler sampler_;
};

class CpuTarget final : public GemmTarget {
 public:
  CpuTarget(const TacticFamily& family, Machine machine, int threads)
      : family_(family), machine_(std::move(machine)), resources_{0, threads} {}

  [[nodiscard]] const TacticFamily& family() const override { return family_; }
  [[nodiscard]] const Resources& resources() const override { return resources_; }
  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::string_view protocol() const override { return "calls"; }

  [[nodiscard]] Result<void> check_memory(const GemmProblem& problem, const measure::Policy& policy,
                                          bool with_rivals) const override {
    const std::size_t sets = with_rivals ? 4 : 1;  // ours and three peers'
    return ladder::check_memory(problem, sets * measure::cold_set_bytes(policy));
  }

  Result<void> prepare(Fp4Matrix weights, const measure::Policy& policy) override {
    cold_bytes_ = measure::cold_set_bytes(policy);
    const std::size_t weight_bytes = weights.codes.size() + weights.scales.size();
    PINCH_ASSIGN(roofline, measure_roofline(resources_.threads, cold_bytes_, weight_bytes));
    roofline_ = roofline;
    PINCH_ASSIGN(set, PreparedSet::create(std::move(weights), cold_bytes_));
    set_ = std::make_unique<PreparedSet>(std::move(set));
    return {};
  }

  [[nodiscard]] const Roofline& roofline() const override { return roofline_; }
  [[nodiscard]] std::size_t weight_bytes() const override { return set_->warm().bytes(); }
  [[nodiscard]] std::size_t cold_set_bytes() const override { return set_->cold_bytes(); }

  Result<std::unique_ptr<GemmCase>> problem(std::int64_t m, OutputType output) override {
    PINCH_ASSIGN(subject, GemmSubject::create(*set_, m, output, resources_.threads));
    return std::unique_ptr<GemmCase>(std::make_unique<CpuCase>(*set_, std::move(subject), cold_bytes_));
  }

  Result<Waiting> waits(const GemmProblem& problem, const std::string& tactic,
                        const std::function<bool()>& stop_requested) override {
    PINCH_ASSIGN(subject, trace::gemm_subject(set_->view(), problem.m, {tactic, resources_.threads, problem.output}));
    return trace_waiting(subject, stop_requested);
  }

 private:
  const TacticFamily& family_;
  Machine machine_;
  Resources resources_;
  Roofline roofline_;
  std::size_t cold_bytes_ = 0;
  std::unique_ptr<PreparedSet> set_;
};

}  // namespace

Result<void> check_rankable(int trace_level) {
  if (trace_level == 0) return {};
  return Error{ErrorCode::kIllegal,
               fmt::format("these kernels are instrumented (PINCH_TRACE_LEVEL={}) and their times rank nothing; build "
                           "without it",
                           trace_level),
               ""};
}

Result<std::unique_ptr<GemmTarget>> make_cpu_target(int threads) {
  PINCH_TRY(check_rankable(gemm_trace_level()));
  PINCH_ASSIGN(family, find_tactic_family("cpu"));
  PINCH_ASSIGN(machine, describe_machine());
  return std::unique_ptr<GemmTarget>(std::make_unique<CpuTarget>(*family, std::move(machine), threads));
}

}  // namespace pinch::ladder
