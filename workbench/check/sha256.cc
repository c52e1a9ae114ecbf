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

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* each) const { EVP_MD_CTX_free(each); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  EVP_MD_CTX* context = state_->context.get();
  PINCH_ASSERT(context && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1, "libcrypto has SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  PINCH_ASSERT(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1, "hashing memory cannot fail");
}

std::string Sha256::digits() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  PINCH_ASSERT(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size) == 1, "hashing memory cannot fail");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digits();
}

std::string sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text)));
}

Result<std::string> sha256_file(const std::string& path) {
  const auto close = [](std::FILE* file) { return std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return os_error(path, "be opened", errno);
  Sha256 hash;
  std::vector<char> block(1 << 18);
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), file.get())) > 0;) {
    hash.add(std::string_view(block.data(), got));
  }
  if (std::ferror(file.get()) != 0) return os_error(path, "be read", errno);
  return hash.digits();
}

}  // namespace pinch::check
