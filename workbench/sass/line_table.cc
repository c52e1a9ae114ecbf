#include "workbench/sass/line_table.h"

#include <algorithm>
#include <optional>

namespace pinch::sass {
namespace {

// Reads forwards; past the end every read gives 0 and `good` is false.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return at_ >= bytes_.size(); }

  template <class T>
  T fixed() {
    const auto value = read_at<T>(bytes_, at_);
    good_ = good_ && value.has_value();
    at_ += sizeof(T);
    return value.value_or(0);
  }

  std::uint64_t unsigned_leb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

  std::uint64_t signed_leb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
      return value;  // of two's complement: sums of damaged values may wrap
    }
  }

  std::string_view text() {
    const std::size_t begin = std::min<std::size_t>(at_, bytes_.size());
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + begin, bytes_.size() - begin);
    const std::size_t length = std::min(rest.find('\0'), rest.size());
    good_ = good_ && length < rest.size();
    at_ = begin + length + 1;
    return rest.substr(0, length);
  }

  // The next `length` bytes for a cursor of their own; this one goes on behind them.
  Cursor part(std::uint64_t length) {
    const auto bytes = slice(bytes_, at_, length);
    good_ = good_ && bytes.has_value();
    Cursor made(bytes.value_or(Bytes{}), base_ + at_);
    at_ = bytes ? at_ + length : bytes_.size();
    return made;
  }
  // Of the next byte, counted from the start of the section.
  [[nodiscard]] std::uint64_t in_section() const { return base_ + at_; }

 private:
  Cursor(Bytes bytes, std::uint64_t base) : bytes_(bytes), base_(base) {}

  Bytes bytes_;
  std::uint64_t at_ = 0, base_ = 0;
  bool good_ = true;
};

// DWARF's standard and extended opcodes, by their numbers there.
enum Standard : std::uint8_t { kExtended, kCopy, kAdvancePc, kAdvanceLine, kSetFile, kConstAddPc = 8, kFixedAdvancePc };
enum Extended : std::uint8_t { kEndSequence = 1, kSetAddress };

class LineProgram {
 public:
  LineProgram(Cursor unit, const std::map<std::uint64_t, std::uint32_t>& functions, LineTable& table)
      : in_(unit), functions_(functions), table_(table) {}

  void read() {
    if (!header()) return;
    while (in_.good() && !in_.at_end()) step();
  }

 private:
  bool header() {
    constexpr std::uint16_t kOldest = 2, kNewest = 4;
    const auto version = in_.fixed<std::uint16_t>();
    if (version < kOldest || version > kNewest) return false;
    Cursor rest = in_.part(in_.fixed<std::uint32_t>());
    minimum_length_ = rest.fixed<std::uint8_t>();
    if (version >= kNewest) rest.fixed<std::uint8_t>();  // operations of an instruction
    rest.fixed<std::uint8_t>();                          // whether rows are statements
    line_base_ = static_cast<std::int8_t>(rest.fixed<std::uint8_t>());
    line_range_ = rest.fixed<std::uint8_t>();
    const auto opcode_base = rest.fixed<std::uint8_t>();
    for (int i = 1; i < opcode_base && rest.good(); ++i) operands_.push_back(rest.fixed<std::uint8_t>());
    std::vector<std::string_view> folders{""};
    for (std::string_view name = rest.text(); !name.empty() && rest.good(); name = rest.text()) folders.push_back(name);
    for (std::string_view name = rest.text(); !name.empty() && rest.good(); name = rest.text())
      file(rest, name, folders);
    return rest.good() && line_range_ > 0;
  }

  void file(Cursor& in, std::string_view name, const std::vector<std::string_view>& folders) {
    const std::uint64_t folder = in.unsigned_leb();
    in.unsigned_leb();  // time
    in.unsigned_leb();  // size
    const bool has_folder = folder > 0 && folder < folders.size() && name.front() != '/';
    files_.push_back(static_cast<std::uint32_t>(table_.files.size()));
    table_.files.push_back({has_folder ? folders[static_cast<std::size_t>(folder)] : "", name});
  }

  void step() {
    const auto opcode = in_.fixed<std::uint8_t>();
    if (opcode > operands_.size()) {  // special: both registers move
      const unsigned adjusted = opcode - static_cast<unsigned>(operands_.size()) - 1;
      address_ += std::uint64_t{adjusted / line_range_} * minimum_length_;
      line_ += static_cast<std::uint64_t>(std::int64_t{line_base_} + adjusted % line_range_);
      return row();
    }
    switch (opcode) {
      case kExtended:
        return extended();
      case kCopy:
        return row();
      case kAdvancePc:
        address_ += in_.unsigned_leb() * minimum_length_;
        return;
      case kAdvanceLine:
        line_ += in_.signed_leb();
        return;
      case kSetFile:
        file_ = in_.unsigned_leb();
        return;
      case kConstAddPc:
        address_ += std::uint64_t{(255u - static_cast<unsigned>(operands_.size()) - 1) / line_range_} * minimum_length_;
        return;
      case kFixedAdvancePc:
        address_ += in_.fixed<std::uint16_t>();
        return;
      default:
        for (int i = 0; i < operands_[opcode - 1u]; ++i) in_.unsigned_leb();
    }
  }

  void extended() {
    Cursor body = in_.part(in_.unsigned_leb());
    switch (body.fixed<std::uint8_t>()) {
      case kEndSequence:
        line_ = 0;
        row();
        function_.reset();
        address_ = 0;
        line_ = file_ = 1;
        return;
      case kSetAddress: {
        const auto function = functions_.find(body.in_section());
        function_ = function == functions_.end() ? std::nullopt : std::optional(function->second);
        address_ = body.fixed<std::uint64_t>();
        return;
      }
      default:  // NVIDIA's own say where code was inlined
        return;
    }
  }

  void row() {
    if (!function_) return;
    const bool known = line_ >= 1 && line_ <= 0x7fffffff && file_ >= 1 && file_ <= files_.size();
    table_.functions[*function_].push_back({address_, known ? files_[static_cast<std::size_t>(file_ - 1)] : 0,
                                            known ? static_cast<std::uint32_t>(line_) : 0});
  }

  Cursor in_;
  const std::map<std::uint64_t, std::uint32_t>& functions_;
  LineTable& table_;
  std::vector<std::uint8_t> operands_;  // of each standard opcode
  std::vector<std::uint32_t> files_;    // of this unit, in the table
  std::optional<std::uint32_t> function_;
  std::uint64_t address_ = 0, file_ = 1, line_ = 1;
  std::int8_t line_base_ = 0;
  std::uint8_t line_range_ = 1, minimum_length_ = 1;
};

}  // namespace

LineTable read_line_table(Bytes section, const std::map<std::uint64_t, std::uint32_t>& functions) {
  LineTable table;
  for (Cursor in(section); in.good() && !in.at_end();)
    LineProgram(in.part(in.fixed<std::uint32_t>()), functions, table).read();
  for (auto& [function, rows] : table.functions) {
    std::stable_sort(rows.begin(), rows.end(), [](const LineRow& a, const LineRow& b) { return a.offset < b.offset; });
  }
  return table;
}

}  // namespace pinch::sass
