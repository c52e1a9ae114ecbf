// Bounds-checked little-endian reads from a file held in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace pinch::sass {

using Bytes = std::span<const std::byte>;

/// `length` bytes at `at`, or nothing where they do not all lie inside.
[[nodiscard]] inline std::optional<Bytes> slice(Bytes bytes, std::uint64_t at, std::uint64_t length) {
  if (at > bytes.size() || length > bytes.size() - at) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
}

/// The unsigned integer T at `at`, or nothing where it does not lie inside.
template <class T>
[[nodiscard]] std::optional<T> read_at(Bytes bytes, std::uint64_t at) {
  const auto part = slice(bytes, at, sizeof(T));
  if (!part) return std::nullopt;
  T value;
  std::memcpy(&value, part->data(), sizeof(T));
  return value;
}

/// True where `text` holds `part`. std::string_view::find stops at every byte that is the part's first.
[[nodiscard]] inline bool contains(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

}  // namespace pinch::sass
