// Regret of a cost model against recorded ground truth: what its pick costs beside the best tactic measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pinch/gemm_problem.h"
#include "pinch/result.h"
#include "pinch/tactics.h"

namespace pinch {

/// One tactic of one problem, measured or said to be left out.
struct TruthRow {
  GemmProblem problem;
  std::string tactic;
  std::optional<double> median_ns;  ///< nothing where the tactic was not timed to the end
  std::string verdict;              ///< "ok", or why there is no median ("hopeless", "wrong", "timeout")
};

/// Recorded times of a family on one machine. Every legal tactic of a problem is listed, timed or not.
struct Truth {
  std::string family;
  Resources resources;
  /// Where the rows come from, in file order; "machine", "source" and "method" are always there.
  std::vector<std::pair<std::string, std::string>> provenance;
  std::vector<TruthRow> rows;
};

/// Reads ground truth from CSV (docs/design/tactics.md):
///
///     # pinch-truth: 1
///     # family: cpu
///     # threads: 2          (sms for a GPU family)
///     # machine: ...        and any other "key: value" of provenance
///     m,n,k,format,output,tactic,verdict,median_ns
///     1,4096,4096,nvfp4,bf16,stream.avx512.1x16.along_m.all,ok,101250
///
/// Errors: kCorrupt, naming the line.
Result<Truth> parse_truth(std::string_view csv, std::string_view file_name);

/// parse_truth of a file. Errors: also kNotFound and kIo.
Result<Truth> read_truth(const std::string& path);

/// The inverse of parse_truth.
std::string to_csv(const Truth& truth);

/// One problem of a study. `regret` is absent where the pick was not measured.
struct StudiedProblem {
  GemmProblem problem;
  std::string pick, best;
  double best_ns = 0;
  std::optional<double> pick_ns;
  std::optional<double> predicted_ns;  ///< of the pick, where the model predicts time
  std::optional<double> regret;        ///< pick_ns / best_ns
};

struct Study {
  std::string model;
  std::vector<StudiedProblem> problems;  ///< in file order
  /// Over the problems with a regret; 1 is a perfect pick. Absent where no pick was measured.
  std::optional<double> geomean, worst;
  std::optional<GemmProblem> worst_problem;
  /// Median of |predicted / measured - 1| over every timed row, where the model predicts time.
  std::optional<double> median_abs_error;
  std::vector<std::string> unmeasured_picks;  ///< picks listed without a time
  std::vector<std::string> unknown_tactics;   ///< tactics of the truth that this build's family does not have
};

/// Lets the model pick among the tactics that the truth lists for each problem (not among those legal on the machine
/// that runs the study, which may be another one). Errors: kInvalidArgument for another family's truth or an unknown
/// model; kCorrupt where a problem has no timed tactic.
Result<Study> study_model(const TacticFamily& family, const Truth& truth, std::string_view model = {});

/// One tactic of one problem, as two builds of the same kernels take it.
struct BuildCell {
  GemmProblem problem;
  std::string tactic;
  double ratio = 1;  ///< time in the second build / time in the first, each the geometric mean of its rounds
};

/// Two builds of the same tactics, each recorded in two rounds taken in turn.
struct BuildComparison {
  std::vector<BuildCell> cells;  ///< timed in all four records, in the order of the first
  double median = 1;             ///< of the ratios
  double noise = 1;  ///< 99 of 100 cells differ by less between the rounds of one build; a ratio of at least 1
  /// Cells beyond `least` of the median of which either round of one build is beyond the noise of either of the
  /// other's, furthest first: a change that all cells share is none of them. Of some thousand cells of one and the same
  /// code a few are beyond the noise by their mean.
  std::vector<BuildCell> moved;
};

/// Errors: kInvalidArgument where the records share no timed cell or are not two rounds a build.
Result<BuildComparison> compare_builds(const std::vector<Truth>& first, const std::vector<Truth>& second,
                                       double least = 1.03);

}  // namespace pinch
