// GPU code as read from a file: kernels of decoded instructions. Made by the readers, never changed by the analyses.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workbench/sass/control.h"

namespace pinch::sass {

inline constexpr int kInstructionBytes = 16;
inline constexpr std::uint8_t kAlways = 7;  // PT, the guard of an unconditional instruction
inline constexpr std::int32_t kNoTarget = -1;

struct Instruction {
  std::uint64_t low = 0, high = 0;  ///< the word; zero where the text held none
  std::string_view mnemonic;        ///< "MUFU.EX2"; empty where it is not known
  std::string_view operands;        ///< "R4, R5.reuse, c[0x0][0x28]"; empty without a disassembler
  std::uint32_t offset = 0;         ///< bytes from the start of the section
  std::int32_t target = kNoTarget;  ///< index of the instruction that a branch goes to
  std::uint32_t line = 0;           ///< source line, 0 where unknown
  std::uint16_t file = 0;           ///< index into Kernel::files
  Control control;
  std::uint8_t guard = kAlways;  ///< predicate register
  bool guard_negated = false;
  bool has_word = false;      ///< control is decoded from a word, not assumed
  bool conditional = false;   ///< a branch that may fall through
  bool marked_spill = false;  ///< the disassembler says that this access spills or refills a register

  [[nodiscard]] bool known() const { return !mnemonic.empty(); }
  /// The mnemonic up to its first modifier: "MUFU" of "MUFU.EX2".
  [[nodiscard]] std::string_view base() const {
    std::size_t length = 0;  // a few letters, asked for often: a loop here is half the time of a call of memchr
    while (length < mnemonic.size() && mnemonic[length] != '.') ++length;
    return mnemonic.substr(0, length);
  }
  /// True for "MUFU.EX2" with "MUFU" or "MUFU.EX2": whole modifiers only. Inline, so that a literal's length is known
  /// and the comparison no call: it is asked some fifty times an instruction.
  [[nodiscard, gnu::always_inline]] bool is(std::string_view name) const {
    return mnemonic.size() >= name.size() && mnemonic.front() == name.front() &&  // most differ there
           std::memcmp(mnemonic.data(), name.data(), name.size()) == 0 &&
           (mnemonic.size() == name.size() || mnemonic[name.size()] == '.');
  }
  [[nodiscard]] bool has_modifier(std::string_view modifier) const;
};

/// Named in parts, which may be long and common to many: views into the text or image that the program holds.
struct SourceFile {
  std::string_view folder, name;  ///< folder empty where there is none

  [[nodiscard]] std::string path() const;  ///< printable
};

struct Kernel {
  std::string name, arch;  ///< arch "sm_90a"; empty where the text does not say
  int registers = -1;      ///< a thread; -1 where the file does not say
  int frame_bytes = -1;    ///< local memory of a thread
  int shared_bytes = -1;   ///< static shared memory of a block
  int barriers = -1;
  bool is_entry = true;                      ///< a kernel, not a device function
  std::string_view mnemonics_from = "text";  ///< "nvdisasm", "text" or "opcode map"
  std::string built_with;  ///< "release 13.0, V13.0.88: -O 3 -arch sm_90a" as ptxas notes it; empty where it does not
  std::vector<std::uint32_t> exits;
  std::vector<SourceFile> files;
  std::vector<Instruction> instructions;

  [[nodiscard]] int unknown_instructions() const;
  [[nodiscard]] bool has_words() const;
};

/// `text` with every byte that is not printable ASCII as '?': names of damaged files must not break a terminal or JSON.
[[nodiscard]] std::string printable(std::string_view text);

struct PtxText {
  std::string arch;  ///< the .target
  std::shared_ptr<const std::string> text;
};

/// All code of one file. The texts and images that string_views point into live as long as it does.
struct Program {
  std::vector<Kernel> kernels;
  bool has_code = false;  ///< the file has kernels, which may have been left out
  std::vector<PtxText> ptx;
  std::vector<std::shared_ptr<const std::string>> texts;
  std::vector<std::string> notes;  ///< what did not go as asked, for people: a disassembler that failed
};

}  // namespace pinch::sass
