#include "workbench/sweep/effort.h"

#include <algorithm>
#include <atomic>

namespace pinch::sweep {
namespace {

// Runs nothing and counts it. Points tie, or the first of the list is the fastest and each next one clearly slower.
class Rehearsal final : public Executor {
 public:
  Rehearsal(const std::vector<Choice>& legal, bool ties) : legal_(legal), ties_(ties) {}
  Result<std::vector<Choice>> points(const Space& space, const Subject&, ProblemResult& result) override {
    result.combinations = space.raw_size();
    result.legal = legal_.size();
    return legal_;
  }
  Result<Trial> run(const Space&, const Choice& choice, const TrialKey&) override {
    ++runs_;
    Trial trial;
    double cost = 1;
    if (!ties_ && choice != legal_.front()) {
      const auto at = std::lower_bound(legal_.begin() + 1, legal_.end(), choice) - legal_.begin();
      cost = 2 + static_cast<double>(at);
    }
    trial.samples = {cost};
    return trial;
  }
  [[nodiscard]] std::size_t runs() const { return runs_; }

 private:
  const std::vector<Choice>& legal_;
  bool ties_;
  std::atomic<std::size_t> runs_ = 0;
};

}  // namespace

Result<Effort> effort(const Space& space, const Subject& subject, const Options& options,
                      const std::vector<Choice>& legal) {
  Options rehearsed = options;
  rehearsed.budget_s = 0;
  rehearsed.policy.lower_is_better = true;
  Effort effort;
  for (const bool ties : {false, true}) {
    Rehearsal rehearsal(legal, ties);
    PINCH_TRY(sweep_problem(space, subject, rehearsal, rehearsed, {}, {}));
    (ties ? effort.most : effort.least) = rehearsal.runs() + (subject.outputs.empty() ? 0 : 1);
  }
  return effort;
}

}  // namespace pinch::sweep
