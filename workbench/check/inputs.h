// Inputs that are made once, saved, and known by their hash: every run reads the same bytes.
#pragma once

#include <cstdint>
#include <string>

#include "pinch/result.h"
#include "pinch/tensor.h"

namespace pinch::check {

enum class Distribution : std::uint8_t {
  kNormal,   ///< mean 0, standard deviation 1
  kUniform,  ///< [-1, 1)
  kOnes,
  kIntegers,  ///< -8 to 7, which every type but E2M1 and U8 holds exactly
};

struct SavedInput {
  std::string name;
  std::string path;
  std::string sha256;
};

/// Writes FOLDER/NAME.npy, or NAME.safetensors with the tensor NAME for types that NumPy lacks. Element i depends on
/// the seed, the name and i alone. U8 takes the absolute values. Errors: those of the writers; kInvalidArgument for an
/// impossible shape.
Result<SavedInput> save_generated(const std::string& folder, const std::string& name, DType dtype, const Shape& shape,
                                  Distribution distribution, std::uint64_t seed);

/// Copies a file into the folder as NAME and its ending. Errors: kNotFound, kIo.
Result<SavedInput> save_copy(const std::string& folder, const std::string& name, const std::string& file);

}  // namespace pinch::check
