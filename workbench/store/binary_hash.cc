#include "workbench/store/binary_hash.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <memory>

namespace pinch::store {

namespace {

constexpr std::uint64_t kOffset = 0xcbf29ce484222325ULL;
constexpr std::uint64_t kPrime = 0x100000001b3ULL;

std::uint64_t extend(std::uint64_t hash, std::string_view bytes) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return hash;
}

std::string hexadecimal(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::string text_hash(std::string_view text) {
  return hexadecimal(extend(kOffset, text));
}

std::string binary_hash() {
  const auto close = [](std::FILE* file) { return std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen("/proc/self/exe", "rb"), close);
  if (!file) return {};
  std::uint64_t hash = kOffset;
  std::array<char, 65536> block{};
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), file.get())) > 0;) {
    hash = extend(hash, {block.data(), got});
  }
  return std::ferror(file.get()) != 0 ? std::string{} : hexadecimal(hash);
}

}  // namespace pinch::store
