// Which keys of a GGUF file become which fields, and what stands for those it does not have.
#include "server/text/gguf_vocab.h"

#include <fstream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/gguf_bytes.h"

namespace quire {
namespace {

using testing::HasSubstr;

// A file with three tokens and the keys that its maker adds.
GgufBytes FileOf(const std::string& model) {
  const std::string tokens = GgufBytes::Str("a") + GgufBytes::Str("b") + GgufBytes::Str("ab");
  return GgufBytes()
      .String("tokenizer.ggml.model", model)
      .Array("tokenizer.ggml.tokens", GgufBytes::kString, 3, tokens);
}

class GgufVocabTest : public testing::Test {
 protected:
  absl::StatusOr<TextVocab> Read(const GgufBytes& bytes) {
    const std::string path = testing::TempDir() + "/gguf_vocab_test.gguf";
    std::ofstream(path, std::ios::binary) << bytes.Build();
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    return ReadGgufVocab(*file_);
  }

  std::unique_ptr<GgufFile> file_;
};

TEST_F(GgufVocabTest, ReadsEveryKeyThatATokenizerNeeds) {
  const auto vocab = Read(
      FileOf("t5")
          .Array("tokenizer.ggml.scores", GgufBytes::kF32, 3,
                 GgufBytes::Raw(1.0F) + GgufBytes::Raw(2.0F) + GgufBytes::Raw(-3.0F))
          .Array("tokenizer.ggml.token_type", GgufBytes::kI32, 3,
                 GgufBytes::Raw(1) + GgufBytes::Raw(3) + GgufBytes::Raw(4))
          .Array("tokenizer.ggml.precompiled_charsmap", GgufBytes::kI8, 3,
                 std::string("\377\0a", 3))
          .Entry("tokenizer.ggml.add_bos_token", GgufBytes::kBool, std::string(1, '\1'))
          .Entry("tokenizer.ggml.add_eos_token", GgufBytes::kBool, std::string(1, '\0'))
          .Entry("tokenizer.ggml.add_space_prefix", GgufBytes::kBool, std::string(1, '\0'))
          .Entry("tokenizer.ggml.remove_extra_whitespaces", GgufBytes::kBool, std::string(1, '\1'))
          .U32("tokenizer.ggml.bos_token_id", 1)
          .U32("tokenizer.ggml.eos_token_id", 2)
          .U32("tokenizer.ggml.unknown_token_id", 0)
          .U32("tokenizer.ggml.padding_token_id", 2)
          .String("tokenizer.chat_template", "one")
          .String("tokenizer.chat_template.tool_use", "two"));
  ASSERT_TRUE(vocab.ok()) << vocab.status();
  EXPECT_THAT(vocab->tokens, testing::ElementsAre("a", "b", "ab"));
  EXPECT_THAT(vocab->scores, testing::ElementsAre(1, 2, -3));
  EXPECT_THAT(vocab->token_types, testing::ElementsAre(1, 3, 4));
  EXPECT_EQ(vocab->precompiled_charsmap, std::string("\377\0a", 3));
  EXPECT_EQ(vocab->add_bos, true);
  EXPECT_EQ(vocab->add_eos, false);
  EXPECT_EQ(vocab->add_space_prefix, false);
  EXPECT_TRUE(vocab->remove_extra_whitespaces);
  EXPECT_EQ(vocab->bos_id, 1);
  EXPECT_EQ(vocab->eos_id, 2);
  EXPECT_EQ(vocab->unk_id, 0);
  EXPECT_EQ(vocab->pad_id, 2);
  EXPECT_EQ(vocab->chat_template, "one");
  EXPECT_EQ(vocab->tool_template, "two");
}

TEST_F(GgufVocabTest, WhatAFileDoesNotSayIsNotSetAndIdsAreTheHabitOfItsModel) {
  const auto llama = Read(FileOf("llama"));
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->unk_id, 0);
  EXPECT_EQ(llama->bos_id, 1);
  EXPECT_EQ(llama->eos_id, 2);
  EXPECT_EQ(llama->pad_id, -1);
  EXPECT_FALSE(llama->add_bos.has_value());
  EXPECT_FALSE(llama->add_eos.has_value());
  EXPECT_FALSE(llama->add_space_prefix.has_value());
  EXPECT_EQ(llama->chat_template.data(), nullptr);
  EXPECT_EQ(llama->tool_template.data(), nullptr);
  const auto t5 = Read(FileOf("t5"));
  ASSERT_TRUE(t5.ok()) << t5.status();
  EXPECT_EQ(t5->pad_id, 0);
  EXPECT_EQ(t5->eos_id, 1);
  EXPECT_EQ(t5->unk_id, 2);
  EXPECT_EQ(t5->bos_id, -1);
}

TEST_F(GgufVocabTest, NamesTheKeyThatIsMissingOrWrong) {
  const auto no_merges = Read(FileOf("gpt2"));
  EXPECT_EQ(no_merges.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(no_merges.status().message()), HasSubstr("no tokenizer.ggml.merges"));
  const auto no_tokens = Read(GgufBytes().String("tokenizer.ggml.model", "gpt2"));
  EXPECT_EQ(no_tokens.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_tokens.status().message()), HasSubstr("tokenizer.ggml.tokens"));
  const auto wrong = Read(FileOf("llama").String("tokenizer.ggml.add_bos_token", "yes"));
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("tokenizer.ggml.add_bos_token"));
}

}  // namespace
}  // namespace quire
