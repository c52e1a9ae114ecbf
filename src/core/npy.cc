#include "pinch/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/file_error.h"
#include "src/core/mapped_file.h"

namespace pinch {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "\x93NUMPY"sv;
constexpr std::size_t kMaxHeaderBytes = 1 << 20;

// NumPy's kind and size of the types both sides have; '<' (or '|' for one byte) stands before them in descr.
constexpr std::array<std::pair<std::string_view, DType>, 13> kDescrs = {{{"b1", DType::kBool},
                                                                         {"i1", DType::kI8},
                                                                         {"u1", DType::kU8},
                                                                         {"i2", DType::kI16},
                                                                         {"u2", DType::kU16},
                                                                         {"f2", DType::kF16},
                                                                         {"i4", DType::kI32},
                                                                         {"u4", DType::kU32},
                                                                         {"f4", DType::kF32},
                                                                         {"i8", DType::kI64},
                                                                         {"u8", DType::kU64},
                                                                         {"f8", DType::kF64},
                                                                         {"c8", DType::kC64}}};

// Reads the header's dict literal. Only what NumPy writes is a header; Python's other literals are not.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::uint64_t at, const std::string& file) : text_(text), at_(at), file_(file) {}

  struct Header {
    std::string_view descr;
    std::uint64_t descr_at = 0;
    bool fortran_order = false;
    Shape shape;
  };

  Result<Header> read() {
    Header header;
    bool seen_descr = false, seen_order = false, seen_shape = false;
    PINCH_TRY(expect('{'));
    while (!accept('}')) {
      PINCH_ASSIGN(key, quoted_text());
      bool* seen = key == "descr"           ? &seen_descr
                   : key == "fortran_order" ? &seen_order
                   : key == "shape"         ? &seen_shape
                                            : nullptr;
      if (seen == nullptr)
        return invalid(fmt::format("key {}; the keys are descr, fortran_order and shape", quote_name(key)));
      if (std::exchange(*seen, true)) {
        return corrupt(file_, at_ + position_, "duplicate_key", fmt::format("{} appears twice", quote_name(key)));
      }
      PINCH_TRY(expect(':'));
      if (seen == &seen_descr) {
        PINCH_TRY(read_descr(header));
      } else if (seen == &seen_order) {
        PINCH_TRY(read_order(header));
      } else {
        PINCH_TRY(read_shape(header));
      }
      if (!accept(',')) {
        PINCH_TRY(expect('}'));
        break;
      }
    }
    skip_spaces();
    if (position_ != text_.size()) return invalid("text after the dict");
    if (!seen_descr || !seen_order || !seen_shape) {
      return invalid(fmt::format("no {}", !seen_descr ? "descr" : !seen_order ? "fortran_order" : "shape"));
    }
    return header;
  }

 private:
  [[nodiscard]] Error invalid(std::string_view text) const {
    return corrupt(file_, at_ + position_, "invalid_header", text);
  }

  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
  }

  bool accept(char wanted) {
    skip_spaces();
    if (position_ == text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  Result<void> expect(char wanted) {
    if (accept(wanted)) return {};
    return invalid(fmt::format("a '{}' is needed here", wanted));
  }

  Result<std::string_view> quoted_text() {
    skip_spaces();
    if (position_ == text_.size() || (text_[position_] != '\'' && text_[position_] != '"')) {
      return invalid("a quoted text is needed here");
    }
    const char quote = text_[position_];
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) return invalid("a text that does not end");
    const std::string_view text = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return text;
  }

  Result<void> read_descr(Header& header) {
    skip_spaces();
    if (position_ < text_.size() && text_[position_] == '[') {
      return Error{ErrorCode::kUnsupported,
                   "unsupported_dtype: a structured type; save one field as an array of its own",
                   fmt::format("{}: byte {}", file_, at_ + position_)};
    }
    header.descr_at = at_ + position_;
    PINCH_ASSIGN(text, quoted_text());
    header.descr = text;
    return {};
  }

  Result<void> read_order(Header& header) {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) == word) {
        header.fortran_order = value;
        position_ += word.size();
        return {};
      }
    }
    return invalid("fortran_order is True or False");
  }

  Result<void> read_shape(Header& header) {
    PINCH_TRY(expect('('));
    bool comma = true;
    while (!accept(')')) {
      if (!comma) return invalid("a ',' is needed between sizes");
      PINCH_ASSIGN(size, whole_number());
      header.shape.push_back(size);
      comma = accept(',');
    }
    // Without a comma (5) is a number in parentheses, not a shape.
    if (header.shape.size() == 1 && !comma) return invalid("a shape of one axis is written (n,)");
    return {};
  }

  Result<std::int64_t> whole_number() {
    skip_spaces();
    std::int64_t value = 0;
    const std::size_t start = position_;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      const std::int64_t digit = text_[position_] - '0';
      if (value > (INT64_MAX - digit) / 10) {
        return corrupt(file_, at_ + start, "shape_overflow", "a size above 2^63 - 1");
      }
      value = value * 10 + digit;
    }
    if (position_ == start) return invalid("a whole number from 0 is needed here");
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_;
  std::uint64_t at_;
  const std::string& file_;
  std::size_t position_ = 0;
};

std::optional<DType> numpy_type(std::string_view descr) {
  if (descr.size() < 2) return std::nullopt;
  for (const auto& [name, type] : kDescrs) {
    if (descr.substr(1) == name && (descr[0] == '<' || (descr[0] == '|' && bits(type) == 8))) return type;
  }
  return std::nullopt;
}

}  // namespace

Result<NpyFile> NpyFile::open(const std::string& path) {
  PINCH_ASSIGN(mapping, MappedFile::open(path));
  PINCH_ASSIGN(file, parse(mapping->bytes(), path));
  file.mapping_ = mapping;
  return std::move(file);
}

Result<NpyFile> NpyFile::parse(std::span<const std::byte> file, std::string name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const std::size_t version_at = kMagic.size();
  if (text.substr(0, kMagic.size()) != kMagic) {
    return corrupt(name, 0, "bad_magic", "a .npy file starts with \\x93NUMPY");
  }
  if (text.size() < version_at + 2) return corrupt(name, text.size(), "truncated_header", "no version");
  const int major = text[version_at], minor = text[version_at + 1];
  if (major < 1 || major > 3 || minor != 0) {
    return corrupt(name, version_at, "unknown_version", fmt::format("{}.{}; 1.0, 2.0 and 3.0 exist", major, minor));
  }
  const std::size_t length_at = version_at + 2;
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::uint32_t header_bytes = 0;
  if (text.size() < length_at + length_bytes) {
    return corrupt(name, text.size(), "truncated_header", "the file ends inside the header's length");
  }
  std::memcpy(&header_bytes, file.data() + length_at, length_bytes);
  const std::size_t header_at = length_at + length_bytes;
  if (header_bytes > kMaxHeaderBytes) {
    return corrupt(name, length_at, "header_too_long",
                   fmt::format("{} bytes; at most {}", header_bytes, kMaxHeaderBytes));
  }
  if (header_bytes > text.size() - header_at) {
    return corrupt(name, text.size(), "truncated_header",
                   fmt::format("a header of {} bytes where {} follow", header_bytes, text.size() - header_at));
  }
  PINCH_ASSIGN(header, HeaderReader(text.substr(header_at, header_bytes), header_at, name).read());

  const auto unsupported = [&](std::string text_of_error) {
    return Error{ErrorCode::kUnsupported, std::move(text_of_error), fmt::format("{}: byte {}", name, header.descr_at)};
  };
  const std::optional<DType> type = numpy_type(header.descr);
  if (!type) {
    return unsupported(
        fmt::format("unsupported_dtype: {}; save little-endian numbers of 1 to 8 bytes, as astype('<f4')",
                    quote_name(header.descr)));
  }
  const auto long_axes = std::count_if(header.shape.begin(), header.shape.end(), [](auto size) { return size > 1; });
  if (header.fortran_order && long_axes > 1) {
    return unsupported("fortran_order: column-major data; save numpy.ascontiguousarray(array)");
  }
  const auto wanted = byte_size(*type, header.shape);
  if (!wanted) return corrupt(name, header_at, "shape_overflow", wanted.error().text);
  const std::size_t data_at = header_at + header_bytes;
  if (*wanted != text.size() - data_at) {
    return corrupt(name, data_at, "size_mismatch",
                   fmt::format("{} {} needs {} bytes, {} follow", to_string(*type), to_string(header.shape), *wanted,
                               text.size() - data_at));
  }
  NpyFile result;
  result.view_ = {*type, std::move(header.shape), file.subspan(data_at)};
  return result;
}

Result<void> write_npy(const std::string& path, const TensorView& tensor) {
  const auto type =
      std::find_if(kDescrs.begin(), kDescrs.end(), [&](const auto& row) { return row.second == tensor.dtype; });
  if (type == kDescrs.end()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("NumPy has no {}; convert to F32 or write .safetensors", to_string(tensor.dtype)), path};
  }
  PINCH_ASSIGN(wanted, byte_size(tensor.dtype, tensor.shape));
  if (wanted != tensor.bytes.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} bytes given; {} {} needs {}", tensor.bytes.size(), to_string(tensor.dtype),
                             to_string(tensor.shape), wanted),
                 path};
  }
  std::string shape;
  for (const std::int64_t size : tensor.shape) shape += fmt::format("{}, ", size);
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   bits(tensor.dtype) == 8 ? '|' : '<', type->first, shape);
  // The data starts at a multiple of 64, as NumPy writes it; the header ends in a newline.
  constexpr std::size_t kBeforeV1 = 10;
  constexpr std::size_t kBeforeV2 = 12;
  const bool longer = header.size() + kBeforeV1 + 64 > UINT16_MAX;
  const std::size_t before = longer ? kBeforeV2 : kBeforeV1;
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  header += '\n';
  std::string start(kMagic);
  start += longer ? "\x02\x00"sv : "\x01\x00"sv;
  const auto length = static_cast<std::uint32_t>(header.size());
  start.append(reinterpret_cast<const char*>(&length), longer ? 4 : 2);
  start += header;

  PINCH_ASSIGN(file, AtomicFile::create(path, start.size() + wanted));
  PINCH_TRY(file.write(0, std::as_bytes(std::span(start))));
  PINCH_TRY(file.write(start.size(), tensor.bytes));
  return file.commit();
}

}  // namespace pinch
