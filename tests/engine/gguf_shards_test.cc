#include "engine/gguf_shards.h"

#include <filesystem>

#include "gtest/gtest.h"

#include "engine/model_files.h"
#include "engine/weights.h"
#include "tests/testing/gguf_bytes.h"
#include "tests/testing/temp_dir.h"

namespace quire {
namespace {

constexpr int kNumTensors = 11;

// The tensors of a model of one layer, hidden size 32, vocabulary 32, all F32.
struct NamedShape {
  const char* name;
  std::vector<uint64_t> dims;
};
const std::vector<NamedShape>& Tensors() {
  static const auto* const kTensors = new std::vector<NamedShape>{
      {"token_embd.weight", {32, 32}},        {"output_norm.weight", {32}},
      {"blk.0.attn_norm.weight", {32}},       {"blk.0.attn_q.weight", {32, 32}},
      {"blk.0.attn_k.weight", {32, 32}},      {"blk.0.attn_v.weight", {32, 32}},
      {"blk.0.attn_output.weight", {32, 32}}, {"blk.0.ffn_norm.weight", {32}},
      {"blk.0.ffn_gate.weight", {32, 32}},    {"blk.0.ffn_up.weight", {32, 32}},
      {"blk.0.ffn_down.weight", {32, 32}}};
  return *kTensors;
}

void AddMetadata(GgufBytes& bytes) {
  bytes.String("general.architecture", "llama")
      .U32("llama.block_count", 1)
      .U32("llama.context_length", 64)
      .U32("llama.embedding_length", 32)
      .U32("llama.feed_forward_length", 32)
      .U32("llama.attention.head_count", 2)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

void AddTensors(GgufBytes& bytes, int begin, int end) {
  uint64_t offset = 0;
  for (int i = begin; i < end; ++i) {
    const NamedShape& tensor = Tensors()[i];
    uint64_t count = 1;
    for (const uint64_t dim : tensor.dims) count *= dim;
    bytes.Tensor(tensor.name, tensor.dims, 0, offset);
    for (uint64_t k = 0; k < count; ++k) {
      bytes.Data(GgufBytes::Raw(static_cast<float>(i + 1) + 0.001f * static_cast<float>(k)));
    }
    offset += count * sizeof(float);  // a multiple of the alignment
  }
}

std::string Whole() {
  GgufBytes bytes;
  AddMetadata(bytes);
  AddTensors(bytes, 0, kNumTensors);
  return bytes.Build();
}

// File `number` (from 0) of `count`, with tensors [begin, end).
std::string Part(uint32_t number, uint32_t count, int begin, int end,
                 uint32_t num_tensors = kNumTensors) {
  GgufBytes bytes;
  if (number == 0) AddMetadata(bytes);
  bytes.U32("split.no", number).U32("split.count", count).U32("split.tensors.count", num_tensors);
  AddTensors(bytes, begin, end);
  return bytes.Build();
}

std::string NameOf(int number, int count) {
  return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
}

// A model in three files, as llama.cpp's gguf-split cuts it: the first may have no tensors.
class SplitModel {
 public:
  SplitModel() {
    dir_.Write(NameOf(1, 3), Part(0, 3, 0, 0));
    dir_.Write(NameOf(2, 3), Part(1, 3, 0, 7));
    dir_.Write(NameOf(3, 3), Part(2, 3, 7, kNumTensors));
  }
  const TempDir& dir() const { return dir_; }
  std::string first() const { return dir_.Path(NameOf(1, 3)); }
  // "ok", or what is wrong, without the folder.
  std::string Open(const std::string& path) const {
    const auto files = ModelFiles::Open(path);
    std::string message(files.status().message());
    for (size_t at = 0; (at = message.find(dir_.path() + "/")) != std::string::npos;) {
      message.erase(at, dir_.path().size() + 1);
    }
    return files.ok() ? "ok" : message;
  }

 private:
  const TempDir dir_;
};

TEST(GgufShardsTest, SeveralFilesAreTheModelThatOneFileIs) {
  const SplitModel model;
  const auto split = ModelFiles::Open(model.first());
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ((*split)->tensors().size(), size_t{kNumTensors});
  EXPECT_TRUE(FindWeights(**split).ok()) << FindWeights(**split).status();
  EXPECT_TRUE((*split)->config().tie_word_embeddings);
  EXPECT_EQ((*split)->config().vocab_size, 32) << "by a tensor of the second file";
  const TempDir other;
  const auto whole = ModelFiles::Open(other.Write("whole.gguf", Whole()));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ((*split)->Fingerprint(), (*whole)->Fingerprint());
}

TEST(GgufShardsTest, FilesThatAreMissingOrForeignAreNamed) {
  SplitModel model;
  const auto open_first = [&] { return model.Open(model.first()); };
  EXPECT_EQ(open_first(), "ok");
  EXPECT_EQ(model.Open(model.dir().Path(NameOf(2, 3))),
            "m-00002-of-00003.gguf: is file 2 of 3 of a split model; give the first one, which "
            "ends in -00001-of-00003.gguf");
  model.dir().Write(NameOf(3, 3), Part(2, 3, 7, kNumTensors - 1));
  EXPECT_EQ(open_first(),
            "m-00001-of-00003.gguf: says that all files have 11 tensors; they have 10; is it a "
            "file of another model?");
  model.dir().Write(NameOf(3, 3), Part(2, 3, 6, kNumTensors));
  EXPECT_EQ(open_first(),
            "m-00003-of-00003.gguf: tensor 'blk.0.attn_output.weight' is in "
            "m-00002-of-00003.gguf too");
  model.dir().Write(NameOf(3, 3), Part(1, 3, 7, kNumTensors));
  EXPECT_EQ(open_first(), "m-00003-of-00003.gguf: says that it is file 2 of 3; expected 3 of 3");
  model.dir().Write(NameOf(3, 3), Whole());
  EXPECT_EQ(open_first(), "m-00003-of-00003.gguf: the metadata key 'split.no' is missing");
  model.dir().Write(NameOf(3, 3), "GGUF");
  EXPECT_EQ(open_first(), "m-00003-of-00003.gguf: the file ends inside its header");
  std::filesystem::remove(model.dir().Path(NameOf(3, 3)));
  EXPECT_EQ(open_first(),
            "m-00003-of-00003.gguf: no such file; m-00001-of-00003.gguf is the first of 3 files, "
            "and all are needed");
  EXPECT_EQ(model.Open(model.dir().Write("renamed.gguf", Part(0, 3, 0, 0))),
            "renamed.gguf: is the first of 3 files of a split model, but is not named so; expected "
            "a name that ends in -00001-of-00003.gguf");
  EXPECT_EQ(model.Open(model.dir().Write("many.gguf", Part(0, 5000, 0, 0))),
            "many.gguf: split.count is 5000; expected 0 to 4096");
}

TEST(GgufShardsTest, AnOverrideChangesTheModelAndItsFingerprint) {
  const TempDir dir;
  const std::string path = dir.Write("whole.gguf", Whole());
  const auto open = [&](const std::vector<GgufOverride>& overrides) {
    return ModelFiles::Open(path, overrides);
  };
  const auto plain = open({});
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto longer = open({{"llama.context_length", int64_t{128}}});
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ((*longer)->config().max_position_embeddings, 128);
  EXPECT_NE((*longer)->Fingerprint(), (*plain)->Fingerprint());
  const auto other_text = open({{"tokenizer.ggml.add_bos_token", false}});
  ASSERT_TRUE(other_text.ok()) << other_text.status();
  EXPECT_NE((*other_text)->Fingerprint(), (*plain)->Fingerprint());
  EXPECT_EQ(open({{"llama.block_count", std::string("one")}}).status().message(),
            path + ": the metadata key 'llama.block_count' is of type string; expected an integer");
  const auto folder =
      ModelFiles::Open(dir.path(), std::vector<GgufOverride>{{"llama.block_count", int64_t{1}}});
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kFailedPrecondition) << folder.status();
}

}  // namespace
}  // namespace quire
