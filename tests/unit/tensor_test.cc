#include "pinch/tensor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

namespace pinch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Tensor, DtypeNamesAndParseAreInverses) {
  int types = 0;
  for (int i = 0; i <= static_cast<int>(DType::kC64); ++i, ++types) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(type)), type);
    EXPECT_THAT(dtype_names(), HasSubstr(std::string(to_string(type))));
  }
  EXPECT_EQ(types, 22);
  EXPECT_FALSE(parse_dtype("").has_value());
  EXPECT_FALSE(parse_dtype("f32").has_value());
}

TEST(Tensor, DtypesHaveTheNamesAndSizesOfTheFormat) {
  const std::pair<DType, std::string_view> eight_bits[] = {{DType::kBool, "BOOL"},
                                                           {DType::kU8, "U8"},
                                                           {DType::kI8, "I8"},
                                                           {DType::kF8E5m2, "F8_E5M2"},
                                                           {DType::kF8E4m3, "F8_E4M3"},
                                                           {DType::kF8E8m0, "F8_E8M0"},
                                                           {DType::kF8E4m3Fnuz, "F8_E4M3FNUZ"},
                                                           {DType::kF8E5m2Fnuz, "F8_E5M2FNUZ"}};
  for (const auto& [type, name] : eight_bits) {
    EXPECT_EQ(to_string(type), name);
    EXPECT_EQ(bits(type), 8);
  }
  const std::tuple<DType, std::string_view, int> others[] = {
      {DType::kF4, "F4", 4},      {DType::kF6E2m3, "F6_E2M3", 6}, {DType::kF6E3m2, "F6_E3M2", 6},
      {DType::kI16, "I16", 16},   {DType::kU16, "U16", 16},       {DType::kF16, "F16", 16},
      {DType::kBf16, "BF16", 16}, {DType::kI32, "I32", 32},       {DType::kU32, "U32", 32},
      {DType::kF32, "F32", 32},   {DType::kI64, "I64", 64},       {DType::kU64, "U64", 64},
      {DType::kF64, "F64", 64},   {DType::kC64, "C64", 64}};
  for (const auto& [type, name, size] : others) {
    EXPECT_EQ(to_string(type), name);
    EXPECT_EQ(bits(type), size);
  }
}

TEST(Tensor, ElementCountCountsAnEmptyAxisAsEmpty) {
  EXPECT_EQ(element_count({}).value(), 1);
  EXPECT_EQ(element_count({3, 4}).value(), 12);
  EXPECT_EQ(element_count({3, 0}).value(), 0);
  EXPECT_EQ(element_count({INT64_MAX}).value(), INT64_MAX);
}

TEST(Tensor, ElementCountRefusesOverflowEvenBesideAnEmptyAxis) {
  EXPECT_FALSE(element_count({INT64_MAX, 2}).ok());
  EXPECT_FALSE(element_count({0, INT64_MAX, 2}).ok());
  EXPECT_FALSE(element_count({-1}).ok());
}

TEST(Tensor, ByteSizeRoundsNothing) {
  EXPECT_EQ(byte_size(DType::kF4, {3, 2}).value(), 3U);
  EXPECT_EQ(byte_size(DType::kF6E2m3, {4}).value(), 3U);
  EXPECT_EQ(byte_size(DType::kC64, {2}).value(), 16U);
  EXPECT_FALSE(byte_size(DType::kF4, {3}).ok());
  EXPECT_FALSE(byte_size(DType::kF64, {INT64_MAX / 8 + 1}).ok());
  EXPECT_TRUE(byte_size(DType::kF64, {INT64_MAX / 8}).ok());
  EXPECT_FALSE(byte_size(DType::kF4, {INT64_MAX}).ok());
}

template <class T, std::size_t N>
std::vector<std::byte> at_odd_address(const T (&values)[N]) {
  std::vector<std::byte> bytes(sizeof values + 1);
  std::memcpy(bytes.data() + 1, values, sizeof values);
  return bytes;
}

TEST(Tensor, ReadsEveryFloatTypeAtAnOddAddress) {
  float out[2] = {};
  const auto read = [&](DType type, const std::vector<std::byte>& bytes) {
    return read_f32({type, {3}, std::span(bytes).subspan(1)}, 1, out).ok();
  };
  ASSERT_TRUE(read(DType::kF32, at_odd_address<float>({9, 1.5F, -2})));
  EXPECT_THAT(out, ElementsAre(1.5F, -2.0F));
  ASSERT_TRUE(read(DType::kF64, at_odd_address<double>({9, 1e300, 1.0 + 0x1p-30})));
  EXPECT_THAT(out, ElementsAre(HUGE_VALF, 1.0F));
  ASSERT_TRUE(read(DType::kBf16, at_odd_address<std::uint16_t>({0, 0x3fc0, 0xc000})));
  EXPECT_THAT(out, ElementsAre(1.5F, -2.0F));
  ASSERT_TRUE(read(DType::kF16, at_odd_address<std::uint16_t>({0, 0x3e00, 0xc000})));
  EXPECT_THAT(out, ElementsAre(1.5F, -2.0F));
}

TEST(Tensor, RefusesRangesOutsideTheTensorAndTypesThatAreNotFloats) {
  const float values[3] = {1, 2, 3};
  const TensorView tensor{DType::kF32, {3}, std::as_bytes(std::span(values))};
  float out[2] = {};
  EXPECT_TRUE(read_f32(tensor, 1, out).ok());
  EXPECT_TRUE(read_f32(tensor, 3, {}).ok());
  EXPECT_THAT(read_f32(tensor, 2, out).error().text, HasSubstr("2 elements from 2 were asked of a tensor of 3"));
  EXPECT_FALSE(read_f32(tensor, -1, out).ok());
  EXPECT_FALSE(read_f32(tensor, INT64_MAX, out).ok());
  EXPECT_THAT(read_f32({DType::kI32, {3}, tensor.bytes}, 0, out).error().text,
              HasSubstr("I32 is not a floating-point"));
}

}  // namespace
}  // namespace pinch
