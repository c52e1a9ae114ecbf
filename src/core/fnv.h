// FNV-1a, 64 bits (Fowler, Noll, Vo): tells builds, lists and instruction streams apart, not against an adversary.
#pragma once

#include <cstdint>
#include <string_view>

namespace pinch {

inline constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325ULL;  ///< of no bytes

/// Of the bytes that `hash` is of, and these.
constexpr std::uint64_t fnv(std::string_view bytes, std::uint64_t hash = kFnvOffset) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace pinch
