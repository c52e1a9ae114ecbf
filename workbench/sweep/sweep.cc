#include "workbench/sweep/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "src/core/fnv.h"

namespace pinch::sweep {
namespace {

using measure::Verdict;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostPoints = 1'000'000;
constexpr double kMostRows = 4096;
constexpr std::size_t kFinalists = 4;
constexpr int kDecidingRounds = 100'000;  // their numbers follow those of any --repeats

// Fisher and Yates with a remainder, so that a seed gives one order with every standard library.
template <class T>
void shuffle(std::vector<T>& list, std::mt19937_64& random) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random() % i]);
}

// Runs trials by rounds and keeps what they say. A point keeps to one device, so that its samples are of one kind;
// which one the seed decides, so that no knob goes with a device. The default runs on each, and points of two devices
// are compared by how they stand to it.
class Run {
 public:
  Run(const Space& space, const Subject& subject, Executor& executor, const Options& options, const Hooks& hooks,
      const std::vector<Choice>& plan)
      : space_(space),
        executor_(executor),
        options_(options),
        hooks_(hooks),
        size_(plan.size()),
        problem_(problem_text(subject, space.problem())),
        change_(subject.change),
        random_(options.seed ^ fnv(problem_)) {
    for (const std::string& device : options.devices) {
      if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) devices_.push_back(device);
    }
    if (devices_.empty()) devices_.emplace_back();
    for (const Choice& choice : plan) add_point(choice, devices_.front());
    std::vector<std::size_t> others(size_ - 1);
    for (std::size_t i = 0; i < others.size(); ++i) others[i] = i + 1;
    std::mt19937_64 order(options.seed + fnv(problem_));
    shuffle(others, order);
    for (std::size_t i = 0; i < others.size(); ++i) points_[others[i]].device = devices_[(i + 1) % devices_.size()];
    for (std::size_t i = 1; i < devices_.size(); ++i) add_point(plan.front(), devices_[i]);
  }

  void restore(const std::vector<StoredTrial>& stored) {
    for (const StoredTrial& each : stored) {
      if (each.key.problem == problem_) known_.emplace(each.key, each);
    }
  }

  /// The points of the plan, then the default on every device but the first.
  [[nodiscard]] std::vector<Measured>& points() { return points_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  [[nodiscard]] bool ended() const { return stopped() || over_budget(); }
  [[nodiscard]] bool stopped() const { return interrupted_ || (hooks_.stop_requested && hooks_.stop_requested()); }
  [[nodiscard]] Costs costs() const { return {points_, 0, options_.policy.lower_is_better}; }
  [[nodiscard]] Pick picked() const { return pick(points_, 0, options_.policy); }
  /// Every point and the default's twin, `rounds` times.
  void expect(int rounds) { expected_ = (points_.size() + devices_.size()) * static_cast<std::size_t>(rounds); }

  /// One process a point, in a random order, with a second one of the default in between.
  Result<void> round(const std::vector<std::size_t>& active, int number, bool twin = true) {
    std::vector<Job> jobs;
    for (const std::size_t point : active) {
      if (points_[point].verdict == Verdict::kOk) jobs.push_back({point, key(point, Role::kSample, number)});
    }
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      const std::size_t standard = standard_on(devices_[device]);
      if (points_[standard].verdict != Verdict::kOk || !uses(jobs, devices_[device])) continue;
      const std::vector<int>& seen = points_[standard].rounds;
      const bool there = std::find(active.begin(), active.end(), standard) != active.end() ||
                         std::find(seen.begin(), seen.end(), number) != seen.end();
      if (devices_.size() > 1 && !there) jobs.push_back({standard, key(standard, Role::kSample, number)});
      if (twin) jobs.push_back({standard, key(standard, Role::kTwin, number)});
    }
    // A stream of its own for each round: the order does not depend on what a resumed run left out.
    std::mt19937_64 order(options_.seed * 1'000'003 + fnv(problem_) + static_cast<std::uint64_t>(number));
    shuffle(jobs, order);
    return run_jobs(jobs);
  }

  /// One more process of the point, right after one of the default on the same device.
  Result<void> confirm(std::size_t point) {
    const int number = static_cast<int>(point);
    const std::size_t standard = standard_on(points_[point].device);
    return run_jobs({{standard, key(standard, Role::kConfirm, number)}, {point, key(point, Role::kConfirm, number)}});
  }

 private:
  struct Job {
    std::size_t point;
    TrialKey key;
  };

  void add_point(const Choice& choice, const std::string& device) {
    Measured point;
    point.choice = choice;
    point.text = space_.text(choice);
    point.device = device;
    points_.push_back(std::move(point));
  }
  [[nodiscard]] std::size_t standard_on(const std::string& device) const {
    const auto at = std::find(devices_.begin(), devices_.end(), device) - devices_.begin();
    return at == 0 ? 0 : size_ - 1 + static_cast<std::size_t>(at);
  }
  [[nodiscard]] bool uses(const std::vector<Job>& jobs, const std::string& device) const {
    return std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) { return job.key.device == device; });
  }
  [[nodiscard]] bool over_budget() const {
    return options_.budget_s > 0 && std::chrono::duration<double>(Clock::now() - start_).count() >= options_.budget_s;
  }
  TrialKey key(std::size_t point, Role role, int number) {
    return {problem_, points_[point].text, role, number, points_[point].device};
  }

  // One thread for each entry of options.devices takes the jobs of its device; an entry that stands there twice has
  // two.
  Result<void> run_jobs(const std::vector<Job>& jobs) {
    struct Queue {
      std::vector<const Job*> jobs;
      std::atomic<std::size_t> next = 0;
    };
    std::map<std::string, Queue> queues;
    for (const Job& job : jobs) queues[job.key.device].jobs.push_back(&job);
    const auto work = [&](Queue& queue) {
      for (std::size_t at = 0; !ended() && (at = queue.next++) < queue.jobs.size();) run_job(*queue.jobs[at]);
    };
    if (options_.devices.size() < 2) {
      for (auto& [device, queue] : queues) work(queue);
    } else {
      std::vector<std::thread> workers;
      for (const std::string& device : options_.devices) {
        if (const auto found = queues.find(device); found != queues.end())
          workers.emplace_back(work, std::ref(found->second));
      }
      for (std::thread& worker : workers) worker.join();
    }
    if (error_) return *error_;
    return {};
  }

  void run_job(const Job& job) {
    StoredTrial stored{job.key, {}};
    {
      const std::lock_guard lock(mutex_);
      if (points_[job.point].verdict != Verdict::kOk) return;  // failed meanwhile
      if (const auto known = known_.find(job.key); known != known_.end()) {
        fold(points_[job.point], known->second, change_);
        ++done_;
        return;
      }
    }
    auto trial = executor_.run(space_, points_[job.point].choice, job.key);
    const std::lock_guard lock(mutex_);
    if (!trial.ok()) {
      interrupted_ = true;
      if (trial.error().code != ErrorCode::kInterrupted && !error_) error_ = trial.error();
      return;
    }
    stored.trial = std::move(*trial);
    if (hooks_.store) {
      if (const auto kept = hooks_.store(stored); !kept.ok()) {
        interrupted_ = true;
        if (!error_) error_ = kept.error();
        return;
      }
    }
    fold(points_[job.point], stored, change_);
    ++done_;
    if (hooks_.trial_ended) hooks_.trial_ended(done_, std::max(expected_, done_), stored);
  }

  const Space& space_;
  Executor& executor_;
  const Options& options_;
  const Hooks& hooks_;
  std::size_t size_;
  std::string problem_;
  check::Change change_;
  std::mt19937_64 random_;
  std::vector<std::string> devices_;  // each once
  std::vector<Measured> points_;
  std::map<TrialKey, StoredTrial> known_;
  std::mutex mutex_;
  Clock::time_point start_ = Clock::now();
  std::size_t done_ = 0, expected_ = 0;
  std::atomic<bool> interrupted_ = false;
  std::optional<Error> error_;
};

std::vector<std::size_t> indices(std::size_t size) {
  std::vector<std::size_t> list(size);
  for (std::size_t i = 0; i < size; ++i) list[i] = i;
  return list;
}

// The better ones first; points without a metric last.
void sort_by_cost(std::vector<std::size_t>& list, Run& run) {
  const Costs costs = run.costs();
  const auto cost = [&](std::size_t i) {
    return costs.of(run.points()[i]).value_or(std::numeric_limits<double>::infinity());
  };
  std::stable_sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) { return cost(a) < cost(b); });
}

Result<void> run_rounds(Run& run, const std::vector<std::size_t>& active, int from, int to) {
  for (int number = from; number < to && !run.ended(); ++number) PINCH_TRY(run.round(active, number));
  return {};
}

Result<void> run_halving(Run& run, const Options& options) {
  std::vector<std::size_t> active = indices(run.size());
  int number = 0;
  for (; active.size() > kFinalists && !run.ended(); ++number) {
    PINCH_TRY(run.round(active, number));
    sort_by_cost(active, run);
    active.resize(std::max(kFinalists, (active.size() + 1) / 2));
    // The default stays in, for the regret and the A/A spread.
    if (std::find(active.begin(), active.end(), 0U) == active.end()) active.push_back(0);
    std::sort(active.begin(), active.end());
    if (active.size() <= kFinalists + 1) break;
  }
  return run_rounds(run, active, number + 1, number + 1 + options.repeats);
}

// Neighbours differ in one knob by one step of its list.
std::vector<std::size_t> neighbours(const Choice& at, const std::map<Choice, std::size_t>& index) {
  std::vector<std::size_t> list;
  for (std::size_t knob = 0; knob < at.size(); ++knob) {
    for (const int step : {-1, 1}) {
      Choice other = at;
      other[knob] += static_cast<std::uint32_t>(step);  // below 0 wraps to a value that no point has
      if (const auto found = index.find(other); found != index.end()) list.push_back(found->second);
    }
  }
  return list;
}

Result<void> run_local(Run& run, const Options& options) {
  const std::vector<Measured>& points = run.points();
  std::map<Choice, std::size_t> index;
  for (std::size_t i = 0; i < run.size(); ++i) index[points[i].choice] = i;
  const std::size_t limit = std::min(run.size(), options.points > 0 ? options.points : 200);
  std::set<std::size_t> seen;
  const auto visit = [&](std::vector<std::size_t> list) -> Result<void> {
    std::erase_if(list, [&](std::size_t i) { return seen.contains(i); });
    if (list.size() > limit - seen.size()) list.resize(limit - seen.size());
    seen.insert(list.begin(), list.end());
    return list.empty() ? Result<void>{} : run.round(list, 0, /*twin=*/false);
  };
  for (std::size_t at = 0; seen.size() < limit && !run.ended();) {
    PINCH_TRY(visit({at}));
    for (bool moved = true; moved && seen.size() < limit && !run.ended();) {
      std::vector<std::size_t> around = neighbours(points[at].choice, index);
      PINCH_TRY(visit(around));
      around.insert(around.begin(), at);
      std::erase_if(around, [&](std::size_t i) { return !seen.contains(i); });
      sort_by_cost(around, run);
      moved = around.front() != at;
      at = around.front();
    }
    std::vector<std::size_t> unseen = indices(run.size());
    std::erase_if(unseen, [&](std::size_t i) { return seen.contains(i); });
    if (unseen.empty()) break;
    at = unseen[run.random()() % unseen.size()];
  }
  std::vector<std::size_t> finalists(seen.begin(), seen.end());
  sort_by_cost(finalists, run);
  finalists.resize(std::min(finalists.size(), 2 * kFinalists));
  if (std::find(finalists.begin(), finalists.end(), 0U) == finalists.end()) finalists.push_back(0);
  std::sort(finalists.begin(), finalists.end());
  return run_rounds(run, finalists, 1, 1 + options.repeats);
}

// More rounds of the points between which the pick is decided, and of no others: they are few, so that a round is short
// and drifts little, and their medians get narrower. The default's twin stays beside it.
Result<void> decide(Run& run, const Options& options) {
  std::vector<std::size_t> close = contenders(run.points(), 0, run.picked(), options.policy);
  std::erase_if(close, [&](std::size_t i) { return i >= run.size(); });
  if (close.size() < 2) return {};
  const bool twin = close.front() == 0;
  for (int i = 0; i < options.repeats && !run.ended(); ++i) PINCH_TRY(run.round(close, kDecidingRounds + i, twin));
  return {};
}

// `count` of the plan, the default always, by the seed; in the plan's order.
std::vector<Choice> sample(std::vector<Choice> plan, std::size_t count, std::uint64_t seed) {
  if (plan.size() <= count) return plan;
  std::vector<std::size_t> others = indices(plan.size());
  others.erase(others.begin());
  std::mt19937_64 random(seed);
  shuffle(others, random);
  others.resize(count - 1);
  others.push_back(0);
  std::sort(others.begin(), others.end());
  std::vector<Choice> chosen;
  for (const std::size_t i : others) chosen.push_back(std::move(plan[i]));
  return chosen;
}

void conclude(const Subject& subject, Run& run, ProblemResult& result) {
  const std::vector<Measured>& points = run.points();
  const Pick picked = run.picked();
  const auto place = [&](const Measured* point) -> std::optional<std::size_t> {
    if (point == nullptr) return std::nullopt;
    return static_cast<std::size_t>(point - points.data());
  };
  result.best = place(picked.best);
  result.fastest = place(picked.fastest);
  result.aa_spread = picked.aa_spread;
  result.band = picked.band;
  result.regret = picked.regret;
  result.confirmed = !picked.surprising;
  const Costs costs = run.costs();
  for (Measured& point : run.points()) {
    const Measured* beside = costs.standard_beside(point);
    if (beside != nullptr && point.metric()) point.against_default = costs.ratio(point, *beside);
  }
  result.findings = no_effect(subject, points, costs, picked.band);
}

}  // namespace

Result<void> each_row(const Space& space, const Subject& subject,
                      const std::function<Result<void>(const Choice&)>& visit) {
  if (space.raw_size() > kMostRows) return {};
  Choice choice(subject.knobs.size(), 0);
  for (bool more = true; more;) {
    PINCH_TRY(visit(choice));
    more = false;
    for (std::size_t knob = choice.size(); knob-- > 0 && !more;) {
      more = ++choice[knob] < subject.knobs[knob].values.size();
      if (!more) choice[knob] = 0;
    }
  }
  return {};
}

Result<std::vector<Choice>> plan(const Space& space, const Subject& subject, ProblemResult& result) {
  result.problem = space.problem();
  result.text = problem_text(subject, space.problem());
  result.combinations = space.raw_size();
  const Choice standard = space.standard();
  PINCH_ASSIGN(broken, space.broken(standard));
  if (broken != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the default {} breaks the rule {}: {}; defaults must be legal", space.text(standard),
                             broken->id, broken->reason),
                 broken->require.where()};
  }
  std::vector<Choice> legal;
  std::vector<double> counts;
  bool too_many = false;
  PINCH_TRY(space.each_legal(
      [&](const Choice& choice) {
        legal.push_back(choice);
        too_many = legal.size() > kMostPoints;
        return !too_many;
      },
      &counts));
  if (too_many) {
    return Error{ErrorCode::kInvalidArgument,
                 "more than 1000000 points are legal; add constraints or shorten the knobs' values", subject.file};
  }
  std::sort(legal.begin(), legal.end());
  const auto at = std::find(legal.begin(), legal.end(), standard);
  std::rotate(legal.begin(), at, at + 1);
  result.legal = legal.size();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) result.excluded.push_back({&subject.rules[i], counts[i]});
  }
  if (static_cast<double>(legal.size()) < result.combinations) {
    PINCH_TRY(each_row(space, subject, [&](const Choice& choice) -> Result<void> {
      PINCH_ASSIGN(rule, space.broken(choice));
      if (rule != nullptr) result.refused.push_back({choice, space.text(choice), rule});
      return {};
    }));
  }
  return legal;
}

Result<ProblemResult> sweep_problem(const Space& space, const Subject& subject, Executor& executor,
                                    const Options& options, const std::vector<StoredTrial>& stored,
                                    const Hooks& hooks) {
  ProblemResult result;
  PINCH_ASSIGN(legal, executor.points(space, subject, result));
  std::vector<Choice> chosen = std::move(legal);
  if (options.strategy == Strategy::kRandom) {
    chosen = sample(std::move(chosen), options.points > 0 ? options.points : 100, options.seed);
  } else if (options.strategy != Strategy::kLocal && options.points > 0) {
    chosen = sample(std::move(chosen), options.points, options.seed);
  }
  PINCH_TRY(executor.prepare(space, chosen));
  Run run(space, subject, executor, options, hooks, chosen);
  run.restore(stored);
  run.expect(options.repeats);
  switch (options.strategy) {
    case Strategy::kAll:
    case Strategy::kRandom:
      PINCH_TRY(run_rounds(run, indices(chosen.size()), 0, options.repeats));
      break;
    case Strategy::kHalving:
      PINCH_TRY(run_halving(run, options));
      break;
    case Strategy::kLocal:
      PINCH_TRY(run_local(run, options));
      break;
  }
  PINCH_TRY(decide(run, options));
  // The winner that is not the default shows itself again; the next one has its turn where it does not.
  for (Pick picked = run.picked(); picked.surprising && !run.ended(); picked = run.picked()) {
    const auto at = static_cast<std::size_t>(picked.best - run.points().data());
    PINCH_TRY(run.confirm(at));
    if (!run.points()[at].confirm.contains(static_cast<int>(at)) && run.points()[at].verdict == Verdict::kOk) break;
  }
  conclude(subject, run, result);
  result.interrupted = run.stopped();
  const auto best = result.best, fastest = result.fastest;
  std::vector<Measured>& points = run.points();
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].trials == 0) continue;
    if (i >= run.size()) {
      result.elsewhere.push_back(std::move(points[i]));
      continue;
    }
    if (best == i) result.best = result.points.size();
    if (fastest == i) result.fastest = result.points.size();
    result.points.push_back(std::move(points[i]));
  }
  result.not_run = result.legal - result.points.size();
  return result;
}

}  // namespace pinch::sweep
