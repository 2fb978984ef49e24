// How byte-level vocabularies of GGUF files split text, for every name that a file may give.
//
// One vocabulary whose tokens cross the borders of words, so that the ids of a text show where it
// was split. The ids are those of the library `tokenizers` with each model's own pre_tokenizer.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/text/golden.h"

namespace quire {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

class PreTokenizerGoldenTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = GoldenFolder("tokenizers/pre_tokenizers");
    ASSERT_FALSE(folder.empty());
    rows_ = ReadJsonLines(folder + "/cases.jsonl");
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(folder + "/vocab.gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    absl::StatusOr<TextVocab> vocab = ReadGgufVocab(*file_);
    ASSERT_TRUE(vocab.ok()) << vocab.status();
    vocab_ = *vocab;
  }

  // The names of all rules, from the first text's results.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const ordered_json& result : rows_[0]["results"]) {
      for (absl::string_view name : absl::StrSplit(result["pre"].get<std::string>(), ' ')) {
        names.emplace_back(name);
      }
    }
    return names;
  }

  std::unique_ptr<GgufFile> file_;
  TextVocab vocab_;
  std::vector<ordered_json> rows_;
};

TEST_F(PreTokenizerGoldenTest, EveryNameSplitsAsItsModelDoes) {
  const std::vector<std::string> names = Names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names.size(), 88U);
  for (const std::string& name : names) {
    vocab_.pre = name;
    const auto tokenizer = Tokenizer::FromVocab(vocab_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const ordered_json& row : rows_) {
      const auto ids = (*tokenizer)->Encode(row["text"].get<std::string>(), {.add_special = false});
      ASSERT_TRUE(ids.ok()) << ids.status();
      const ordered_json* expect = nullptr;
      for (const ordered_json& result : row["results"]) {
        const std::vector<std::string> of = absl::StrSplit(result["pre"].get<std::string>(), ' ');
        if (std::find(of.begin(), of.end(), name) != of.end()) expect = &result["ids"];
      }
      ASSERT_NE(expect, nullptr) << name;
      EXPECT_EQ(*ids, expect->get<std::vector<int32_t>>()) << name << " " << row["text"].dump();
    }
  }
}

TEST_F(PreTokenizerGoldenTest, NamesThatItCannotBeExactAboutAreRefusedWithTheReasonAndTheList) {
  for (const char* name : {"gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe",
                           "whitespace", "", "smollm3"}) {
    vocab_.pre = name;
    const absl::Status status = Tokenizer::FromVocab(vocab_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("pre-tokenizer \"" + std::string(name) + "\" is not supported"));
    for (const std::string& supported : Names()) EXPECT_THAT(message, HasSubstr(supported));
  }
  vocab_.pre = "gemma4";
  EXPECT_THAT(std::string(Tokenizer::FromVocab(vocab_).status().message()),
              HasSubstr("characters, not bytes"));
  vocab_.pre = "";
  EXPECT_THAT(std::string(Tokenizer::FromVocab(vocab_).status().message()),
              HasSubstr("no tokenizer.ggml.pre"));
}

// The published patterns of these take time that grows with the square of such texts: minutes.
TEST_F(PreTokenizerGoldenTest, LongRunsOfOneCharacterTakeTimeThatGrowsWithThem) {
  for (const char* name : {"jais-2", "tiny_aya", "afmoe", "superbpe", "deepseek-llm"}) {
    vocab_.pre = name;
    const auto tokenizer = Tokenizer::FromVocab(vocab_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const char unit : {' ', '1'}) {
      for (const char* tail : {"", "x", "\xC2\xBD"}) {
        const std::string text = std::string(200'000, unit) + tail;
        const auto ids = (*tokenizer)->Encode(text, {.add_special = false});
        ASSERT_TRUE(ids.ok()) << name << " " << ids.status();
        EXPECT_EQ(*(*tokenizer)->Decode(*ids, false), text) << name;
      }
    }
  }
}

TEST_F(PreTokenizerGoldenTest, AddsBosWhereTheFileDoesNotSayOnlyForModelsThatDo) {
  const auto begins = [this](const char* name) {
    vocab_.pre = name;
    const auto tokenizer = Tokenizer::FromVocab(vocab_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return (*tokenizer)->Encode("a", {})->front() == vocab_.bos_id;
  };
  for (const char* name : {"llama-bpe", "falcon-h1", "lfm2", "tekken", "chameleon"}) {
    EXPECT_TRUE(begins(name)) << name;
  }
  for (const char* name : {"gpt-2", "qwen2", "smollm", "glm4", "default", "gpt-4o"}) {
    EXPECT_FALSE(begins(name)) << name;
  }
  vocab_.add_bos = false;
  EXPECT_FALSE(begins("llama-bpe"));
  vocab_.add_bos = true;
  EXPECT_TRUE(begins("gpt-2"));
}

}  // namespace
}  // namespace quire
