// Rates and latencies of one architecture's instructions, read from data/machines/*.json.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/program.h"

namespace pinch::sass {

/// Units of one sub-partition. Issue is one: an instruction that blocks the dispatch port for longer says so.
enum class Pipe : std::uint8_t {
  kIssue,
  kFma,
  kFmaHeavy,
  kHalf,
  kAlu,
  kF2fp,
  kXu,
  kLsu,
  kTensor,
  kUniform,
  kAsync,
  kControl
};
inline constexpr int kPipes = 12;
[[nodiscard]] std::string_view name_of(Pipe pipe);

inline constexpr int kSubPartitions = 4;
/// True for units that the sub-partitions of an SM share: shared memory and bulk copies. Alone, one takes its share of
/// the time that four take (lds128_wide on an H200: 131 cycles of one warp, 1024 of 16; data/sass/h200_loops.csv).
[[nodiscard]] constexpr bool is_shared_by_sm(Pipe pipe) {
  return pipe == Pipe::kLsu || pipe == Pipe::kAsync;
}

/// What one warp instruction costs. Cycles of one sub-partition with all sub-partitions of the SM alike.
struct Cost {
  std::array<float, kPipes> uses{};  ///< cycles that each pipe is taken
  float latency = 0;                 ///< cycles from issue to its result (write barrier released)
  float read_latency = 0;            ///< cycles from issue until its operands are read (read barrier released)
  bool measured = false;             ///< on the device; else `uncalibrated`
  bool listed = false;               ///< a row of the model names it; otherwise only its issue slot is counted
};

struct SchedulerRates {
  float taken_branch_cycles = 0;  ///< beyond the branch's own stall count
  float drain_cycles = 0;         ///< what a stall count of 0 costs
  bool drain_measured = false;    ///< on the device
  float wgmma_wait_cycles = 0;    ///< what a wait for one product adds to it; 0 where there is no wgmma
  float queue_cycles = 0;         ///< work that may wait in front of a variable-latency pipe before issue is blocked
  bool greedy = true;             ///< the policy that fits the device
};

class Machine {
 public:
  /// The model of an arch, "sm_90a"; a model without suffix also serves its suffixed arch and back.
  /// Errors: kUnsupported, naming the arch and the models there are.
  static Result<std::shared_ptr<const Machine>> of(std::string_view arch);
  /// A model from JSON text. Errors: kCorrupt, naming `name` and the field that is missing or wrong.
  static Result<Machine> parse(std::string_view json, const std::string& name);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const SchedulerRates& scheduler() const { return scheduler_; }
  /// What its rows match, in order: "ATOM", "ATOMG", ...
  [[nodiscard]] std::vector<std::string> instructions() const;
  /// The cost of an instruction: the row with the longest match on whole modifiers, scaled by width or shape.
  [[nodiscard]] Cost cost(const Instruction& instruction) const;

 private:
  struct Row {
    Cost cost;
    bool by_width = false;          ///< times the words moved a thread: .64 two, .128 four
    float tensor_cycles_per_n = 0;  ///< of 64xNxK
  };
  std::string name_;
  SchedulerRates scheduler_;
  std::unordered_map<std::string, Row> rows_;
};

}  // namespace pinch::sass
