#include "workbench/sass/text_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "workbench/sass/bytes.h"
#include "workbench/sass/flow.h"

namespace pinch::sass {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Blanks at the front, eight at a time: nvdisasm puts eighty before the second half of a word.
void skip_blanks(std::string_view& s) {
  constexpr std::uint64_t kEightBlanks = 0x2020202020202020;
  std::size_t at = 0;
  for (std::uint64_t next = 0; at + sizeof next <= s.size(); at += sizeof next) {
    std::memcpy(&next, s.data() + at, sizeof next);
    if (next != kEightBlanks) break;
  }
  while (at < s.size() && is_space(s[at])) ++at;
  s.remove_prefix(at);
}

std::string_view trim(std::string_view s) {
  skip_blanks(s);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

[[gnu::always_inline]] inline bool take(std::string_view& s, std::string_view prefix) {
  if (s.size() < prefix.size() || std::memcmp(s.data(), prefix.data(), prefix.size()) != 0) return false;
  s.remove_prefix(prefix.size());
  return true;
}

// Hexadecimal digits at the front of `s`.
template <class T>
bool take_hex(std::string_view& s, T& value) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, 16);
  if (error != std::errc() || end == s.data()) return false;
  s.remove_prefix(static_cast<std::size_t>(end - s.data()));
  return true;
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// "/*0120*/" at the front of an instruction line.
bool take_offset(std::string_view& s, std::uint32_t& offset) {
  std::string_view rest = s;
  if (!take(rest, "/*")) return false;
  std::uint64_t wide = 0;
  if (rest.empty() || rest.front() == ' ' || !take_hex(rest, wide) || !take(rest, "*/")) return false;
  if (wide > 0xffffffffu) return false;
  offset = static_cast<std::uint32_t>(wide);
  s = rest;
  return true;
}

// Eight hexadecimal digits at once; false where one is none.
bool eight_digits(const char* digits, std::uint64_t& value) {
  constexpr std::uint64_t kEach = 0x0101010101010101;
  std::uint64_t text = 0;
  std::memcpy(&text, digits, sizeof text);
  if constexpr (std::endian::native == std::endian::big) text = __builtin_bswap64(text);
  const std::uint64_t letter = (text >> 6) & kEach;                 // 1 in each byte of a letter
  const std::uint64_t nibble = (text & kEach * 0x0f) + letter * 9;  // 0 to 15 where the text is a digit
  // A digit is 0x30 with 0 to 9, a letter 0x40 or 0x60 with 10 to 15: what 6 more carry into 0x10.
  const bool rows = ((text & kEach * 0xf0 & ~(letter * 0x20)) ^ (letter * 0x40 | (kEach - letter) * 0x30)) == 0;
  const bool columns = (nibble & kEach * 0xf0) == 0 && ((nibble + kEach * 6) & kEach * 0x10) == letter * 0x10;
  if (!rows || !columns) return false;
  std::uint64_t packed = __builtin_bswap64(nibble);
  packed = (packed | packed >> 4) & 0x00ff00ff00ff00ff;
  packed = (packed | packed >> 8) & 0x0000ffff0000ffff;
  value = (packed | packed >> 16) & 0xffffffff;
  return true;
}

// "/* 0x00000a00ff017b82 */"
bool take_word(std::string_view& s, std::uint64_t& word) {
  constexpr std::size_t kDigits = 16;
  std::string_view rest = s;
  skip_blanks(rest);
  if (!take(rest, "/* 0x") || rest.size() < kDigits) return false;
  std::uint64_t upper = 0, lower = 0;
  if (!eight_digits(rest.data(), upper) || !eight_digits(rest.data() + 8, lower)) return false;
  rest.remove_prefix(kDigits);
  if (!take(rest, " */")) return false;
  word = upper << 32 | lower;
  s = rest;
  return true;
}

// Printable ASCII and tabs, eight bytes at a time where there is no tab.
bool is_text(std::string_view s) {
  constexpr std::uint64_t kEach = 0x0101010101010101;
  std::size_t at = 0;
  for (std::uint64_t next = 0; at + sizeof next <= s.size(); at += sizeof next) {
    std::memcpy(&next, s.data() + at, sizeof next);
    if ((((next - kEach * ' ') | (next + kEach) | next) & kEach * 0x80) != 0) break;  // below ' ', DEL or above
  }
  return std::all_of(s.begin() + static_cast<std::ptrdiff_t>(at), s.end(),
                     [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); });
}

// Where the operands end and what the disassembler notes behind them begins: (*"SpillRefill"*), branch tables, and the
// scheduling annotations of some releases (&req={0} ?WAIT2_END_GROUP).
std::size_t end_of_operands(std::string_view s) {
  for (std::size_t i = 0; i < s.size(); ++i) {
    const bool annotates = (s[i] == '&' || s[i] == '?') && (i == 0 || s[i - 1] == ' ');
    if (annotates || (s[i] == '(' && i + 1 < s.size() && s[i + 1] == '*')) return i;
  }
  return s.size();
}

class TextReader {
 public:
  TextReader(std::shared_ptr<const std::string> text, const std::string& name) : text_(std::move(text)), name_(name) {}

  Result<Program> read() {
    std::string_view rest = *text_;
    while (!rest.empty()) {
      const auto* end = static_cast<const char*>(std::memchr(rest.data(), '\n', rest.size()));
      const std::size_t length = end == nullptr ? rest.size() : static_cast<std::size_t>(end - rest.data());
      ++line_;
      PINCH_TRY(line(rest.substr(0, length)));
      rest.remove_prefix(std::min(rest.size(), length + 1));
      if (waits_for_high_) take_high_word(rest);
    }
    PINCH_TRY(end_kernel());
    if (program_.kernels.empty()) {
      return fail("no SASS instruction found; give the output of nvdisasm -c or cuobjdump --dump-sass");
    }
    program_.texts.push_back(text_);
    return std::move(program_);
  }

 private:
  Error fail(const std::string& what) const { return {ErrorCode::kCorrupt, what, fmt::format("{}:{}", name_, line_)}; }

  // The line behind most instructions: blanks and the upper half of the word. What looks otherwise is left to line().
  void take_high_word(std::string_view& rest) {
    std::string_view s = rest;
    std::uint64_t high = 0;
    if (!take_word(s, high) || s.empty() || s.front() != '\n') return;
    ++line_;
    high_word(high);
    rest = s.substr(1);
  }

  Result<void> line(std::string_view raw) {
    std::string_view s = trim(raw);
    if (s.empty()) return {};
    if (s.front() == '/' && s.substr(0, 2) != "/*") {
      if (take(s, "//## File ")) source_line(s);
      return {};
    }
    if (s.front() == '/') return row(s);
    if (waits_for_high_) return fail("the second half of the instruction's word is missing; the text is cut");
    s = trim(s.substr(0, s.find("//")));  // what -plr prints beside labels
    if (s.empty()) return {};
    if (take(s, "Function :") || take(s, "Function:")) return begin_kernel(trim(s));
    if (take(s, ".section\t") || take(s, ".section ")) return section(trim(s));  // not .sectioninfo, .sectionflags
    if (take(s, ".target")) return arch(trim(s));
    if (take(s, "code for ")) return arch(trim(s));
    if (take(s, "arch = ")) return arch(trim(s));
    if (s.back() == ':' && s.find(' ') == std::string_view::npos) labels_[s.substr(0, s.size() - 1)] = here();
    return {};
  }

  // "/*0120*/ ...", the second half of a word, or a comment. Rows of other sections than code hold data.
  Result<void> row(std::string_view s) {
    if (in_data_) return {};
    std::uint32_t offset = 0;
    if (std::string_view rest = s; take_offset(rest, offset)) return instruction(offset, rest);
    std::uint64_t high = 0;
    if (std::string_view rest = s; waits_for_high_ && take_word(rest, high)) {
      if (!ends_row(rest)) return fail("what follows the second half of the instruction's word cannot be read");
      high_word(high);
      return {};
    }
    const bool is_comment =
        s.size() >= 4 && s.substr(s.size() - 2) == "*/" && s.substr(0, 5) != "/* 0x" && !is_hex(s[2]);
    if (is_comment) return {};
    return fail("neither an instruction behind its offset nor the second half of a word; the text is cut or damaged");
  }

  // Nothing more, or the life ranges that -plr prints.
  static bool ends_row(std::string_view rest) {
    rest = trim(rest);
    return rest.empty() || rest.substr(0, 2) == "//";
  }

  std::int32_t here() const { return open_ ? static_cast<std::int32_t>(instructions_.size()) : 0; }
  Kernel& kernel() { return program_.kernels.back(); }
  const Kernel& kernel() const { return program_.kernels.back(); }

  Result<void> section(std::string_view s) {
    PINCH_TRY(end_kernel());
    if (take(s, ".text.")) return begin_kernel(s.substr(0, s.find(',')));
    in_data_ = true;
    return {};
  }

  Result<void> begin_kernel(std::string_view name) {
    PINCH_TRY(end_kernel());
    program_.kernels.emplace_back();
    kernel().name = printable(name);
    kernel().arch = arch_;
    labels_.clear();
    file_indices_.clear();
    last_file_ = {};
    open_ = true;
    in_data_ = false;
    file_ = 0;
    source_line_ = 0;
    inlined_ = false;
    return {};
  }

  Result<void> arch(std::string_view s) {
    const std::string_view word = s.substr(0, s.find_first_of(" \t,"));
    if (word.substr(0, 3) == "sm_") arch_ = printable(word);
    return {};
  }

  // «"kernels.cu", line 122», perhaps with "inlined at" behind it: then the lines that follow say where, outwards, and
  // the first is the instruction's own.
  void source_line(std::string_view s) {
    if (!open_ || !take(s, "\"") || inlined_) return;
    const auto quote = s.find('"');
    if (quote == std::string_view::npos) return;
    const std::string_view file = s.substr(0, quote);
    s.remove_prefix(quote + 1);
    std::uint32_t number = 0;
    if (!take(s, ", line ")) return;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number);
    if (error != std::errc()) return;
    s.remove_prefix(static_cast<std::size_t>(end - s.data()));
    inlined_ = take(s, " inlined at");
    source_line_ = number;
    if (file == last_file_) return;
    auto& files = kernel().files;
    if (files.size() >= 0xffff && file_indices_.count(file) == 0) return;
    const auto [slot, is_new] = file_indices_.try_emplace(file, static_cast<std::uint16_t>(files.size()));
    if (is_new) files.push_back({"", file});
    file_ = slot->second;
    last_file_ = file;
  }

  Result<void> instruction(std::uint32_t offset, std::string_view s) {
    if (waits_for_high_) return fail("the second half of the instruction's word is missing; the text is cut");
    if (!open_) {
      PINCH_TRY(begin_kernel("(unnamed)"));
    }
    auto& list = instructions_;
    if (offset % kInstructionBytes != 0)
      return fail(fmt::format("offset 0x{:x} is no multiple of {}", offset, kInstructionBytes));
    if (!list.empty() && offset <= list.back().offset) {
      return fail(fmt::format("offset 0x{:x} does not follow 0x{:x}", offset, list.back().offset));
    }
    const auto semicolon = s.find(';');
    if (semicolon == std::string_view::npos) return fail("an instruction without ';'; the text is cut");
    if (!is_text(s.substr(0, semicolon))) return fail("an instruction with bytes that are no text");
    Instruction made;
    made.offset = offset;
    made.line = source_line_;
    made.file = file_;
    decode(trim(s.substr(0, semicolon)), made);
    if (made.mnemonic.empty() || made.mnemonic.front() < 'A' || made.mnemonic.front() > 'Z')
      return fail("an instruction without a name; the text is damaged");
    s.remove_prefix(semicolon + 1);
    waits_for_high_ = take_word(s, made.low);
    const bool is_bare = list.empty() || !list.front().has_word;
    if (!waits_for_high_ && (!is_bare || trim(s).substr(0, 2) == "/*"))
      return fail("the instruction's word is missing or cannot be read; the text is cut or damaged");
    if (waits_for_high_ && !ends_row(s)) return fail("what follows the instruction's word cannot be read");
    list.push_back(made);
    last_line_ = line_;
    inlined_ = false;
    return {};
  }

  void high_word(std::uint64_t high) {
    Instruction& last = instructions_.back();
    last.high = high;
    last.control = decode_control(high);
    last.has_word = true;
    waits_for_high_ = false;
  }

  void decode(std::string_view s, Instruction& made) {
    if (take(s, "{")) s = trim(s);  // bundles of old releases
    if (take(s, "@")) {
      made.guard_negated = take(s, "!");
      take(s, "U");
      made.guard = 0;
      if (take(s, "PT")) {
        made.guard = kAlways;
      } else if (take(s, "P") && !s.empty()) {
        made.guard = static_cast<std::uint8_t>(s.front() - '0') & 7;
        s.remove_prefix(1);
      }
      s = trim(s);
    }
    std::size_t name_end = 0;
    while (name_end < s.size() && !is_space(s[name_end])) ++name_end;
    made.mnemonic = s.substr(0, name_end);
    const std::string_view operands = trim(s.substr(name_end));
    const std::size_t end = end_of_operands(operands);
    made.operands = trim(operands.substr(0, end));
    made.marked_spill = operands.find("SpillRefill", end) != std::string_view::npos;
    branch(made);
  }

  // Notes where a branch goes; resolved when the section is whole.
  void branch(Instruction& made) {
    constexpr std::string_view kInitials = "BCEJR";  // of the names below; most instructions have another
    if (made.mnemonic.empty() || kInitials.find(made.mnemonic.front()) == std::string_view::npos) return;
    const std::string_view base = made.base();
    const bool jumps = base == "BRA" || base == "CALL" || base == "JMP" || base == "BSSY" || base == "BRX";
    if (!jumps && base != "EXIT" && base != "RET") return;
    made.conditional = made.guard != kAlways || made.guard_negated;
    if (!jumps) return;
    std::string_view operand = made.operands;
    const auto comma = operand.rfind(',');
    if (comma != std::string_view::npos) {
      const std::string_view first = trim(operand.substr(0, comma));
      if (base == "BRA" && first != "PT" && first != "UPT") made.conditional = true;  // "BRA !P3, 0x110"
      operand = trim(operand.substr(comma + 1));
    }
    if (take(operand, "`(")) {
      pending_.push_back({here(), operand.substr(0, operand.find(')')), 0});
      return;
    }
    std::uint32_t absolute = 0;
    if (take(operand, "0x") && take_hex(operand, absolute)) pending_.push_back({here(), {}, absolute});
  }

  std::optional<std::int32_t> at_offset(std::uint32_t offset) const {
    const auto& list = instructions_;
    const auto found = std::lower_bound(list.begin(), list.end(), offset,
                                        [](const Instruction& i, std::uint32_t o) { return i.offset < o; });
    if (found == list.end() || found->offset != offset) return std::nullopt;
    return static_cast<std::int32_t>(found - list.begin());
  }

  Result<void> end_kernel() {
    if (!open_) return {};
    if (waits_for_high_) return fail("the second half of the last instruction's word is missing; the text is cut");
    open_ = false;
    // NOP fill a section up; before them, ptxas ends every one with a branch to itself.
    const auto last =
        std::find_if(instructions_.rbegin(), instructions_.rend(), [](const Instruction& i) { return !i.is("NOP"); });
    if (last != instructions_.rend() && falls_through(*last)) {
      line_ = last_line_;
      return fail(fmt::format("{} ends with {}, behind which the code goes on; the text is cut", kernel().name,
                              last->mnemonic));
    }
    for (const Pending& p : pending_) {
      Instruction& from = instructions_[static_cast<std::size_t>(p.from)];
      std::optional<std::int32_t> target;
      if (p.label.empty()) {
        target = at_offset(p.offset);
      } else if (const auto found = labels_.find(p.label); found != labels_.end()) {
        target = found->second;
      }
      const bool leaves_section =
          from.is("CALL") || from.is("JMP") || from.is("BSSY");  // by name, or the section's end
      if (target && *target < static_cast<std::int32_t>(instructions_.size())) {
        from.target = *target;
      } else if (!leaves_section) {
        return fail(fmt::format("the {} at offset 0x{:x} of {} goes to {}, where no instruction is", from.mnemonic,
                                from.offset, kernel().name,
                                p.label.empty() ? fmt::format("0x{:x}", p.offset) : std::string(p.label)));
      }
    }
    pending_.clear();
    if (instructions_.empty()) {
      program_.kernels.pop_back();
    } else {
      kernel().instructions.assign(instructions_.begin(), instructions_.end());  // no more memory than they need
      instructions_.clear();
    }
    return {};
  }

  struct Pending {
    std::int32_t from;
    std::string_view label;
    std::uint32_t offset;
  };

  std::shared_ptr<const std::string> text_;
  const std::string& name_;
  Program program_;
  std::vector<Instruction> instructions_;  // of the open kernel; its memory serves them all
  std::unordered_map<std::string_view, std::int32_t> labels_;
  std::vector<Pending> pending_;
  std::string arch_;
  std::uint32_t source_line_ = 0;
  std::unordered_map<std::string_view, std::uint16_t> file_indices_;
  std::string_view last_file_;
  std::size_t line_ = 0, last_line_ = 0;  // of the file, and where the last instruction stands
  std::uint16_t file_ = 0;
  bool open_ = false;
  bool in_data_ = false;  // a section that holds no code
  bool inlined_ = false;  // the line before was inlined, and no instruction has come since
  bool waits_for_high_ = false;
};

}  // namespace

bool looks_like_sass_text(std::string_view text) {
  constexpr std::size_t kUsual = 2048, kFarthest = 65536;  // a disassembler names itself at once, an excerpt later
  for (const std::size_t size : {kUsual, kFarthest}) {
    const std::string_view head = text.substr(0, size);
    if (head.find('\0') != std::string_view::npos) return false;
    for (std::string_view mark :
         {"\tcode for sm_", "Function :", ".headerflags", "\t.target\tsm_", ".section\t.text.", "/*0000*/"}) {
      if (contains(head, mark)) return true;
    }
  }
  return false;
}

Result<Program> read_sass_text(std::shared_ptr<const std::string> text, const std::string& name) {
  return TextReader(std::move(text), name).read();
}

}  // namespace pinch::sass
