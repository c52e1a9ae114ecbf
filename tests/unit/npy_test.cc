#include "pinch/npy.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/support/temp_folder.h"

namespace pinch {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using std::string_literals::operator""s;

std::string file_of(const std::string& header, std::size_t data_bytes, const std::string& version = "\x01\x00"s) {
  const auto length = static_cast<std::uint32_t>(header.size());
  return "\x93NUMPY"s + version + std::string(reinterpret_cast<const char*>(&length), version[0] == 1 ? 2 : 4) +
         header + std::string(data_bytes, '\x07');
}

Result<NpyFile> parse(std::string_view file) {
  return NpyFile::parse(std::as_bytes(std::span(file)), "w.npy");
}
std::string refusal(std::string_view file) {
  const auto result = parse(file);
  return result.ok() ? "accepted" : result.error().message();
}

TEST(NpyRead, ReadsTheBytesNumpyWrites) {
  // numpy.save of numpy.array([[1, 2, 3]], dtype='<f2'), NumPy 1.24.
  const std::string file = "\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (1, 3), }"s +
                           std::string(58, ' ') + "\n\x00\x3c\x00\x40\x00\x42"s;
  const auto result = parse(file);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->view().dtype, DType::kF16);
  EXPECT_EQ(result->view().shape, (Shape{1, 3}));
  float values[3] = {};
  ASSERT_TRUE(read_f32(result->view(), 0, values).ok());
  EXPECT_EQ(values[2], 3.0F);
}

TEST(NpyRead, AcceptsEveryWayAShapeIsWritten) {
  const auto shape_of = [](const std::string& shape, std::size_t bytes) {
    const std::string file = file_of("{'descr':'|u1','fortran_order':False,'shape':" + shape + "}", bytes);
    const auto result = parse(file);
    EXPECT_TRUE(result.ok()) << result.error().message();
    return to_string(result->view().shape);
  };
  EXPECT_EQ(shape_of("()", 1), "[]");
  EXPECT_EQ(shape_of("(5,)", 5), "[5]");
  EXPECT_EQ(shape_of("( 2 , 3 )", 6), "[2, 3]");
  EXPECT_EQ(shape_of("(2, 3, )", 6), "[2, 3]");
  EXPECT_EQ(shape_of("(2L, 3L)", 6), "[2, 3]");
  EXPECT_EQ(shape_of("(0, 3)", 0), "[0, 3]");
}

TEST(NpyRead, AcceptsVersions2And3AndColumnMajorVectors) {
  EXPECT_TRUE(parse(file_of("{'descr':'<i8','fortran_order':True,'shape':(1,2)}", 16, "\x02\x00"s)).ok());
  EXPECT_TRUE(parse(file_of("{'descr':\"<f4\",'fortran_order':False,'shape':(2,),}\n", 8, "\x03\x00"s)).ok());
}

TEST(NpyRead, RefusesEveryTruncation) {
  const std::string whole = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8);
  ASSERT_EQ(refusal(whole), "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << size;
  }
  EXPECT_THAT(refusal(whole.substr(0, 5)), StartsWith("w.npy: byte 0: bad_magic"));
  EXPECT_THAT(refusal(whole.substr(0, 9)), StartsWith("w.npy: byte 9: truncated_header"));
  EXPECT_THAT(refusal(whole.substr(0, 30)), HasSubstr("truncated_header"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)), HasSubstr("size_mismatch: F32 [2] needs 8 bytes, 7 follow"));
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("size_mismatch"));
}

TEST(NpyRead, RefusesByName) {
  const auto with_header = [](const std::string& header) { return refusal(file_of(header, 8)); };
  EXPECT_THAT(refusal("\x93NUMPX\x01\x00"s), HasSubstr("bad_magic"));
  EXPECT_THAT(refusal(file_of("{}", 0, "\x04\x00"s)), HasSubstr("unknown_version: 4.0"));
  EXPECT_THAT(refusal(file_of("{}", 0, "\x01\x01"s)), HasSubstr("unknown_version: 1.1"));
  EXPECT_THAT(refusal("\x93NUMPY\x02\x00\xff\xff\xff\xff"s), HasSubstr("byte 8: header_too_long"));
  EXPECT_THAT(with_header(""), HasSubstr("byte 10: invalid_header"));
  EXPECT_THAT(with_header("{}"), HasSubstr("invalid_header: no descr"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(2,)"), HasSubstr("invalid_header"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(2)}"), HasSubstr("(n,)"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(2 2)}"), HasSubstr("',' is needed"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(-2,)}"), HasSubstr("whole number"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':0,'shape':(2,)}"), HasSubstr("True or False"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(2,)} x"), HasSubstr("after the dict"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(2,),'x':1}"), HasSubstr("key \"x\""));
  EXPECT_THAT(with_header("{'descr"), HasSubstr("does not end"));
  EXPECT_THAT(with_header("{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':(2,)}"),
              HasSubstr("duplicate_key: \"descr\""));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':True,'shape':(1,2,3)}"),
              HasSubstr("fortran_order: column-major"));
  for (const char* descr : {"'>f4'", "'|O'", "'<V2'", "'<U3'", "'<f16'", "'|f4'", "'f4'", "''", "[('a','<f4')]"}) {
    EXPECT_THAT(with_header("{'descr':" + std::string(descr) + ",'fortran_order':False,'shape':(2,)}"),
                HasSubstr("unsupported_dtype"))
        << descr;
  }
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(9223372036854775808,)}"),
              HasSubstr("shape_overflow"));
  EXPECT_THAT(with_header("{'descr':'<f4','fortran_order':False,'shape':(4294967296,4294967296)}"),
              HasSubstr("shape_overflow"));
}

TEST(NpyWrite, ReadsBackAndAlignsItsData) {
  const TempFolder folder;
  const std::string path = folder / "w.npy";
  const double values[6] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(write_npy(path, {DType::kF64, {3, 2}, std::as_bytes(std::span(values))}).ok());
  const auto file = NpyFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->view().shape, (Shape{3, 2}));
  EXPECT_EQ(std::memcmp(file->view().bytes.data(), values, sizeof values), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->view().bytes.data()) % 64, 0U);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_THAT(text.str().substr(10), StartsWith("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, ), }"));
}

TEST(NpyWrite, RefusesTypesNumpyHasNotAndBytesThatAreNotTheShapes) {
  const TempFolder folder;
  const std::byte bytes[4] = {};
  EXPECT_THAT(write_npy(folder / "w.npy", {DType::kBf16, {2}, bytes}).error().text, HasSubstr("NumPy has no BF16"));
  EXPECT_THAT(write_npy(folder / "w.npy", {DType::kF32, {2}, bytes}).error().text, HasSubstr("needs 8"));
  EXPECT_TRUE(folder.files().empty());
}

}  // namespace
}  // namespace pinch
