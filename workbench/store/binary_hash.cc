#include "workbench/store/binary_hash.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <memory>

#include "src/core/fnv.h"

namespace pinch::store {

namespace {

std::string hexadecimal(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::string text_hash(std::string_view text) {
  return hexadecimal(fnv(text));
}

std::string binary_hash() {
  const auto close = [](std::FILE* file) { return std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen("/proc/self/exe", "rb"), close);
  if (!file) return {};
  std::uint64_t hash = kFnvOffset;
  std::array<char, 65536> block{};
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), file.get())) > 0;) {
    hash = fnv({block.data(), got}, hash);
  }
  return std::ferror(file.get()) != 0 ? std::string{} : hexadecimal(hash);
}

}  // namespace pinch::store
