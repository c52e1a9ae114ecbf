#include "workbench/sass/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "workbench/sass/wgmma.h"

namespace pinch::sass {
namespace {

using Time = float;

struct Step {
  std::array<std::uint8_t, 4> pipes{};  // that it uses, besides issue
  std::array<Time, 4> cycles{};
  std::uint8_t pipe_count = 0;
  std::uint8_t wait_mask = 0, write_barrier = kNoBarrier, read_barrier = kNoBarrier;
  bool queues = false;
  bool starts_product = false, closes_group = false;  // wgmma: complete in the order of issue, waited for by group
  int groups_left = -1;                               // of a wait
  Time stall = 1, issue = 1, latency = 0, read_latency = 0;
};

struct Warp {
  Time ready = 0;
  Time last_issue = -1;
  std::array<Time, kMostGroupsLeft + 1> groups_done{};  // the newest groups of products, in a ring
  std::size_t groups = 0;
  std::array<Time, kScoreboards> released{};
  std::size_t at = 0;
  int iteration = 0;
};

std::vector<Step> compile(const LoopCode& code, const SchedulerRates& rates) {
  std::vector<Step> steps(code.costs.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    const Instruction& instruction = *code.instructions[i];
    const Cost& cost = code.costs[i];
    step.issue = cost.uses[0];
    for (std::size_t p = 1; p < cost.uses.size() && step.pipe_count < step.pipes.size(); ++p) {
      if (cost.uses[p] <= 0) continue;
      step.pipes[step.pipe_count] = static_cast<std::uint8_t>(p);
      step.cycles[step.pipe_count++] = cost.uses[p];
      step.queues |= p == static_cast<std::size_t>(Pipe::kXu) || p == static_cast<std::size_t>(Pipe::kLsu);
    }
    step.starts_product = is_wgmma(instruction.base());
    step.closes_group = step.starts_product && closes_group(instruction);
    step.groups_left = groups_left(instruction);
    step.latency = cost.latency;
    step.read_latency = cost.read_latency;
    if (!instruction.has_word) continue;
    const Control& control = instruction.control;
    step.stall = control.stall == 0 ? rates.drain_cycles : static_cast<Time>(control.stall);
    step.wait_mask = control.wait_mask;
    step.write_barrier = control.write_barrier;
    step.read_barrier = control.read_barrier;
  }
  if (!steps.empty()) steps.back().stall += rates.taken_branch_cycles;
  return steps;
}

class Scheduler {
 public:
  Scheduler(const std::vector<Step>& steps, const SchedulerRates& rates, int warps, Policy policy)
      : steps_(steps), rates_(rates), policy_(policy), warps_(static_cast<std::size_t>(warps)) {}

  // Time until which a pipe, or the issue port, is busy.
  Time busy_until() const { return *std::max_element(free_.begin(), free_.end()); }

  // Time at which the last warp has run `iterations`, counted from the first run.
  Time run(int iterations) {
    Time end = 0;
    std::size_t running = warps_.size();
    std::size_t last = 0;
    Time slot = free_[static_cast<std::size_t>(Pipe::kIssue)];
    while (running > 0) {
      const std::size_t chosen = choose(slot, last, iterations);
      Warp& warp = warps_[chosen];
      const Step& step = steps_[warp.at];
      issue(warp, step, slot);
      last = chosen;
      slot += step.issue;
      if (++warp.at == steps_.size()) {
        warp.at = 0;
        if (++warp.iteration == iterations) {
          --running;
          end = std::max(end, warp.ready);
        }
      }
    }
    free_[static_cast<std::size_t>(Pipe::kIssue)] = slot;
    return end;
  }

 private:
  // Earliest time at which `warp` can issue its next instruction.
  Time earliest(const Warp& warp) const {
    const Step& step = steps_[warp.at];
    Time time = warp.ready;
    for (unsigned mask = step.wait_mask; mask != 0; mask &= mask - 1) {
      time = std::max(time, warp.released[static_cast<std::size_t>(__builtin_ctz(mask))]);
    }
    if (step.groups_left >= 0) {  // all groups but that many, of which the newest is done last
      const std::size_t awaited =
          warp.groups + warp.groups_done.size() - 1 - static_cast<std::size_t>(step.groups_left);
      time = std::max(time, warp.groups_done[awaited % warp.groups_done.size()]);
    }
    const Time slack = step.starts_product ? kNever : step.queues ? rates_.queue_cycles : 0;
    for (int p = 0; p < step.pipe_count; ++p)
      time = std::max(time, free_[step.pipes[static_cast<std::size_t>(p)]] - slack);
    return time;
  }

  // The warp to issue at the first moment from `slot` at which one can; `slot` becomes that moment.
  std::size_t choose(Time& slot, std::size_t last, int iterations) {
    Time first = kNever;
    times_.resize(warps_.size());
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      times_[w] = warps_[w].iteration < iterations ? earliest(warps_[w]) : kNever;
      first = std::min(first, times_[w]);
    }
    slot = std::max(slot, first);
    const bool stays = policy_ == Policy::kGreedy && times_[last] <= slot;
    if (stays) return last;
    std::size_t best = warps_.size();
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      if (times_[w] > slot) continue;
      const bool better =
          best == warps_.size() || (policy_ == Policy::kFair ? warps_[w].last_issue < warps_[best].last_issue : true);
      if (better) best = w;  // greedy: the youngest
    }
    return best;
  }

  void issue(Warp& warp, const Step& step, Time slot) {
    Time start = slot;
    for (int p = 0; p < step.pipe_count; ++p) {
      Time& free = free_[step.pipes[static_cast<std::size_t>(p)]];
      start = std::max(start, free);
      free = std::max(free, slot) + step.cycles[static_cast<std::size_t>(p)];
    }
    if (step.closes_group)
      warp.groups_done[warp.groups++ % warp.groups_done.size()] =
          free_[static_cast<std::size_t>(Pipe::kTensor)] + step.latency;
    if (step.write_barrier < kScoreboards) raise(warp.released[step.write_barrier], start + step.latency);
    if (step.read_barrier < kScoreboards) raise(warp.released[step.read_barrier], start + step.read_latency);
    warp.ready = slot + step.stall;
    warp.last_issue = slot;
  }

  // A scoreboard counts: it is free when the last of what it counts is done.
  static void raise(Time& released, Time time) { released = std::max(released, time); }

  static constexpr Time kNever = 1e30f;
  const std::vector<Step>& steps_;
  const SchedulerRates& rates_;
  Policy policy_;
  std::vector<Warp> warps_;
  std::vector<Time> times_;
  std::array<Time, kPipes> free_{};
};

// Enough iterations that the pattern repeats, few enough that long loops stay cheap. Groups that a wait leaves in
// flight may be of as many iterations before.
int iterations_for(const std::vector<Step>& steps) {
  constexpr std::size_t kInstructions = 128;
  int left = 0;
  for (const Step& step : steps) left = std::max(left, step.groups_left);
  return std::max(left + 2, static_cast<int>(std::clamp<std::size_t>(kInstructions / steps.size(), 2, 4)));
}

int slot_of(const RegisterRange& range, int i) {
  constexpr int kFirst[] = {0, 256, 512, 520};  // general, uniform, predicates, uniform predicates
  const int size = range.file == RegisterFile::kGeneral || range.file == RegisterFile::kUniform ? 256 : 8;
  return kFirst[static_cast<int>(range.file)] + std::min(range.first + i, size - 1);
}

}  // namespace

LoopCode loop_code(const Kernel& kernel, std::span<const int> path, const Machine& machine, KnownMnemonics& known) {
  LoopCode code;
  code.instructions.reserve(path.size());
  code.costs.reserve(path.size());
  code.accesses.reserve(path.size());
  for (const int i : path) {
    code.instructions.push_back(&kernel.instructions[static_cast<std::size_t>(i)]);
    const Instruction& instruction = *code.instructions.back();
    const auto [slot, is_new] = known.try_emplace(instruction.mnemonic);
    if (is_new) slot->second = {machine.cost(instruction), shape_of(instruction)};
    code.costs.push_back(slot->second.cost);
    code.accesses.push_back(registers_of(instruction, slot->second.shape));
  }
  return code;
}

double simulated_cycles(const LoopCode& code, const Machine& machine, int warps, Policy policy) {
  if (code.costs.empty() || warps < 1) return 0;
  const std::vector<Step> steps = compile(code, machine.scheduler());
  const int few = iterations_for(steps), many = 3 * few;
  Scheduler shorter(steps, machine.scheduler(), warps, policy);
  const Time short_run = shorter.run(few);
  // One warp goes on where it stopped; of several, some stood idle at the end of the short run.
  const Time long_run = warps == 1 ? shorter.run(many) : Scheduler(steps, machine.scheduler(), warps, policy).run(many);
  return static_cast<double>(long_run - short_run) / (many - few);
}

double total_cycles(const LoopCode& code, const Machine& machine, int warps, Policy policy, int iterations) {
  if (code.costs.empty() || warps < 1) return 0;
  const std::vector<Step> steps = compile(code, machine.scheduler());
  Scheduler scheduler(steps, machine.scheduler(), warps, policy);
  const Time ended = scheduler.run(iterations);
  return std::max(ended, scheduler.busy_until());
}

double dependency_cycles(const LoopCode& code) {
  const std::vector<Access>& accesses = code.accesses;
  // Every instruction as soon as its operands are there: what remains is the growth an iteration of the longest chain.
  std::array<double, 528> ready{};   // a register's value is there
  std::array<double, 528> summed{};  // a wgmma may add to it
  const auto latest = [&] {
    double time = 0;
    for (const Access& access : accesses) {
      for (const RegisterRange& range : access.writes)
        time = std::max(time, ready[static_cast<std::size_t>(slot_of(range, 0))]);
    }
    return time;
  };
  constexpr int kIterations = 6, kSettled = 2;
  double settled = 0;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const bool is_product = is_wgmma(code.instructions[i]->base());
      const auto accumulates = [&](const RegisterRange& read) {
        return is_product && !accesses[i].writes.empty() && read.first == accesses[i].writes.begin()->first &&
               read.file == RegisterFile::kGeneral;
      };
      double start = 0;
      for (const RegisterRange& range : accesses[i].reads) {
        const auto& available = accumulates(range) ? summed : ready;
        for (int r = 0; r < range.count; ++r)
          start = std::max(start, available[static_cast<std::size_t>(slot_of(range, r))]);
      }
      const double added =
          start + (is_product ? code.costs[i].uses[static_cast<std::size_t>(Pipe::kTensor)] : code.costs[i].latency);
      const double done = is_product ? added + code.costs[i].latency : added;
      for (const RegisterRange& range : accesses[i].writes) {
        for (int r = 0; r < range.count; ++r) {
          ready[static_cast<std::size_t>(slot_of(range, r))] = done;
          summed[static_cast<std::size_t>(slot_of(range, r))] = added;
        }
      }
    }
    if (iteration == kSettled - 1) settled = latest();
  }
  const double end = latest();
  return (end - settled) / (kIterations - kSettled);
}

}  // namespace pinch::sass
