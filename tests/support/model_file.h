// Small .safetensors files for tests, from values in memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "pinch/safetensors.h"

namespace pinch {

struct StoredTensor {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

template <class T>
StoredTensor stored(std::string name, DType dtype, Shape shape, const std::vector<T>& values) {
  StoredTensor tensor{{std::move(name), dtype, std::move(shape)}, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

inline void write_model(const std::string& path, const std::vector<StoredTensor>& tensors,
                        const Metadata& metadata = {}) {
  std::vector<TensorSpec> specs;
  for (const StoredTensor& tensor : tensors) specs.push_back(tensor.spec);
  auto writer = SafetensorsWriter::create(path, specs, metadata);
  ASSERT_TRUE(writer.ok()) << writer.error().message();
  for (std::size_t i = 0; i < tensors.size(); ++i) ASSERT_TRUE(writer->append(i, tensors[i].bytes).ok());
  const auto finished = writer->finish();
  ASSERT_TRUE(finished.ok()) << finished.error().message();
}

}  // namespace pinch
