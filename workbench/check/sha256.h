// SHA-256 (FIPS 180-4), as 64 hexadecimal digits: what saved inputs, outputs and builds are known by.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "pinch/result.h"

namespace pinch::check {

/// Of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  /// Of all that was added; ends the hash.
  std::string digits();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

/// Of a file's contents. Errors: kNotFound, kIo.
Result<std::string> sha256_file(const std::string& path);

}  // namespace pinch::check
