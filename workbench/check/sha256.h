// SHA-256 (FIPS 180-4), as 64 hexadecimal digits: what saved inputs, outputs and builds are known by.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "pinch/result.h"

namespace pinch::check {

std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

/// Of a file's contents. Errors: kNotFound, kIo.
Result<std::string> sha256_file(const std::string& path);

}  // namespace pinch::check
