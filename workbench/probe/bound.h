// From counts of instructions and a machine model to cycles by unit: what bounds a loop, and what bounds it then.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pinch/result.h"
#include "workbench/probe/model.h"
#include "workbench/sass/machine.h"

namespace pinch::probe {

using Counts = std::vector<std::pair<std::string, double>>;  ///< warp instructions: {"MUFU.EX2", 128}

/// "MUFU.EX2=128,F2FP=64". Errors: kInvalidArgument, naming the part that is wrong.
Result<Counts> parse_counts(const std::string& text);

struct Bound {
  std::map<std::string, double> units;            ///< cycles of one sub-partition by unit
  std::map<std::string, std::string> counted_as;  ///< the entry of a model for a name that several answer to
  std::vector<std::string> without_rate;          ///< instructions that are counted for their issue slots alone
  std::vector<std::string> rates_as_stated;       ///< that the model has no rate for, and its architecture's table has
  std::vector<std::string> units_as_stated;       ///< whose unit that table names, and no pair of the model shows
  std::vector<std::string> sharing_unknown;       ///< "iadd3, lop3": added up apart, though never shown to be two units
  std::string by;
  double cycles = 0;
  struct Next {
    std::string relieved, by;
    double cycles = 0;
  };
  std::vector<Next> next;  ///< the bounds that are left when the largest unit, then the next, costs nothing
};

/// With the rates of an architecture (data/machines/sm_*.json). An instruction that it has no row for takes issue slots
/// and is named in `without_rate`. `sub_partitions`: of the SM, that do the same. Errors: kInvalidArgument where it has
/// a row for none.
Result<Bound> bound(const Counts& counts, const sass::Machine& machine, int sub_partitions = sass::kSubPartitions);

/// With a probe model: an entry is found by its name or its very opcode; a count that leaves modifiers out takes the
/// fastest of those that have more, as `counted_as` says. An entry that is marked, of two opcodes in turn, or whose
/// loop held others on the same unit gives no rate to its opcode. Without an architecture, which could state a better
/// one, the opcode may also leave out some of the count's (the longest), and the first of several counts. Values must
/// be "lanes/clk/SM" or, of a CPU, "instructions/cycle/core", whose issue is not known. Units are the pipes of the
/// model's architecture; pipes that a pair shows to be one are one, "fma+fma_heavy". An instruction without such an
/// entry costs what that architecture states. Without an architecture, entries of a group
/// share a unit, and what no pair shows to be one unit or two is added up apart and named in `sharing_unknown`: the
/// bound may then be too low. Errors: kInvalidArgument, naming what there is, where there is a rate for none;
/// kUnsupported for an architecture that is not known.
Result<Bound> bound(const Counts& counts, const Model& model, int sub_partitions = sass::kSubPartitions);

/// One loop of a kernel, an iteration of one warp.
struct LoopCost {
  std::string arch;                     ///< "sm_90a"
  int sub_partitions = 4;               ///< of the SM, that run it
  std::map<std::string, double> units;  ///< cycles of one sub-partition by unit
  Counts counts;                        ///< by whole mnemonic
};

/// Of a loop in a document of `pinch sass --json`, as reported. `loop` counts from 0. Errors: kCorrupt for another kind
/// of document; kInvalidArgument, naming what there is, for a kernel or loop that is not in it.
Result<LoopCost> loop_cost(std::string_view json, const std::string& where, const std::string& kernel, int loop);

[[nodiscard]] Bound bound(const LoopCost& loop);

/// Moves `percent` of `from` to `per_op` of `to` each: "MUFU.EX2:25:FFMA=6". `from` is also every instruction that has
/// more modifiers. Errors: kInvalidArgument, naming what there is.
Result<Counts> move_counts(const Counts& counts, const std::string& text);

/// The same in a loop, whose units change by the rates of its architecture. Errors: those of move_counts and of bound
/// by rates.
Result<LoopCost> move_in_loop(const LoopCost& loop, const std::string& text);

}  // namespace pinch::probe
