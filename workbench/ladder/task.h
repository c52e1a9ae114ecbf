// One problem on one machine, ready to be tuned or benchmarked: what both need to know of it, whatever it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workbench/ladder/climb.h"
#include "workbench/ladder/machine.h"
#include "workbench/ladder/roofline.h"
#include "workbench/ladder/subject.h"
#include "workbench/measure/sampler.h"

namespace pinch::ladder {

/// What a call computes, for people and for bounds.
struct Work {
  std::string_view subject;  ///< "gemm", "attention"
  Knobs sizes;               ///< its problem, in the order that reports list
  std::string heading;       ///< the same in words
  std::string inputs;        ///< where they came from
  std::string_view numerics;
  double flops = 0;
  double least_bytes = 0;   ///< that a call must move: operands and result, each once
  double weight_bytes = 0;  ///< of those the weights, as a GEMM's peers hold their own
};

enum class RowKind : std::uint8_t {
  kTactic,
  kPeer,       ///< another library's product of the same operands
  kYardstick,  ///< what no product can beat: an empty call, one read of the weights' bytes
};
constexpr std::string_view to_string(RowKind kind) {
  return kind == RowKind::kTactic ? "tactic" : kind == RowKind::kPeer ? "peer" : "yardstick";
}

/// Something timed beside our tactics.
struct Rival {
  RowKind kind = RowKind::kPeer;
  std::string name;
  std::string numerics;
  std::size_t weight_bytes = 0;  ///< that one call reads
  std::size_t id = 0;            ///< for the sampler
  Checked checked;
};
struct Rivals {
  std::vector<Rival> list;
  std::vector<std::string> absent;  ///< "name: why", of those that cannot run
};

inline Error no_gpu_code() {
  return {ErrorCode::kIllegal, "a core that runs out of order chooses its own order; what is read is GPU code", ""};
}

class Task {
 public:
  virtual ~Task() = default;
  [[nodiscard]] virtual const Work& work() const = 0;
  [[nodiscard]] virtual const TacticList& family() const = 0;
  [[nodiscard]] virtual const Resources& resources() const = 0;
  [[nodiscard]] virtual const Machine& machine() const = 0;
  /// How samples are taken here, as far as the policy does not say it: part of the key of a stored result.
  [[nodiscard]] virtual std::string_view protocol() const = 0;

  /// Every legal tactic, best first. Errors: an invalid problem, no legal tactic.
  [[nodiscard]] virtual Result<std::vector<RankedTactic>> ranked() const = 0;
  /// Refuses a problem that would not fit into the memory that is free. Errors: kOutOfMemory.
  [[nodiscard]] virtual Result<void> check_memory(const measure::Policy& policy, bool with_rivals) const = 0;

  /// Makes the inputs and measures the machine's limits. Errors: what the library refuses.
  virtual Result<void> prepare(const measure::Policy& policy) = 0;

  // After prepare().
  [[nodiscard]] virtual const Roofline& roofline() const = 0;
  [[nodiscard]] virtual std::size_t weight_bytes() const = 0;    ///< of weights, or keys and values, that a call reads
  [[nodiscard]] virtual std::size_t cold_set_bytes() const = 0;  ///< that push them out between cold calls
  virtual Subject& subject() = 0;
  /// Takes the ids of tactics that the subject's check() found ok, and of rivals.
  virtual measure::Sampler& sampler() = 0;
  /// Makes and checks the rivals. A rival that fails or is wrong says so in its Checked.
  virtual Result<Rivals> rivals() = 0;
  /// Who waits inside a call of the tactic, from a twin with marks, which ranks nothing. Errors: kIllegal where the
  /// question makes no sense for the tactic; kUnsupported where there is no such twin; kInterrupted.
  virtual Result<Waiting> waits(const std::string& /*tactic*/, const std::function<bool()>& /*stop_requested*/) {
    return Error{ErrorCode::kUnsupported, "no twin of this kernel has marks", ""};
  }
  /// The hot loop of the tactic's kernel in this program's machine code. Errors: kIllegal where no GPU code runs; those
  /// of reading it.
  virtual Result<Code> code(const std::string& /*tactic*/) { return no_gpu_code(); }
};

/// bound_ns of the work. 0 where a rate is unknown.
inline double bound_ns(const Work& work, const Roofline& roofline, measure::Protocol protocol) {
  return bound_ns(work.flops, work.least_bytes, roofline, protocol);
}

}  // namespace pinch::ladder
