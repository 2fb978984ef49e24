#include "engine/gguf.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/gguf_bytes.h"
#include "tests/testing/golden_data.h"
#include "tests/testing/sha256.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = GgufBytes;

template <typename T>
T LoadAs(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

float FromHalf(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return half >> 15 ? -magnitude : magnitude;
}

// As gguf-py dequantises, in float32 without fused multiply-add.
std::vector<float> Dequantise(const WeightView& view) {
  const DTypeInfo info = InfoOf(view.dtype);
  std::vector<float> values(view.rows * view.cols);
  for (size_t block = 0; block * info.block_elems < values.size(); ++block) {
    const std::byte* data = view.data + block * info.block_bytes;
    float* out = values.data() + block * info.block_elems;
    const float scale = FromHalf(LoadAs<uint16_t>(data));
    switch (view.dtype) {
      case DType::kF32:
        *out = LoadAs<float>(data);
        break;
      case DType::kF16:
        *out = scale;
        break;
      case DType::kBF16:
        *out = std::bit_cast<float>(uint32_t{LoadAs<uint16_t>(data)} << 16);
        break;
      case DType::kQ8_0:
        for (int i = 0; i < 32; ++i) out[i] = scale * LoadAs<int8_t>(data + 2 + i);
        break;
      case DType::kQ4_0:
      case DType::kQ4_1: {
        const bool has_min = view.dtype == DType::kQ4_1;
        const float min = has_min ? FromHalf(LoadAs<uint16_t>(data + 2)) : 0;
        for (int i = 0; i < 32; ++i) {
          const int byte = LoadAs<uint8_t>(data + (has_min ? 4 : 2) + i % 16);
          const int q = i < 16 ? byte & 15 : byte >> 4;
          out[i] = has_min ? scale * q + min : scale * (q - 8);
        }
        break;
      }
    }
  }
  return values;
}

class GgufGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GgufGoldenTest, TensorTableAndContentAreAsGgufPySays) {
  const std::string name = GetParam();
  const std::string path = FindGolden("gguf_types/" + name + ".gguf");
  if (path.empty()) GTEST_SKIP() << "gguf_types/" << name << ".gguf is not here";
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const nlohmann::json& row : ReadJsonLines(OwnGoldenPath("gguf_types/types.jsonl"))) {
    if (row["name"] != name) continue;
    EXPECT_EQ((*file)->tensors().size(), row["tensors"].size());
    for (const auto& [tensor_name, expected] : row["tensors"].items()) {
      SCOPED_TRACE(tensor_name);
      const FileTensor* tensor = (*file)->FindTensor(tensor_name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(InfoOf(tensor->view.dtype).name, expected["type"]);
      EXPECT_EQ(tensor->shape, expected["shape"].get<std::vector<int64_t>>());
      EXPECT_EQ(tensor->view.rows * tensor->view.cols / InfoOf(tensor->view.dtype).block_elems *
                    InfoOf(tensor->view.dtype).block_bytes,
                tensor->num_bytes);
      const std::vector<float> values = Dequantise(tensor->view);
      EXPECT_EQ(Sha256(values.data(), values.size() * sizeof(float)), expected["sha256_f32_le"]);
    }
    return;
  }
  FAIL() << "types.jsonl has no row " << name;
}

std::string NameOfType(const testing::TestParamInfo<const char*>& type) { return type.param; }

INSTANTIATE_TEST_SUITE_P(Types, GgufGoldenTest,
                         testing::Values("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"), NameOfType);

// What Open says about these bytes: "ok", or the message without the path.
std::string Open(const std::string& bytes) {
  const TempDir dir;
  const std::string path = dir.Write("x.gguf", bytes);
  const auto file = GgufFile::Open(path);
  if (file.ok()) return "ok";
  const std::string message(file.status().message());
  EXPECT_EQ(message.substr(0, path.size() + 2), path + ": ");
  return message.substr(path.size() + 2);
}

TEST(GgufTest, MetadataComesBackTyped) {
  const TempDir dir;
  const std::string path = dir.Write(
      "x.gguf",
      Bytes()
          .String("s", "text")
          .Entry("yes", Bytes::kBool, Bytes::Raw(uint8_t{1}))
          .Entry("i8", Bytes::kI8, Bytes::Raw(int8_t{-5}))
          .Entry("u64", Bytes::kU64, Bytes::Raw(std::numeric_limits<uint64_t>::max()))
          .U32("u32", 4000000000u)
          .F32("f", 0.5f)
          .Array("names", Bytes::kString, 3, Bytes::Str("a") + Bytes::Str("") + Bytes::Str("ccc"))
          .Array("ids", Bytes::kI32, 2, Bytes::Raw(7) + Bytes::Raw(-1))
          .Array("scores", Bytes::kF32, 2, Bytes::Raw(1.5f) + Bytes::Raw(-2.0f))
          .Build(2));
  const auto opened = GgufFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const GgufFile& file = **opened;
  EXPECT_EQ(file.version(), 2);
  EXPECT_EQ(*file.GetString("s"), "text");
  EXPECT_TRUE(*file.GetBool("yes"));
  EXPECT_EQ(*file.GetInt("i8"), -5);
  EXPECT_EQ(*file.GetInt("u32"), 4000000000);
  EXPECT_EQ(*file.GetFloat("f"), 0.5);
  EXPECT_EQ(*file.GetFloat("i8"), -5);
  EXPECT_THAT(*file.GetStrings("names"), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(*file.GetInts("ids"), ElementsAre(7, -1));
  EXPECT_THAT(*file.GetFloats("scores"), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(*file.GetFloats("ids"), ElementsAre(7.0f, -1.0f));
  EXPECT_EQ(file.keys().size(), 9u);
  EXPECT_TRUE(file.tensors().empty());

  EXPECT_TRUE(absl::IsNotFound(file.GetInt("absent").status()));
  EXPECT_EQ(file.GetInt("absent").status().message(),
            path + ": the metadata key 'absent' is missing");
  EXPECT_EQ(file.GetInt("s").status().message(),
            path + ": the metadata key 's' is of type string; expected an integer");
  EXPECT_EQ(file.GetInt("ids").status().message(),
            path + ": the metadata key 'ids' is of type int32 (array); expected a single value");
  EXPECT_EQ(file.GetFloats("names").status().message(),
            path +
                ": the metadata key 'names' is of type string (array); expected an array of "
                "numbers");
  EXPECT_THAT(std::string(file.GetInt("u64").status().message()),
              HasSubstr("18446744073709551615 is too large; expected below 2^63"));
}

TEST(GgufTest, HeadersThatLieAreRefusedByName) {
  const auto header = [](uint32_t version, uint64_t tensors, uint64_t entries) {
    return "GGUF" + Bytes::Raw(version) + Bytes::Raw(tensors) + Bytes::Raw(entries);
  };
  EXPECT_EQ(Open(header(3, 0, 0)), "ok");
  EXPECT_EQ(Open(""), "the file is empty");
  EXPECT_EQ(Open("ggml...."), "not a GGUF file: expected it to begin with 'GGUF'");
  EXPECT_EQ(Open("GGUF"), "the file ends inside its header");
  EXPECT_EQ(Open(header(1, 0, 0)), "GGUF version 1; expected 2 or 3");
  EXPECT_EQ(Open(header(3u << 24, 0, 0)),
            "GGUF version 50331648; expected 2 or 3 (is it a big-endian file?)");
  EXPECT_EQ(Open(header(3, 1, 0)), "the header claims 1 tensors; expected at most 0");
  EXPECT_EQ(Open(header(3, 0, uint64_t{1} << 63)),
            "the header claims 9223372036854775808 metadata entries; expected at most 0");
}

TEST(GgufTest, MetadataThatLiesIsRefusedByKey) {
  EXPECT_EQ(Open(Bytes().U32("k", 1).U32("k", 2).Build()), "key 'k' appears twice");
  EXPECT_EQ(Open(Bytes().Entry("k", 13, Bytes::Raw(0)).Build()),
            "key 'k' has the unknown value type 13");
  EXPECT_EQ(Open(Bytes().Entry("k", Bytes::kBool, Bytes::Raw(uint8_t{2})).Build()),
            "key 'k' is a bool with the value 2; expected 0 or 1");
  EXPECT_EQ(
      Open(Bytes().Array("k", Bytes::kArray, 1, Bytes::Raw(4) + Bytes::Raw(uint64_t{0})).Build()),
      "key 'k' is an array of type 9; expected numbers, bools or strings");
  EXPECT_EQ(Open(Bytes().Array("k", Bytes::kU8, 100, "").Build()),
            "the array of key 'k' (100 elements) runs past the end of the file");
  EXPECT_EQ(Open(Bytes().Array("k", Bytes::kU64, uint64_t{1} << 61, "").Build()),
            "the array of key 'k' claims 2305843009213693952 elements; expected at most 16777216");
  EXPECT_EQ(Open(Bytes().String("", "empty").Build()),
            "the key of metadata entry 0 has 0 bytes; expected 1 to 65535");
  for (const uint32_t alignment : {0u, 4u, 33u, 1u << 17}) {
    EXPECT_EQ(Open(Bytes().U32("general.alignment", alignment).Build()),
              "general.alignment is " + std::to_string(alignment) +
                  "; expected a power of two from 8 to 65536");
  }
  EXPECT_EQ(Open(Bytes().String("general.alignment", "32").Build()),
            "the metadata key 'general.alignment' is of type string; expected an integer");
  EXPECT_EQ(Open(Bytes()
                     .Entry("a\n\x01"
                            "b",
                            13, Bytes::Raw(0))
                     .Build()),
            "key 'a\\n\\x01\\x62' has the unknown value type 13");
}

TEST(GgufTest, TensorsThatLieAreRefusedByName) {
  const std::string data(64, '\0');
  EXPECT_EQ(Open(Bytes().Tensor("t", {8, 2}, 0, 0).Data(data).Build()), "ok");
  EXPECT_EQ(
      Open(Bytes().U32("general.alignment", 64).Tensor("t", {16}, 0, 0).Data(data).Build(3, 64)),
      "ok");
  EXPECT_EQ(Open(Bytes().Tensor("t", {8, 2}, 12, 0).Data(data).Build()),
            "tensor 0 't': type 12 (Q4_K) is not supported; expected one of F32, F16, BF16, Q4_0, "
            "Q4_1, Q8_0");
  EXPECT_EQ(Open(Bytes().Tensor("t", {8, 2}, 999, 0).Data(data).Build()),
            "tensor 0 't': type 999 (unknown) is not supported; expected one of F32, F16, BF16, "
            "Q4_0, Q4_1, Q8_0");
  EXPECT_EQ(Open(Bytes().Tensor("t", {16, 2}, 2, 0).Data(data).Build()),
            "tensor 0 't': rows of 16 elements of type Q4_0; expected a multiple of 32");
  EXPECT_EQ(Open(Bytes().Tensor("t", {}, 0, 0).Data(data).Build()),
            "tensor 0 't': has 0 dimensions; expected 1 to 4");
  EXPECT_EQ(Open(Bytes().Tensor("t", {1, 1, 1, 1, 1}, 0, 0).Data(data).Build()),
            "tensor 0 't': has 5 dimensions; expected 1 to 4");
  for (const std::vector<uint64_t>& dims : std::vector<std::vector<uint64_t>>{
           {0, 2}, {uint64_t{1} << 63, 2}, {uint64_t{1} << 32, uint64_t{1} << 32}}) {
    EXPECT_THAT(Open(Bytes().Tensor("t", dims, 0, 0).Data(data).Build()),
                HasSubstr("has a dimension below 1 or too many elements to count"));
  }
  EXPECT_THAT(Open(Bytes().Tensor("t", {uint64_t{1} << 62}, 0, 0).Data(data).Build()),
              HasSubstr("are too many bytes to count"));
  EXPECT_EQ(Open(Bytes().Tensor("t", {8, 3}, 0, 0).Data(data).Build()),
            "tensor 't' of 96 bytes at data offset 0 runs past the end of the file, which has 64 "
            "bytes of data");
  EXPECT_EQ(Open(Bytes().Tensor("t", {8}, 0, ~uint64_t{31}).Data(data).Build()),
            "tensor 't' of 32 bytes at data offset 18446744073709551584 runs past the end of the "
            "file, which has 64 bytes of data");
  EXPECT_EQ(Open(Bytes().Tensor("t", {8}, 0, 8).Data(data).Build()),
            "tensor 't' is at data offset 8; expected a multiple of the alignment 32");
  EXPECT_EQ(Open(Bytes().Tensor("t", {8}, 0, 0).Tensor("t", {8}, 0, 32).Data(data).Build()),
            "tensor 't' appears twice");
  EXPECT_EQ(Open(Bytes().Tensor("a", {16}, 0, 0).Tensor("b", {8}, 0, 32).Data(data).Build()),
            "tensors 'a' and 'b' overlap: 64 bytes, but the second begins after 32");
}

}  // namespace
}  // namespace quire
