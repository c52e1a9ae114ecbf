// Hashes that keys are made of: not against an adversary, only to tell builds and lists apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pinch::store {

/// FNV-1a, 64 bits (Fowler, Noll, Vo), as 16 hexadecimal digits.
std::string text_hash(std::string_view text);

/// The same over the running program's file; empty where it cannot be read, which makes every key unknown.
std::string binary_hash();

}  // namespace pinch::store
