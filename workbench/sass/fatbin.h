// The fatbin container: cubins and PTX, each perhaps compressed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pinch/result.h"
#include "workbench/sass/bytes.h"

namespace pinch::sass {

inline constexpr std::uint32_t kFatbinMagic = 0xba55ed50;

struct FatbinEntry {
  enum Kind { kPtx, kCubin } kind;
  std::shared_ptr<const std::string> data;  ///< decompressed
};

/// Every PTX and cubin entry of the containers that follow each other in `bytes`; padding between them is skipped.
/// Errors: kCorrupt, naming file and offset, for entries that end outside, do not decompress, or claim absurd sizes.
Result<std::vector<FatbinEntry>> read_fatbins(Bytes bytes, const std::string& name);

}  // namespace pinch::sass
