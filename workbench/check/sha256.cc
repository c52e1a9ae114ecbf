#include "workbench/check/sha256.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "pinch/assert.h"
#include "src/core/file_error.h"

namespace pinch::check {
namespace {

class Hasher {
 public:
  Hasher() : context_(EVP_MD_CTX_new()) {
    PINCH_ASSERT(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "libcrypto has SHA-256");
  }
  void add(const void* bytes, std::size_t size) {
    PINCH_ASSERT(EVP_DigestUpdate(context_.get(), bytes, size) == 1, "hashing memory cannot fail");
  }
  std::string digits() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    PINCH_ASSERT(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1, "hashing memory cannot fail");
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add(bytes.data(), bytes.size());
  return hasher.digits();
}

std::string sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text)));
}

Result<std::string> sha256_file(const std::string& path) {
  const auto close = [](std::FILE* file) { return std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return os_error(path, "be opened", errno);
  Hasher hasher;
  std::vector<char> block(1 << 18);
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), file.get())) > 0;) {
    hasher.add(block.data(), got);
  }
  if (std::ferror(file.get()) != 0) return os_error(path, "be read", errno);
  return hasher.digits();
}

}  // namespace pinch::check
