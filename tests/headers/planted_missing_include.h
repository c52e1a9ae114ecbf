#pragma once

inline std::vector<int> empty() {
  return {};
}
