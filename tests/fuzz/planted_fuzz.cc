// A reader that forgets the eight bytes of the header in its bounds check: what the other targets would look like with
// such a fault. It reads at most eight bytes past the end, where AddressSanitizer always tells what happened.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  std::uint64_t length = 0;
  std::memcpy(&length, data, sizeof length);
  if (length > size) return 0;
  const std::vector<std::uint8_t> file(data, data + size);
  volatile std::uint8_t last = length == 0 ? std::uint8_t{0} : file.data()[8 + length - 1];
  static_cast<void>(last);
  return 0;
}
