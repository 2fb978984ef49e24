#include "engine/safetensors.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/temp_dir.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::string FileOf(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header +
         std::string(data_bytes, '\0');
}

// What Open says about such a file: "ok", or the message without the path.
std::string Open(const std::string& bytes) {
  const TempDir dir;
  const std::string path = dir.Write("x.safetensors", bytes);
  const auto file = SafetensorsFile::Open(path);
  if (file.ok()) return "ok";
  const std::string message(file.status().message());
  EXPECT_EQ(message.substr(0, path.size() + 2), path + ": ");
  return message.substr(path.size() + 2);
}

TEST(SafetensorsTest, TensorsComeBackInOrderOfTheirData) {
  const TempDir dir;
  const std::string path = dir.Write("x", FileOf(R"({"__metadata__":{"format":"pt"},
                      "b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]},
                      "a":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]},
                      "c":{"dtype":"F16","shape":[],"data_offsets":[30,32]}}   )",
                                                 32));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string text;
  for (const FileTensor& tensor : (*file)->tensors()) {
    text += tensor.name + ":" + InfoOf(tensor.view.dtype).name + "[" +
            std::to_string(tensor.view.rows) + "," + std::to_string(tensor.view.cols) + "]" +
            std::to_string(tensor.num_bytes) + " ";
  }
  EXPECT_EQ(text, "a:F32[2,3]24 b:BF16[1,3]6 c:F16[1,1]2 ");
}

TEST(SafetensorsTest, SymbolicLinksAreFollowed) {
  const TempDir dir;
  std::filesystem::create_directories(dir.Path("blobs"));
  std::filesystem::create_directories(dir.Path("snapshots/1"));
  dir.Write("blobs/abc", FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  std::filesystem::create_symlink("../../blobs/abc", dir.Path("snapshots/1/model.safetensors"));
  const auto file = SafetensorsFile::Open(dir.Path("snapshots/1/model.safetensors"));
  EXPECT_TRUE(file.ok()) << file.status();
  std::filesystem::create_symlink("../../blobs/gone", dir.Path("snapshots/1/gone"));
  EXPECT_TRUE(absl::IsNotFound(SafetensorsFile::Open(dir.Path("snapshots/1/gone")).status()));
}

TEST(SafetensorsTest, HeadersThatLieAreRefused) {
  EXPECT_EQ(Open("1234567"), "has 7 bytes; expected at least 8");
  EXPECT_EQ(Open(std::string(8, '\xff')),
            "claims a header of 18446744073709551615 bytes; expected at most 0");
  EXPECT_EQ(Open(FileOf("[]", 0)), "its header is not a JSON object");
  EXPECT_THAT(Open(FileOf("{", 0)), HasSubstr("its header: not valid JSON at byte"));
  EXPECT_THAT(Open(FileOf("{\"\xff\":1}", 0)), HasSubstr("its header: not valid JSON at byte"));
  EXPECT_EQ(Open(FileOf(R"({"a":1})", 0)), "tensor 'a': is not described by a JSON object");
  EXPECT_EQ(Open(FileOf(std::string(100, '['), 0)),
            "its header: is nested more than 64 levels deep");
  EXPECT_EQ(Open(FileOf(std::string(1'000'000, '['), 0)),
            "its header: is nested more than 64 levels deep");
  std::string zeros = "{\"a\":[0";
  for (int i = 0; i < 1'100'000; ++i) zeros += ",0";
  EXPECT_EQ(Open(FileOf(zeros + "]}", 0)), "its header: has more than 1048576 values");
}

TEST(SafetensorsTest, TensorsThatLieAreRefusedByName) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets, size_t data_bytes) {
    return Open(FileOf("{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
                           ",\"data_offsets\":" + offsets + "}}",
                       data_bytes));
  };
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[0,8]", 8), "ok");
  EXPECT_EQ(tensor("\"F8_E4M3\"", "[8]", "[0,8]", 8), "ok");
  EXPECT_EQ(
      tensor("\"F8_E5M2\"", "[8]", "[0,8]", 8),
      "tensor 'a': dtype 'F8_E5M2' is not supported; expected one of F32, F16, BF16, F8_E4M3");
  EXPECT_EQ(tensor("7", "[2]", "[0,8]", 8), "tensor 'a': has no string 'dtype'");
  EXPECT_EQ(tensor("\"F32\"", "2", "[0,8]", 8), "tensor 'a': has no array 'shape'");
  for (const char* shape : {"[-2]", "[2.0]", "[\"2\"]", "[9223372036854775808]", "[1e30]"}) {
    EXPECT_EQ(tensor("\"F32\"", shape, "[0,8]", 8),
              "tensor 'a': 'shape' has an element that is not a whole number below 2^63");
  }
  EXPECT_EQ(tensor("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]", 8),
            "tensor 'a': 'shape' has more than 8 elements");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[0,8,8]", 8),
            "tensor 'a': 'data_offsets' has 3 elements; expected 2");
  EXPECT_EQ(tensor("\"F32\"", "[0]", "[0,0]", 0),
            "tensor 'a': its shape [0] has a dimension of 0 or too many bytes to count");
  EXPECT_EQ(tensor("\"F32\"", "[4294967296,4294967296]", "[0,0]", 0),
            "tensor 'a': its shape [4294967296, 4294967296] has a dimension of 0 or too many "
            "bytes to count");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[8,0]", 8),
            "tensor 'a': data_offsets [8, 0] are not inside the file's 8 bytes of data");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[8,16]", 8),
            "tensor 'a': data_offsets [8, 16] are not inside the file's 8 bytes of data");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[0,4]", 8),
            "tensor 'a': data_offsets [0, 4] give 4 bytes; expected 8 for shape [2] of F32");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[4,12]", 12),
            "tensor 'a' begins at data offset 4; expected 0, where the one before it ends");
  EXPECT_EQ(tensor("\"F32\"", "[2]", "[0,8]", 12),
            "has 12 bytes of data; expected 8, where the last tensor ends");
  EXPECT_EQ(Open(FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                            "a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                        8)),
            "its header: the key 'a' appears twice in one object");
  EXPECT_EQ(Open(FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                            "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                        12)),
            "tensor 'b' begins at data offset 4; expected 8, where the one before it ends");
}

}  // namespace
}  // namespace quire
