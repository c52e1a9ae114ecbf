#include "src/core/safetensors_header.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "src/core/file_error.h"

namespace pinch {
namespace {

using Json = nlohmann::json;

// Hands the header to the JSON reader and tells how far it has come, which its events do not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Takes the reader's events and accepts only the header's grammar. A tree of values would have dropped duplicate keys.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  HeaderEvents(std::string_view json, const std::string& file) : json_(json), furthest_(json.data()), file_(file) {}

  Result<SafetensorsHeader> read() {
    const bool whole = Json::sax_parse(CountingIterator(json_.data(), &furthest_),
                                       CountingIterator(json_.data() + json_.size(), &furthest_), this);
    if (error_) return *error_;
    // The reader takes a NUL for the end of the text.
    if (!whole || furthest_ != json_.data() + json_.size()) {
      return corrupt(file_, position(), "invalid_json", "the header's text ends before its length");
    }
    return std::move(header_);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { return unexpected(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected(text.substr(0, 40)); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (in_ == In::kShape) {
      if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
        return fail("shape_overflow", fmt::format("a size of {}; at most 2^63 - 1", value));
      }
      tensor().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (in_ == In::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor().begin : tensor().end) = value;
      return true;
    }
    return unexpected(fmt::format("{}", value));
  }

  bool string(string_t& text) override {
    if (in_ == In::kMetadata) {
      header_.metadata.emplace_back(std::move(key_), std::move(text));
      return true;
    }
    if (in_ == In::kTensor && key_ == "dtype") {
      const std::optional<DType> type = parse_dtype(text);
      if (!type) {
        return fail("unknown_dtype", fmt::format("dtype {} of {}; the format defines {}", quote_name(text),
                                                 quote_name(tensor().name), dtype_names()));
      }
      tensor().dtype = *type;
      return true;
    }
    return unexpected(fmt::format("the text {}", quote_name(text)));
  }

  bool start_object(std::size_t) override {
    switch (in_) {
      case In::kStart:
        in_ = In::kRoot;
        return true;
      case In::kRoot:
        if (key_ == "__metadata__") {
          in_ = In::kMetadata;
          return true;
        }
        header_.entries.emplace_back();
        tensor().name = key_;
        header_.entries.back().at = position();
        seen_dtype_ = seen_shape_ = seen_offsets_ = false;
        in_ = In::kTensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& text) override {
    if (in_ == In::kRoot && !names_.insert(text).second) return duplicate(text);
    if (in_ == In::kMetadata && !metadata_names_.insert(text).second) return duplicate(text);
    if (in_ == In::kTensor) {
      bool* seen = text == "dtype"          ? &seen_dtype_
                   : text == "shape"        ? &seen_shape_
                   : text == "data_offsets" ? &seen_offsets_
                                            : nullptr;
      if (seen == nullptr) return unexpected(fmt::format("a field {}", quote_name(text)));
      if (std::exchange(*seen, true)) return duplicate(text);
    }
    key_ = std::move(text);
    return true;
  }

  bool end_object() override {
    if (in_ == In::kTensor && !(seen_dtype_ && seen_shape_ && seen_offsets_)) {
      return fail("missing_field", fmt::format("tensor {} has no {}", quote_name(tensor().name),
                                               !seen_dtype_   ? "dtype"
                                               : !seen_shape_ ? "shape"
                                                              : "data_offsets"));
    }
    in_ = in_ == In::kRoot ? In::kDone : In::kRoot;
    return true;
  }

  bool start_array(std::size_t) override {
    if (in_ == In::kTensor && (key_ == "shape" || key_ == "data_offsets")) {
      in_ = key_ == "shape" ? In::kShape : In::kOffsets;
      offsets_ = 0;
      return true;
    }
    return unexpected("an array");
  }

  bool end_array() override {
    if (in_ == In::kOffsets && offsets_ != 2) return unexpected("fewer than two data_offsets");
    in_ = In::kTensor;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    // The reader's text starts with its own error number in brackets.
    const std::string_view text = error.what();
    const std::size_t bracket = text.find("] ");
    return fail("invalid_json", bracket == std::string_view::npos ? text : text.substr(bracket + 2));
  }

 private:
  enum class In { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets, kDone };

  TensorInfo& tensor() { return header_.entries.back().tensor; }

  // The byte of the file that was read last.
  [[nodiscard]] std::uint64_t position() const {
    const auto read = static_cast<std::uint64_t>(furthest_ - json_.data());
    return kSafetensorsLengthBytes + (read == 0 ? 0 : read - 1);
  }

  bool fail(std::string_view rule, std::string_view text) {
    error_ = corrupt(file_, position(), rule, text);
    return false;
  }
  bool duplicate(const std::string& name) {
    return fail("duplicate_key", fmt::format("{} appears twice; each name may appear once", quote_name(name)));
  }
  bool unexpected(std::string_view found) {
    switch (in_) {
      case In::kRoot:
        return fail("unexpected_value", fmt::format("{} for {}; an object is needed", found, quote_name(key_)));
      case In::kMetadata:
        return fail("unexpected_value",
                    fmt::format("{} for metadata {}; only texts are allowed", found, quote_name(key_)));
      case In::kTensor:
        return fail("unexpected_value",
                    fmt::format("{} in tensor {}; the fields are dtype (text), shape and data_offsets "
                                "(arrays)",
                                found, quote_name(tensor().name)));
      case In::kShape:
        return fail("unexpected_value", fmt::format("{} in the shape of {}; only whole sizes from 0 are allowed", found,
                                                    quote_name(tensor().name)));
      case In::kOffsets:
        return fail("unexpected_value",
                    fmt::format("{} in data_offsets of {}; exactly two whole numbers from 0 are needed", found,
                                quote_name(tensor().name)));
      default:
        return fail("unexpected_value", fmt::format("{}; the header is one object", found));
    }
  }

  std::string_view json_;
  const char* furthest_;
  const std::string& file_;
  SafetensorsHeader header_;
  std::optional<Error> error_;
  std::string key_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_names_;
  In in_ = In::kStart;
  int offsets_ = 0;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, const std::string& file) {
  if (json.empty() || json.front() != '{') {
    return corrupt(file, kSafetensorsLengthBytes, "header_not_object", "the header does not start with '{'");
  }
  return HeaderEvents(json, file).read();
}

}  // namespace pinch
