// Any bytes are either refused or give tensors that lie in the file, cover its data without overlap and can be read;
// what loads as FP4 weights is valid.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pinch/fp4_checkpoint.h"
#include "pinch/safetensors.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = pinch::SafetensorsFile::parse(bytes, "fuzz");
  if (!file.ok()) {
    require(file.error().code == pinch::ErrorCode::kCorrupt);
    require(file.error().where.rfind("fuzz: byte ", 0) == 0);
    return 0;
  }
  std::uint64_t covered = 0;
  for (const pinch::TensorInfo& tensor : file->tensors()) {
    require(tensor.begin == covered);
    covered = tensor.end;
    require(file->find(tensor.name) == &tensor);
    const pinch::TensorView view = file->view(tensor);
    require(view.bytes.size() == pinch::byte_size(view.dtype, view.shape).value());
    // Reads every byte, so that the sanitizer sees one outside the file.
    volatile unsigned sum = 0;
    for (const std::byte byte : view.bytes) sum = sum + static_cast<unsigned>(byte);
    if (pinch::is_float(view.dtype)) {
      std::vector<float> values(static_cast<std::size_t>(pinch::element_count(view.shape).value()));
      require(pinch::read_f32(view, 0, values).ok());
    }
  }
  static_cast<void>(file->tensor("missing"));  // offers the nearest names
  for (const pinch::TensorInfo& tensor : file->tensors()) {
    const auto weights = pinch::load_fp4_tensor(*file, tensor.name);
    require(!weights.ok() || pinch::validate(weights->view()).ok());
  }
  return 0;
}
