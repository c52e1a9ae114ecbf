// What a timed loop must hold, and what its machine code was found to hold.
#pragma once

#include <string>

namespace pinch::probe {

struct Proof {
  std::string opcode;   ///< that is timed: "MUFU.EX2", "vfmadd231ps"
  int expected = 0;     ///< of that opcode in one iteration of the loop
  int found = 0;        ///< of that opcode
  int others = 0;       ///< further instructions of the loop beside its counter and branch
  std::string instead;  ///< the most frequent of those, "FADD x 64"; empty where there is none
  std::string beside;   ///< an opcode that must stand beside them, "WARPGROUP"; empty: none
  int beside_expected = 0, beside_found = 0;
  std::string also = {};   ///< another opcode that counts as it; empty: none
  int of_also = 0;         ///< of `found`, those
  bool clocked = true;     ///< the clock is read once ahead of the loop and once behind it, where operands are known
  bool base_only = false;  ///< the modifiers are not known: other types and cache levels would pass as well

  /// The loop holds exactly what is timed. `others` may stand beside it where the operation needs them (a range
  /// reduction, a move); the text of a figure names them.
  [[nodiscard]] bool proved() const {
    return expected > 0 && found == expected && beside_found == beside_expected && clocked;
  }
};

/// "64 MUFU.EX2", "32 HFMA2 (16 of them HFMA2.MMA)", "64 LDG.E.64 (base opcode only)", "expected 64 MUFU.RCP, found 0
/// (FADD x 1 instead)", "8 HGMMA, but 16 WARPGROUP where 2 belong".
[[nodiscard]] std::string to_string(const Proof& proof);

/// What a proof's text says of a loop that held more than what is timed: "32 F2FP with 43 others (LOP3 x 32)".
struct Others {
  int timed = 0;       ///< instructions that are timed
  int all = 0;         ///< others; 0 in every other text
  std::string opcode;  ///< the most frequent of those
  int of_opcode = 0;
};
[[nodiscard]] Others others_of(const std::string& proof);

}  // namespace pinch::probe
