#include "engine/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/reference/unpack.h"
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

// The 6-bit scale and min of part `part` of a Q4_K or Q5_K block, from their 12 bytes.
std::pair<float, float> SixBits(const std::byte* bytes, int part) {
  const auto at = [bytes](int i) { return LoadAs<uint8_t>(bytes + i); };
  if (part < 4) return {at(part) & 63, at(part + 4) & 63};
  return {(at(part + 4) & 15) + 16 * (at(part - 4) >> 6),
          (at(part + 4) >> 4) + 16 * (at(part) >> 6)};
}

// Element i of the block at `data`, which is one of 32 elements.
float ElementOf32(DType dtype, const std::byte* data, int i) {
  const auto at = [data](int offset) { return int{LoadAs<uint8_t>(data + offset)}; };
  const float scale = FromHalf(LoadAs<uint16_t>(data));
  const float min = FromHalf(LoadAs<uint16_t>(data + 2));
  const auto nibble = [&](int offset) { return at(offset + i % 16) >> (i < 16 ? 0 : 4) & 15; };
  const auto fifth = [&](int offset) { return (at(offset + i / 8) >> i % 8 & 1) * 16; };
  switch (dtype) {
    case DType::kQ8_0:
      return scale * LoadAs<int8_t>(data + 2 + i);
    case DType::kQ4_0:
      return scale * (nibble(2) - 8);
    case DType::kQ4_1:
      return scale * nibble(4) + min;
    case DType::kQ5_0:
      return scale * (nibble(6) + fifth(2) - 16);
    case DType::kQ5_1:
      return scale * (nibble(8) + fifth(4)) + min;
    default:
      ADD_FAILURE() << "no blocks of 32";
      return 0;
  }
}

// Element i of the block at `data`, which is one of 256 elements.
float ElementOf256(DType dtype, const std::byte* data, int i) {
  const auto at = [data](int offset) { return int{LoadAs<uint8_t>(data + offset)}; };
  if (dtype == DType::kQ6_K) {
    const int half = i / 128;
    const int part = i / 32 % 4;
    const int low = at(half * 64 + (part & 1) * 32 + i % 32) >> (part / 2 * 4) & 15;
    const int high = at(128 + half * 32 + i % 32) >> (part * 2) & 3;
    const float scale =
        FromHalf(LoadAs<uint16_t>(data + 208)) * LoadAs<int8_t>(data + 192 + i / 16);
    return scale * (low + 16 * high - 32);
  }
  const auto [scale, min] = SixBits(data + 4, i / 32);
  const bool has_fifth = dtype == DType::kQ5_K;
  int q = at((has_fifth ? 48 : 16) + i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15;
  if (has_fifth) q += (at(16 + i % 32) >> i / 32 & 1) * 16;
  return FromHalf(LoadAs<uint16_t>(data)) * scale * q - FromHalf(LoadAs<uint16_t>(data + 2)) * min;
}

// As gguf-py dequantises, in float32 without fused multiply-add.
std::vector<float> Dequantise(const WeightView& view) {
  const DTypeInfo info = InfoOf(view.dtype);
  std::vector<float> values(view.rows * view.cols);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* data = view.data + i / info.block_elems * info.block_bytes;
    const int element = static_cast<int>(i % info.block_elems);
    switch (info.block_elems) {
      case 1:
        values[i] = view.dtype == DType::kF32 ? LoadAs<float>(data)
                    : view.dtype == DType::kF16
                        ? FromHalf(LoadAs<uint16_t>(data))
                        : std::bit_cast<float>(uint32_t{LoadAs<uint16_t>(data)} << 16);
        break;
      case 32:
        values[i] = ElementOf32(view.dtype, data, element);
        break;
      default:
        values[i] = ElementOf256(view.dtype, data, element);
    }
  }
  return values;
}

// How far two numbers are apart, in units of the last place of the larger one.
double UlpsBetween(float a, float b) {
  if (a == b) return 0;
  const float larger = std::max(std::abs(a), std::abs(b));
  return std::abs(double{a} - b) / (std::nextafter(larger, INFINITY) - larger);
}

class GgufGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  // What the backend makes of the weight, which is one fma where gguf-py has two operations: equal
  // where the product or the sum is exact, within an ulp elsewhere.
  static void ExpectSameValues(const WeightView& view, const std::vector<float>& values) {
    const bool has_min = view.dtype == DType::kQ4_1 || view.dtype == DType::kQ5_1 ||
                         view.dtype == DType::kQ4_K || view.dtype == DType::kQ5_K;
    std::vector<float> found(view.cols);
    double most = 0;
    for (int64_t row = 0; row < view.rows; ++row) {
      reference::Dequantize(view, row, found.data());
      for (int64_t col = 0; col < view.cols; ++col) {
        most = std::max(most, UlpsBetween(found[col], values[row * view.cols + col]));
      }
    }
    EXPECT_LE(most, has_min ? 1 : 0) << InfoOf(view.dtype).name;
  }
};

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
      ExpectSameValues(tensor->view, values);
    }
    return;
  }
  FAIL() << "types.jsonl has no row " << name;
}

std::string NameOfType(const testing::TestParamInfo<const char*>& type) { return type.param; }

INSTANTIATE_TEST_SUITE_P(Types, GgufGoldenTest,
                         testing::Values("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                         "Q8_0", "Q4_K", "Q5_K", "Q6_K", "mixed_q4_k_m"),
                         NameOfType);

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
  EXPECT_EQ(Open(Bytes().Tensor("t", {8, 2}, 10, 0).Data(data).Build()),
            "tensor 0 't': type 10 (Q2_K) is not supported; expected one of F32, F16, BF16, Q4_0, "
            "Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K");
  EXPECT_EQ(Open(Bytes().Tensor("t", {8, 2}, 999, 0).Data(data).Build()),
            "tensor 0 't': type 999 (unknown) is not supported; expected one of F32, F16, BF16, "
            "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K");
  EXPECT_EQ(Open(Bytes().Tensor("t", {16, 2}, 2, 0).Data(data).Build()),
            "tensor 0 't': rows of 16 elements of type Q4_0; expected a multiple of 32");
  EXPECT_EQ(Open(Bytes().Tensor("t", {128, 2}, 14, 0).Data(data).Build()),
            "tensor 0 't': rows of 128 elements of type Q6_K; expected a multiple of 256");
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

TEST(GgufTest, OverridesAreReadAsIfTheFileHadThem) {
  const TempDir dir;
  const std::string path = dir.Write("x.gguf", Bytes()
                                                   .U32("count", 7)
                                                   .String("name", "old")
                                                   .Array("ids", Bytes::kI32, 1, Bytes::Raw(7))
                                                   .Build());
  std::vector<GgufOverride> overrides;
  for (const char* text :
       {"count=int:-8", "name=str:a=b:c", "x.scale=float:0.1", "yes=bool:true"}) {
    const auto parsed = ParseGgufOverride(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(ParseGgufOverride(ToText(*parsed))->value, parsed->value);
    overrides.push_back(*parsed);
  }
  const auto opened = GgufFile::Open(path, overrides);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(*(*opened)->GetInt("count"), -8);
  EXPECT_EQ(*(*opened)->GetString("name"), "a=b:c");
  EXPECT_EQ(*(*opened)->GetFloat("x.scale"), 0.1);
  EXPECT_TRUE(*(*opened)->GetBool("yes"));
  EXPECT_THAT(*(*opened)->GetInts("ids"), ElementsAre(7));
  EXPECT_THAT((*opened)->keys(), ElementsAre("count", "name", "ids", "x.scale", "yes"));

  const auto refused = [&](const char* text) {
    const std::vector<GgufOverride> one = {ParseGgufOverride(text).value()};
    const std::string message(GgufFile::Open(path, one).status().message());
    return message.substr(std::min(message.size(), path.size() + 2));
  };
  EXPECT_EQ(refused("ids=int:8"),
            "the metadata key 'ids' is of type int32 (array); expected no array to override");
  EXPECT_EQ(refused("general.alignment=int:64"),
            "general.alignment cannot be overridden: it says where the tensors lie");
}

TEST(GgufTest, OverridesThatMakeNoSenseAreRefused) {
  const auto refused = [](const char* text) {
    return std::string(ParseGgufOverride(text).status().message());
  };
  const std::string expected = "; expected KEY=TYPE:VALUE with TYPE one of int, float, bool, str";
  EXPECT_EQ(refused("a"), "'a' has no key before a '='" + expected);
  EXPECT_EQ(refused("=int:1"), "'=int:1' has no key before a '='" + expected);
  EXPECT_EQ(refused("a=1"), "'a=1' has no ':' after the type" + expected);
  EXPECT_EQ(refused("a=u32:1"), "'a=u32:1' has the type 'u32'" + expected);
  EXPECT_EQ(refused("a=int:1.5"), "'a=int:1.5' has no whole number of 64 bits as value" + expected);
  EXPECT_EQ(refused("a=int:9223372036854775808"),
            "'a=int:9223372036854775808' has no whole number of 64 bits as value" + expected);
  EXPECT_EQ(refused("a=float:nan"), "'a=float:nan' has no finite number as value" + expected);
  EXPECT_EQ(refused("a=bool:1"), "'a=bool:1' has neither true nor false as value" + expected);
}

}  // namespace
}  // namespace quire
