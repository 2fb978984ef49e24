// Our tokenizers against what the library `tokenizers` computed, from both kinds of files.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "tests/server/text/golden.h"

namespace quire {
namespace {

using nlohmann::ordered_json;

struct Source {
  const char* name;
  bool gguf;
};

class TokenizerGoldenTest : public testing::TestWithParam<Source> {
 protected:
  void SetUp() override {
    folder_ = GoldenFolder(std::string("tokenizers/") + GetParam().name);
    if (folder_.empty()) GTEST_SKIP() << "no golden data for " << GetParam().name;
    const auto start = std::chrono::steady_clock::now();
    tokenizer_ = OpenGolden(GetParam().name, GetParam().gguf);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    ASSERT_NE(tokenizer_, nullptr);
    std::cout << GetParam().name << (GetParam().gguf ? ".gguf" : "") << ": "
              << tokenizer_->vocab_size() << " tokens opened in " << took.count() << " ms\n";
  }

  void CheckCases(const std::string& file) {
    for (const ordered_json& row : ReadJsonLines(folder_ + "/" + file)) {
      const std::string text = row["text"];
      const auto ids = tokenizer_->Encode(text, {row["add_special"], row["parse_special"]});
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*ids, row["ids"].get<std::vector<int32_t>>()) << row.dump();
      for (bool skip : {false, true}) {
        const auto decoded = tokenizer_->Decode(row["ids"].get<std::vector<int32_t>>(), skip);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(*decoded, row[skip ? "decoded_skip" : "decoded"].get<std::string>())
            << row.dump();
      }
      ++num_rows_;
    }
  }

  std::string folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
  int num_rows_ = 0;
};

TEST_P(TokenizerGoldenTest, EncodesAndDecodesAsTokenizersDoes) {
  CheckCases("cases.jsonl");
  // Where llama.cpp, which wrote the GGUF, and `tokenizers` differ, we are with the latter.
  if (std::filesystem::exists(folder_ + "/cases_hf.jsonl")) CheckCases("cases_hf.jsonl");
  EXPECT_GT(num_rows_, 400);
}

TEST_P(TokenizerGoldenTest, StreamsEachCharacterAsSoonAsItIsWhole) {
  int num_exact = 0, num_broken = 0;
  for (const ordered_json& row : ReadJsonLines(folder_ + "/stream.jsonl")) {
    const std::vector<int32_t> ids = row["ids"];
    StreamDecoder decoder(*tokenizer_, row["skip_special"]);
    std::vector<std::string> pieces;
    std::string joined;
    for (int32_t id : ids) {
      ASSERT_TRUE(decoder.Push(id, pieces.emplace_back()).ok());
      joined += pieces.back();
      // dump() throws where a string is not UTF-8: half a character.
      EXPECT_NO_THROW(ordered_json(pieces.back()).dump());
    }
    std::string flush;
    decoder.Flush(flush);
    EXPECT_EQ(joined + flush, *tokenizer_->Decode(ids, row["skip_special"]));
    if (row.value("valid", true)) {
      const ordered_json& expect =
          row.contains("pieces_eager") ? row["pieces_eager"] : row["pieces"];
      EXPECT_EQ(pieces, expect.get<std::vector<std::string>>()) << row.dump();
      EXPECT_EQ(joined + flush, row["text"].get<std::string>()) << row.dump();
      if (!row.contains("pieces_eager")) {
        EXPECT_EQ(flush, row["flush"].get<std::string>());
      }
      ++num_exact;
    } else {
      ++num_broken;
    }
  }
  EXPECT_GT(num_exact, 30);
  std::cout << GetParam().name << ": " << num_exact << " streams equal, " << num_broken
            << " with broken UTF-8 whole\n";
}

TEST_P(TokenizerGoldenTest, KnowsItsSpecialTokens) {
  const ordered_json named = ordered_json::parse(ReadFile(folder_ + "/special_tokens_map.json"));
  for (const auto& [key, token] : named.items()) {
    const int32_t id = tokenizer_->FindToken(token.get<std::string>());
    ASSERT_GE(id, 0) << key;
    EXPECT_TRUE(tokenizer_->IsSpecial(id)) << key;
    EXPECT_EQ(tokenizer_->TokenBytes(id), token.get<std::string>());
    // A GGUF may name others.
    if (key == "bos_token" && !GetParam().gguf) {
      EXPECT_EQ(tokenizer_->bos_id(), id);
    } else if (key == "eos_token" && !GetParam().gguf) {
      EXPECT_EQ(tokenizer_->eos_id(), id);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerGoldenTest,
    testing::Values(Source{"smollm2", true}, Source{"smollm2", false}, Source{"gpt2", true},
                    Source{"gpt2", false}, Source{"qwen2", true}, Source{"qwen2", false},
                    Source{"own_bpe_digits", true}, Source{"own_bpe_digits", false},
                    Source{"own_bpe_llama3", true}, Source{"own_bpe_llama3", false},
                    Source{"own_spm", true}, Source{"own_spm", false},
                    Source{"own_unigram", false}),
    [](const testing::TestParamInfo<Source>& source) {
      return std::string(source.param.name) + (source.param.gguf ? "_gguf" : "_hf");
    });

}  // namespace
}  // namespace quire
