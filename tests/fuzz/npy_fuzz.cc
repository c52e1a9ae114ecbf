// Any bytes are either refused or give an array whose bytes end where the file ends.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pinch/npy.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = pinch::NpyFile::parse(bytes, "fuzz");
  if (!file.ok()) {
    require(file.error().where.rfind("fuzz: byte ", 0) == 0);
    return 0;
  }
  const pinch::TensorView& view = file->view();
  require(view.bytes.size() == pinch::byte_size(view.dtype, view.shape).value());
  require(view.bytes.data() + view.bytes.size() == bytes.data() + bytes.size());
  volatile unsigned sum = 0;
  for (const std::byte byte : view.bytes) sum = sum + static_cast<unsigned>(byte);
  if (pinch::is_float(view.dtype)) {
    std::vector<float> values(static_cast<std::size_t>(pinch::element_count(view.shape).value()));
    require(pinch::read_f32(view, 0, values).ok());
  }
  return 0;
}
