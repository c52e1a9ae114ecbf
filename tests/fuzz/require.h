// The fuzz targets' check: what it stops at, libFuzzer reports with the input.
#pragma once

#include <cstdlib>

inline void require(bool holds) {
  if (!holds) std::abort();
}
