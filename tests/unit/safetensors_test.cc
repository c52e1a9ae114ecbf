#include "pinch/safetensors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/core/atomic_file.h"
#include "tests/support/temp_folder.h"

namespace pinch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// A file from its header's text and a number of data bytes 0, 1, 2, ... .
std::string file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

Result<SafetensorsFile> parse(std::string_view file) {
  return SafetensorsFile::parse(std::as_bytes(std::span(file)), "model.safetensors");
}

std::string refusal(std::string_view file) {
  const auto result = parse(file);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  return result.error().message();
}
std::string refusal(std::string_view header, std::size_t data_bytes) {
  return refusal(file_of(header, data_bytes));
}

std::string text_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()};
}

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("a":{"dtype":"U8","shape":[3,1],"data_offsets":[8,11]}}   )";

TEST(SafetensorsRead, GivesTensorsInTheOrderOfTheirBytes) {
  const std::string file = file_of(kTwo, 11);
  const auto result = parse(file);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_THAT(result->metadata(), ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(result->tensors().size(), 2U);
  EXPECT_EQ(result->tensors()[0].name, "b");
  EXPECT_EQ(result->tensors()[1].shape, (Shape{3, 1}));
  EXPECT_EQ(text_of(result->tensor("a").value()), "\x08\x09\x0a");
  EXPECT_EQ(result->find("c"), nullptr);
}

TEST(SafetensorsRead, OffersTheNearestNamesForAMissingTensor) {
  const std::string file = file_of(R"({"layer.0.query.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("layer.0.key.bias":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                   2);
  const auto missing = parse(file).value().tensor("layer.0.query.weigth");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().text, HasSubstr("did you mean \"layer.0.query.weight\""));
}

TEST(SafetensorsRead, AcceptsScalarsEmptyTensorsAndEveryDtype) {
  std::string header = R"({"empty":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                       R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]})";
  std::size_t at = 8;
  for (const char* type : {"BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
                           "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
                           "U32",     "F32",         "I64",         "U64",     "F64", "C64"}) {
    const std::size_t end = at + 4 * static_cast<std::size_t>(bits(*parse_dtype(type))) / 8;
    header += std::string(",\"t.") + type + "\":{\"dtype\":\"" + type + "\",\"shape\":[4],\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  const std::string file = file_of(header + "}", at);
  const auto result = parse(file);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->tensors().size(), 24U);
  EXPECT_TRUE(result->tensor("empty")->bytes.empty());
}

TEST(SafetensorsRead, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
}

TEST(SafetensorsRead, ReadsTensorsAtOddAddresses) {
  // The header's length makes the data start at an odd address; the F32 tensor starts one byte later still.
  std::string header =
      R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"y":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  if (header.size() % 2 == 0) header += ' ';
  std::string file = file_of(header, 9);
  const float stored[2] = {1.5F, -2.0F};
  std::memcpy(file.data() + file.size() - 8, stored, 8);
  float read[2] = {};
  ASSERT_TRUE(read_f32(parse(file)->tensor("y").value(), 0, read).ok());
  EXPECT_THAT(read, ElementsAre(1.5F, -2.0F));
}

TEST(SafetensorsRead, RefusesEveryTruncation) {
  const std::string whole = file_of(kTwo, 11);
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << size;
  }
  EXPECT_THAT(refusal(whole.substr(0, 7)), StartsWith("model.safetensors: byte 7: truncated_length"));
  EXPECT_THAT(refusal(whole.substr(0, 40)), StartsWith("model.safetensors: byte 0: header_too_long"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)), HasSubstr("offsets_out_of_range: \"a\" ends at 11"));
}

TEST(SafetensorsRead, RefusesHeaderLengthsThatOverflow) {
  for (const std::uint64_t length : {std::uint64_t{100'000'001}, UINT64_MAX, UINT64_MAX - 7, std::uint64_t{1} << 63}) {
    std::string file = file_of(kTwo, 11);
    std::memcpy(file.data(), &length, sizeof length);
    EXPECT_THAT(refusal(file), HasSubstr("byte 0: header_too_long")) << length;
  }
}

TEST(SafetensorsRead, RefusesHeadersThatAreNotOneObject) {
  EXPECT_THAT(refusal("", 0), HasSubstr("byte 8: header_not_object"));
  EXPECT_THAT(refusal(" {}", 0), HasSubstr("byte 8: header_not_object"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("header_not_object"));
  EXPECT_THAT(refusal("{} {}", 0), HasSubstr("byte 11: invalid_json"));
  EXPECT_THAT(refusal("{\"a\":", 0), HasSubstr("invalid_json"));
  EXPECT_THAT(refusal("{\"a\xff\":1}", 0), HasSubstr("invalid_json"));
  EXPECT_THAT(refusal(std::string_view("{}\0{}", 5), 0), HasSubstr("byte 10: invalid_json"));
  EXPECT_THAT(refusal("{\"a\":" + std::string(100'000, '['), 0), HasSubstr("unexpected_value"));
}

TEST(SafetensorsRead, RefusesDuplicateKeysWithTheByteOfTheSecond) {
  const std::string twice =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::size_t second = twice.rfind("\"a\"") + 2;  // its closing quote
  EXPECT_THAT(refusal(twice, 1),
              StartsWith("model.safetensors: byte " + std::to_string(8 + second) + ": duplicate_key: \"a\""));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("duplicate_key: \"dtype\""));
  EXPECT_THAT(refusal(R"({"__metadata__":{"k":"1","k":"2"}})", 0), HasSubstr("duplicate_key: \"k\""));
  EXPECT_THAT(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("duplicate_key: \"__metadata__\""));
  // The same name behind an escape is the same name.
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
          1),
      HasSubstr("duplicate_key: \"a\""));
}

TEST(SafetensorsRead, RefusesValuesOfTheWrongKind) {
  for (const char* header : {R"({"a":1})",
                             R"({"a":"x"})",
                             R"({"a":[]})",
                             R"({"a":null})",
                             R"({"__metadata__":{"k":1}})",
                             R"({"__metadata__":{"k":{}}})",
                             R"({"__metadata__":[]})",
                             R"({"a":{"dtype":1}})",
                             R"({"a":{"shape":"x"}})",
                             R"({"a":{"shape":[1.0]}})",
                             R"({"a":{"shape":[-1]}})",
                             R"({"a":{"shape":[[1]]}})",
                             R"({"a":{"shape":[true]}})",
                             R"({"a":{"data_offsets":[0]}})",
                             R"({"a":{"data_offsets":[0,1,2]}})",
                             R"({"a":{"data_offsets":[0,-1]}})",
                             R"({"a":{"data_offsets":[0,1e3]}})",
                             R"({"a":{"data_offsets":[0,18446744073709551616]}})",
                             R"({"a":{"data_offsets":{"x":1}}})",
                             R"({"a":{"dtype":"U8","strides":[1]}})",
                             R"({"a":{"dtype":{}}})"}) {
    EXPECT_THAT(refusal(header, 1), HasSubstr("unexpected_value")) << header;
  }
}

TEST(SafetensorsRead, RefusesMissingFieldsByTheirName) {
  EXPECT_THAT(refusal(R"({"a":{}})", 0), HasSubstr("missing_field: tensor \"a\" has no dtype"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", 0), HasSubstr("has no shape"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[0]}})", 0), HasSubstr("has no data_offsets"));
}

TEST(SafetensorsRead, RefusesUnknownDtypesAndListsTheKnownOnes) {
  const std::string text = refusal(R"({"a":{"dtype":"bf16","shape":[1],"data_offsets":[0,2]}})", 2);
  EXPECT_THAT(text, HasSubstr("unknown_dtype: dtype \"bf16\" of \"a\""));
  EXPECT_THAT(text, HasSubstr("BF16"));
}

TEST(SafetensorsRead, RefusesShapesThatOverflow) {
  const auto with_shape = [](const std::string& type, const std::string& shape) {
    return refusal(R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[0,0]}})", 0);
  };
  EXPECT_THAT(with_shape("U8", "[9223372036854775808]"), HasSubstr("shape_overflow"));
  EXPECT_THAT(with_shape("U8", "[4294967296,4294967296]"), HasSubstr("shape_overflow"));
  EXPECT_THAT(with_shape("U8", "[0,4294967296,4294967296]"), HasSubstr("shape_overflow"));
  EXPECT_THAT(with_shape("F64", "[2305843009213693952]"), HasSubstr("shape_overflow"));
  EXPECT_THAT(with_shape("F4", "[3]"), HasSubstr("shape_overflow: \"a\": 3 elements of F4 do not fill whole bytes"));
}

TEST(SafetensorsRead, RefusesOffsetsThatDoNotFit) {
  const auto with_offsets = [](const std::string& offsets, std::size_t bytes) {
    return refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}", bytes);
  };
  EXPECT_EQ(with_offsets("[0,4]", 4), "accepted");
  EXPECT_THAT(with_offsets("[4,0]", 4), HasSubstr("offsets_reversed"));
  EXPECT_THAT(with_offsets("[0,5]", 4), HasSubstr("offsets_out_of_range"));
  EXPECT_THAT(with_offsets("[0,18446744073709551615]", 4), HasSubstr("offsets_out_of_range"));
  EXPECT_THAT(with_offsets("[0,3]", 4), HasSubstr("size_mismatch: \"a\" is U8 [4], 4 bytes, but its offsets hold 3"));
  EXPECT_THAT(with_offsets("[1,5]", 5), HasSubstr("offsets_gap: 1 bytes before \"a\""));
  EXPECT_THAT(with_offsets("[0,4]", 9), HasSubstr("offsets_gap: 5 bytes at the end"));
}

TEST(SafetensorsRead, RefusesOverlapsWithTheByteWhereTheyStart) {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})";
  EXPECT_THAT(refusal(header, 7), StartsWith("model.safetensors: byte " + std::to_string(8 + header.size() + 3) +
                                             ": offsets_overlap: \"b\" begins inside \"a\""));
  EXPECT_THAT(
      refusal(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          4),
      HasSubstr("offsets_overlap"));
}

TEST(SafetensorsRead, EscapesControlCharactersInMessages) {
  EXPECT_THAT(refusal(R"({"\u001b[31m":{}})", 0), HasSubstr("\"\\x1b[31m\""));
}

class SafetensorsFiles : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::string path_ = folder_ / "model.safetensors";

  [[nodiscard]] std::size_t files() const { return folder_.files().size(); }
};

TEST_F(SafetensorsFiles, OpensWhatItWrote) {
  auto writer = SafetensorsWriter::create(path_,
                                          {{"codes", DType::kU8, {3}},
                                           {"w", DType::kF32, {2, 1}},
                                           {"s\"\n\u00e9", DType::kF16, {}},
                                           {"none", DType::kI64, {0}}},
                                          {{"format", "pt"}, {"note", "a \"b\""}});
  ASSERT_TRUE(writer.ok()) << writer.error().message();
  const float w[2] = {1.0F, 2.0F};
  const auto bytes = std::as_bytes(std::span(w));
  // Tensors may come in any order and in pieces.
  ASSERT_TRUE(writer->append(1, bytes.first(3)).ok());
  ASSERT_TRUE(writer->append(0, std::as_bytes(std::span("abc", 3))).ok());
  ASSERT_TRUE(writer->append(1, bytes.subspan(3)).ok());
  ASSERT_TRUE(writer->append(2, std::as_bytes(std::span("hi", 2))).ok());
  EXPECT_FALSE(fs::exists(path_)) << "the name must appear only with the whole file";
  ASSERT_TRUE(writer->finish().ok());

  const auto file = SafetensorsFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_THAT(file->metadata(), ElementsAre(Pair("format", "pt"), Pair("note", "a \"b\"")));
  EXPECT_EQ(text_of(file->tensor("codes").value()), "abc");
  EXPECT_EQ(text_of(file->tensor("s\"\n\u00e9").value()), "hi");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->tensor("w")->bytes.data()) % 4, 0U);
  EXPECT_EQ(files(), 1U);
}

TEST_F(SafetensorsFiles, LeavesNothingWithoutFinish) {
  {
    auto writer = SafetensorsWriter::create(path_, {{"a", DType::kU8, {3}}});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(0, std::as_bytes(std::span("ab", 2))).ok());
    EXPECT_EQ(files(), 1U);
    const auto early = writer->finish();
    ASSERT_FALSE(early.ok());
    EXPECT_THAT(early.error().text, HasSubstr("\"a\" lacks 1 bytes"));
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(SafetensorsFiles, KeepsTheEarlierFileWhereTheNewOneFails) {
  std::ofstream(path_) << "earlier";
  { auto writer = SafetensorsWriter::create(path_, {{"a", DType::kU8, {3}}}); }
  std::string text;
  std::getline(std::ifstream(path_), text);
  EXPECT_EQ(text, "earlier");
}

TEST_F(SafetensorsFiles, FollowsASymbolicLinkToItsTarget) {
  const std::string target = folder_ / "target";
  std::ofstream(target) << "earlier";
  fs::create_symlink(target, path_);
  auto writer = SafetensorsWriter::create(path_, {});
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_TRUE(SafetensorsFile::open(target).ok());
}

TEST_F(SafetensorsFiles, WriterRefusesWhatWouldNotReadBack) {
  const auto refusal_of = [&](std::vector<TensorSpec> tensors, const Metadata& metadata = {}) {
    const auto writer = SafetensorsWriter::create(path_, std::move(tensors), metadata);
    return writer.ok() ? "accepted" : writer.error().text;
  };
  EXPECT_THAT(refusal_of({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}), HasSubstr("names are unique"));
  EXPECT_THAT(refusal_of({{"__metadata__", DType::kU8, {1}}}), HasSubstr("names are unique"));
  EXPECT_THAT(refusal_of({{"a", DType::kU8, {-1}}}), HasSubstr("negative"));
  EXPECT_THAT(refusal_of({{"a", DType::kF32, {INT64_MAX}}}), HasSubstr("overflow"));
  EXPECT_THAT(refusal_of({{"a", DType::kU8, {INT64_MAX}}, {"b", DType::kU8, {INT64_MAX}}, {"c", DType::kU8, {2}}}),
              HasSubstr("overflow"));
  EXPECT_THAT(refusal_of({{"\xff", DType::kU8, {1}}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal_of({}, {{"k", "1"}, {"k", "2"}}), HasSubstr("two metadata entries"));
  EXPECT_EQ(files(), 0U);
}

TEST_F(SafetensorsFiles, WriterRefusesBytesPastATensorsEnd) {
  auto writer = SafetensorsWriter::create(path_, {{"a", DType::kU8, {3}}, {"b", DType::kU8, {3}}});
  EXPECT_THAT(writer->append(0, std::as_bytes(std::span("abcd", 4))).error().text,
              HasSubstr("4 bytes for \"a\", which lacks 3"));
  EXPECT_FALSE(writer->append(2, {}).ok());
}

TEST_F(SafetensorsFiles, RefusesTargetsThatAreNotFiles) {
  EXPECT_THAT(SafetensorsWriter::create(folder_.path(), {}).error().text, HasSubstr("not a regular file"));
  EXPECT_THAT(SafetensorsWriter::create("/dev/null", {}).error().text, HasSubstr("not a regular file"));
  EXPECT_EQ(SafetensorsWriter::create(folder_ / "no/such/folder", {}).error().code, ErrorCode::kNotFound);
}

TEST_F(SafetensorsFiles, TextGoesIntoAPipeWithoutReplacingIt) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(write_file(pipe, "text").ok());
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe)) << "as root a rename over /dev/null would take it from everybody";
  EXPECT_EQ(write_file(folder_.path(), "text").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(files(), 1U) << "no part is left";
}

TEST_F(SafetensorsFiles, RefusesASizeTheDiskCannotHold) {
  const auto writer = SafetensorsWriter::create(path_, {{"a", DType::kU8, {std::int64_t{1} << 60}}});
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error().code, ErrorCode::kIo);
  EXPECT_EQ(files(), 0U);
}

TEST_F(SafetensorsFiles, OpenRefusesWhatIsNoFile) {
  EXPECT_EQ(SafetensorsFile::open(path_).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(SafetensorsFile::open(folder_.path()).error().text, HasSubstr("not a regular file"));
  EXPECT_THAT(SafetensorsFile::open("/dev/zero").error().text, HasSubstr("not a regular file"));
  std::ofstream(path_).flush();
  EXPECT_THAT(SafetensorsFile::open(path_).error().text, HasSubstr("truncated_length"));
}

TEST_F(SafetensorsFiles, ReleasedBytesReadTheSameAgain) {
  const std::string data(1 << 20, 'x');
  auto writer = SafetensorsWriter::create(path_, {{"a", DType::kU8, {1 << 20}}});
  ASSERT_TRUE(writer->append(0, std::as_bytes(std::span(data))).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = SafetensorsFile::open(path_);
  const auto view = file->tensor("a").value();
  file->release(view.bytes);
  file->release(view.bytes.subspan(5, 1));
  file->release({});
  EXPECT_EQ(text_of(view), data);
}

TEST_F(SafetensorsFiles, ViewsOutliveTheFileTheyWereCopiedFrom) {
  {
    auto writer = SafetensorsWriter::create(path_, {{"a", DType::kU8, {3}}});
    ASSERT_TRUE(writer->append(0, std::as_bytes(std::span("abc", 3))).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  std::optional<SafetensorsFile> first = SafetensorsFile::open(path_).value();
  const SafetensorsFile second = *first;
  const auto view = first->tensor("a").value();
  first.reset();
  EXPECT_EQ(text_of(view), "abc");
}

}  // namespace
}  // namespace pinch
