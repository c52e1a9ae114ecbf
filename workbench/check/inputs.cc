#include "workbench/check/inputs.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>
#include <vector>

#include "pinch/formats.h"
#include "pinch/npy.h"
#include "pinch/safetensors.h"
#include "workbench/check/sha256.h"

namespace pinch::check {
namespace {

namespace fs = std::filesystem;

// SplitMix64 (Steele, Lea, Flood 2014) of a counter: element i needs no element before it.
std::uint64_t mix(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15ULL;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
  return state ^ (state >> 31);
}
double unit(std::uint64_t bits) {  // (0, 1)
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

double element(Distribution distribution, std::uint64_t key, std::uint64_t index) {
  const std::uint64_t first = mix(key ^ mix(2 * index)), second = mix(key ^ mix(2 * index + 1));
  switch (distribution) {
    case Distribution::kNormal:  // Box and Muller
      return std::sqrt(-2 * std::log(unit(first))) * std::cos(2 * std::numbers::pi * unit(second));
    case Distribution::kUniform:
      return 2 * unit(first) - 1;
    case Distribution::kOnes:
      return 1;
    case Distribution::kIntegers:
      return static_cast<double>(first % 16) - 8;
  }
  return 0;
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
}

void put_element(DType dtype, std::vector<std::byte>& bytes, std::size_t i, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::kBf16:
      return put(bytes, i, to_bf16(single).bits);
    case DType::kF16:
      return put(bytes, i, to_f16(single).bits);
    case DType::kF32:
      return put(bytes, i, single);
    case DType::kF64:
      return put(bytes, i, value);
    case DType::kF8E4m3:
      return put(bytes, i, to_e4m3(single).bits);
    case DType::kF8E5m2:
      return put(bytes, i, to_e5m2(single).bits);
    case DType::kF4:
      bytes[i / 2] |= static_cast<std::byte>(to_e2m1(single).bits << (i % 2 == 0 ? 0 : 4));
      return;
    default:
      return put(bytes, i, static_cast<std::uint8_t>(std::min(255.0, std::abs(value))));
  }
}

Result<void> save(const std::string& path, const std::string& name, const TensorView& view) {
  if (fs::path(path).extension() == ".npy") return write_npy(path, view);
  PINCH_ASSIGN(writer, SafetensorsWriter::create(path, {{name, view.dtype, view.shape}}));
  PINCH_TRY(writer.append(0, view.bytes));
  return writer.finish();
}

}  // namespace

Result<SavedInput> save_generated(const std::string& folder, const std::string& name, DType dtype, const Shape& shape,
                                  Distribution distribution, std::uint64_t seed) {
  PINCH_ASSIGN(size, byte_size(dtype, shape));
  PINCH_ASSIGN(count, element_count(shape));
  std::uint64_t key = mix(seed);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c));
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    put_element(dtype, bytes, i, element(distribution, key, i));
  }
  const bool npy = dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kU8;
  SavedInput saved{name, fmt::format("{}/{}{}", folder, name, npy ? ".npy" : ".safetensors"), {}};
  PINCH_TRY(save(saved.path, name, {dtype, shape, bytes}));
  PINCH_ASSIGN(hash, sha256_file(saved.path));
  saved.sha256 = hash;
  return saved;
}

Result<SavedInput> save_copy(const std::string& folder, const std::string& name, const std::string& file) {
  SavedInput saved{name, folder + "/" + name + fs::path(file).extension().string(), {}};
  std::error_code failed;
  fs::copy_file(file, saved.path, fs::copy_options::overwrite_existing, failed);
  if (failed) {
    const bool absent = failed == std::errc::no_such_file_or_directory;
    return Error{absent ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot be copied: " + failed.message(), file};
  }
  PINCH_ASSIGN(hash, sha256_file(saved.path));
  saved.sha256 = hash;
  return saved;
}

}  // namespace pinch::check
