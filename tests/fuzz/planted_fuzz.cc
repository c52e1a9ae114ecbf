// A reader that trusts the header's length: what the other targets would look like if a bounds check were lost.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  std::uint64_t length = 0;
  std::memcpy(&length, data, sizeof length);
  if (length > 100'000'000) return 0;
  const std::vector<std::uint8_t> file(data, data + size);
  volatile std::uint8_t last = length == 0 ? std::uint8_t{0} : file.data()[8 + length - 1];
  static_cast<void>(last);
  return 0;
}
