// The JSON header of a .safetensors file, checked as far as it can be without the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pinch/result.h"
#include "pinch/safetensors.h"

namespace pinch {

inline constexpr std::uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;

struct SafetensorsHeader {
  struct Entry {
    TensorInfo tensor;
    std::uint64_t at = 0;  // byte of the file where its name ends, for messages
  };
  Metadata metadata;
  std::vector<Entry> entries;  // in the order of the file
};

/// Reads the header's JSON text, which starts at byte 8 of `file`. Errors: kCorrupt, by the names in safetensors.h.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace pinch
