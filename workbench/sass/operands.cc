#include "workbench/sass/operands.h"

#include <algorithm>
#include <optional>
#include <span>

#include "workbench/sass/wgmma.h"

namespace pinch::sass {
namespace {

bool is_name_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

struct Named {
  RegisterRange range;
  bool is_zero = false;  // RZ, PT, URZ, UPT: writes vanish and reads are constant
};

// The register that `s` begins with: R12, UR4, P0, UP1, RZ, PT.
std::optional<Named> register_at(std::string_view s, std::size_t& length) {
  std::size_t at = 0;
  const bool uniform = at < s.size() && s[at] == 'U';
  if (uniform) ++at;
  if (at >= s.size() || (s[at] != 'R' && s[at] != 'P')) return std::nullopt;
  const bool predicate = s[at] == 'P';
  ++at;
  Named named;
  named.range.file = predicate ? (uniform ? RegisterFile::kUniformPredicate : RegisterFile::kPredicate)
                               : (uniform ? RegisterFile::kUniform : RegisterFile::kGeneral);
  if (at < s.size() && s[at] == (predicate ? 'T' : 'Z')) {
    named.is_zero = true;
    ++at;
  } else {
    unsigned number = 0;
    const std::size_t digits = at;
    while (at < s.size() && s[at] >= '0' && s[at] <= '9' && number < 256)
      number = number * 10 + static_cast<unsigned>(s[at++] - '0');
    if (at == digits || number > 255) return std::nullopt;
    named.range.first = static_cast<std::uint8_t>(number);
  }
  if (at < s.size() && is_name_char(s[at])) return std::nullopt;
  length = at;
  return named;
}

int number_after(std::string_view s, char mark) {
  const auto at = s.find(mark);
  int value = 0;
  for (std::size_t i = at + 1;
       at != std::string_view::npos && i < s.size() && s[i] >= '0' && s[i] <= '9' && value < 1000; ++i)
    value = value * 10 + (s[i] - '0');
  return value;
}

int width_of_modifiers(const Instruction& i) {
  if (i.has_modifier("128")) return 4;
  if (i.has_modifier("64") || i.has_modifier("WIDE") || i.has_modifier("F64")) return 2;
  return 1;
}

bool is_matrix(std::string_view base) {
  return base == "HMMA" || base == "IMMA" || base == "QMMA" || base == "OMMA" || base == "BMMA";
}

int result_width(const Instruction& i) {
  const std::string_view base = i.base();
  if (is_matrix(base)) return base == "HMMA" && i.has_modifier("F16") ? 2 : 4;
  if (is_wgmma(base)) {  // 64xNxK: N/2 registers of 32-bit accumulators
    const auto shape = i.mnemonic.find('x');
    const int n = shape == std::string_view::npos ? 0 : number_after(i.mnemonic.substr(shape), 'x');
    return std::clamp(i.has_modifier("F16") ? n / 4 : n / 2, 1, 128);
  }
  if (base == "LDSM") return i.has_modifier("4") ? 4 : i.has_modifier("2") ? 2 : 1;
  if (base == "LDTM") return std::clamp(number_after(i.mnemonic, 'x'), 1, 128);
  if (base == "DADD" || base == "DMUL" || base == "DFMA") return 2;
  if (base == "CS2R") return i.has_modifier("32") ? 1 : 2;
  return width_of_modifiers(i);
}

// Width of the source at place `source` (0 the first) outside addresses.
int source_width(const Instruction& i, int source) {
  const std::string_view base = i.base();
  if (is_matrix(base)) {
    const bool k8 = i.has_modifier("1688");
    const int widths[] = {k8 ? 2 : 4, k8 ? 1 : 2, result_width(i)};
    return source < 3 ? widths[source] : 1;
  }
  if (is_wgmma(base)) return source >= 1 ? result_width(i) : 1;
  if (base == "DADD" || base == "DMUL" || base == "DFMA") return 2;
  if (base.substr(0, 2) == "ST" || base == "RED" || base == "ATOMS" || base == "ATOMG") return width_of_modifiers(i);
  if (base == "IMAD" && i.has_modifier("WIDE")) return source == 2 ? 2 : 1;
  if (base == "UIADD3" && i.has_modifier("64")) return 2;
  return 1;
}

bool writes_nothing(std::string_view base) {
  if (base.empty()) return false;
  static constexpr std::string_view kPrefixes[] = {
      "ST",        "RED",     "BRA",        "BRX",         "JM",    "CALL",  "RET",        "EXIT",      "BAR",
      "MEMBAR",    "BSSY",    "BSYNC",      "NOP",         "UTMA",  "UBLK",  "UTC",        "WARP",      "DEPBAR",
      "LDGDEPBAR", "LDGSTS",  "ERRBAR",     "CCTL",        "FENCE", "YIELD", "USETMAXREG", "NANOSLEEP", "UCGABAR",
      "ACQBULK",   "PREEXIT", "UVIRTCOUNT", "SETLMEMBASE", "BREAK", "BMOV"};
  if (base == "REDUX") return false;
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view p) { return base.front() == p.front() && base.substr(0, p.size()) == p; });
}

bool writes_two_predicates(std::string_view base) {
  return base == "ISETP" || base == "FSETP" || base == "HSETP2" || base == "DSETP" || base == "PSETP" ||
         base == "PLOP3" || base == "UISETP" || base == "UPLOP3" || base == "UFSETP";
}

bool writes_carry(std::string_view base) {
  return base == "IADD3" || base == "UIADD3" || base == "LEA" || base == "ULEA" || base == "IMAD" || base == "UIMAD";
}

bool is_predicate(const Named& n) {
  return n.range.file == RegisterFile::kPredicate || n.range.file == RegisterFile::kUniformPredicate;
}

// Every register named inside `s`, which holds brackets: "desc[UR6][R2.64+0x10]", "gdesc[UR4]".
void add_inner(std::string_view s, RegisterList& list) {
  const bool descriptor = s.find("desc[") != std::string_view::npos;
  bool first = true;
  for (std::size_t at = 0; at < s.size();) {
    std::size_t length = 0;
    const bool starts_name = at == 0 || !is_name_char(s[at - 1]);
    const auto named = starts_name ? register_at(s.substr(at), length) : std::nullopt;
    if (!named) {
      ++at;
      continue;
    }
    at += length;
    if (named->is_zero) continue;
    RegisterRange range = named->range;
    const bool wide = s.substr(at, 3) == ".64" || (descriptor && first && range.file == RegisterFile::kUniform);
    range.count = wide ? 2 : 1;
    range.in_address = true;
    first = false;
    list.add(range);
  }
}

}  // namespace

std::string_view trim(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = std::min(s.find_first_not_of(kBlank), s.size());
  return s.substr(begin, s.find_last_not_of(kBlank) + 1 - begin);
}

std::string_view operand(const Instruction& instruction, int index) {
  std::string_view rest = instruction.operands;
  for (int i = 0;; ++i) {
    int depth = 0;
    std::size_t end = 0;
    while (end < rest.size() && (depth > 0 || rest[end] != ',')) {
      if (rest[end] == '[' || rest[end] == '(') ++depth;
      if (rest[end] == ']' || rest[end] == ')') --depth;
      ++end;
    }
    if (i == index) return trim(rest.substr(0, end));
    if (end == rest.size()) return {};
    rest.remove_prefix(end + 1);
  }
}

OperandShape shape_of(const Instruction& instruction) {
  const std::string_view base = instruction.base();
  OperandShape shape;
  shape.has_result = !writes_nothing(base);
  shape.two_predicates = writes_two_predicates(base);
  shape.carries = writes_carry(base);
  shape.only_predicates = shape.two_predicates || base == "FCHK" || base == "R2P";
  shape.addresses_first = base == "STG" || base == "STS" || base == "STL" || base == "ST";
  shape.result_width = static_cast<std::uint8_t>(result_width(instruction));
  for (int source = 0; source < static_cast<int>(shape.source_widths.size()); ++source)
    shape.source_widths[static_cast<std::size_t>(source)] =
        static_cast<std::uint8_t>(source_width(instruction, source));
  return shape;
}

Access registers_of(const Instruction& instruction, const OperandShape& shape) {
  Access access;
  if (instruction.guard != kAlways) access.reads.add({RegisterFile::kPredicate, instruction.guard, 1, false});
  const int max_predicates = shape.two_predicates ? 2 : 1;
  int predicates_written = 0;
  std::size_t source = 0;
  bool in_results = shape.has_result, has_result = false;
  std::string_view rest = instruction.operands;
  while (!rest.empty()) {
    int depth = 0;
    std::size_t end = 0;
    while (end < rest.size() && (depth > 0 || rest[end] != ',')) {
      if (rest[end] == '[' || rest[end] == '(') ++depth;
      if (rest[end] == ']' || rest[end] == ')') --depth;
      ++end;
    }
    std::string_view token = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
    const bool negated = !token.empty() &&
                         (token.front() == '!' || token.front() == '-' || token.front() == '~' || token.front() == '|');
    while (!token.empty() &&
           (token.front() == '!' || token.front() == '-' || token.front() == '~' || token.front() == '|'))
      token.remove_prefix(1);
    if (token.find('[') != std::string_view::npos) {
      in_results = false;
      add_inner(token, access.reads);
      if (token.substr(0, 5) == "gdesc" || token.substr(0, 4) == "desc") continue;
      if (!shape.addresses_first) ++source;
      continue;
    }
    std::size_t length = 0;
    const auto named = register_at(token, length);
    if (!named) {
      in_results = false;
      ++source;
      continue;
    }
    const bool predicate = is_predicate(*named);
    bool result = in_results && !negated;
    if (result && predicate) {
      result = has_result ? shape.carries : predicates_written < max_predicates;
      if (result) ++predicates_written;
    } else if (result) {
      result = !has_result && !shape.only_predicates;
      has_result = has_result || result;
    }
    if (!result) in_results = false;
    RegisterRange range = named->range;
    if (!predicate)
      range.count = result ? shape.result_width : shape.source_widths[std::min(source, shape.source_widths.size() - 1)];
    if (!result && !predicate) ++source;
    if (named->is_zero) continue;
    (result ? access.writes : access.reads).add(range);
  }
  return access;
}

}  // namespace pinch::sass
