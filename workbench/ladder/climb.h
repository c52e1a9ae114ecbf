// From evidence to the seven findings: pure arithmetic, the same for a bundled kernel, a user's program and a stored
// result.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "workbench/ladder/finding.h"

namespace pinch::ladder {

/// Why a rung has no evidence, and whether it could have.
struct Silence {
  Answer answer = Answer::kNotMeasured;
  std::string why;
};
template <class T>
using Known = std::variant<Silence, T>;

/// A legal setting of the knobs.
struct Setting {
  std::string name;
  std::map<std::string, std::string> knobs;  ///< values by name
  double time = 0;                           ///< median, in any unit; 0 where it was not timed
  bool settled = false;                      ///< timed, or known not to work
};
struct Settings {
  std::vector<Setting> list;          ///< every legal one, the default first
  std::map<std::string, Rung> rungs;  ///< of knobs that are not the tactic's: kAlgebra or kHandoff
  double band = 0.02;                 ///< times within this fraction of one another are ties
};

/// The least time of a call, by the unit that binds it.
struct Limit {
  double time = 0;  ///< in the unit of the settings
  std::string unit;
  nlohmann::ordered_json evidence;
};
/// Time in which the threads or warps that do the work wait for another role, as a trace shows it.
struct Waiting {
  double share = 0;  ///< of the traced time
  /// By how much of the untraced time the marks lengthen it at most. What they add to the threads that wait hides
  /// waits, what they add to the others makes some: of either as much as they slow the whole is reckoned. Nothing: not
  /// known.
  std::optional<double> slowed;
  std::string for_whom;
  nlohmann::ordered_json evidence;
};
/// The hot loop in machine code. Shares are of the loop's time, which is taken for the kernel's.
struct Code {
  std::string binds;           ///< the pipe that bounds the loop
  double schedule_share = 0;   ///< that another order of the same instructions, without those of spills, could save
  std::string schedule_words;  ///< what costs it
  double algebra_share = 0;    ///< of instructions that need not exist
  std::string algebra_words;
  nlohmann::ordered_json evidence;
};
struct Checks {
  std::size_t checked = 0;         ///< settings whose output was compared
  std::vector<std::string> wrong;  ///< "NAME: why"
  nlohmann::ordered_json evidence;
};

struct Evidence {
  Settings settings;
  Known<Limit> limit;
  Known<Waiting> waiting;
  Known<Code> code;
  Known<Checks> checks;
  std::array<std::string, kRungs.size()> commands;  ///< that measure each rung
  nlohmann::ordered_json stored;  ///< where the samples lie; null where nowhere. Evidence of a file names that instead
};

/// All seven findings in order, those that are not asked for as kNotMeasured with why. The time of the default is
/// divided among them: what other algebra, then other handoff knobs, then any knobs gain; of what the best setting
/// takes, its waits, what its code wastes, and the rest above the limit. Waits that a trace's marks may hide are in the
/// bound of kPipeline, and not taken from the others'.
std::vector<Finding> climb(const Evidence& evidence, const Selection& selection);

}  // namespace pinch::ladder
