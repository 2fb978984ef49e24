// Unigram vocabularies of GGUF files against what SentencePiece computed with them.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/text/golden.h"

namespace quire {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

class UnigramGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(UnigramGoldenTest, EncodesAndDecodesAsSentencePieceDoes) {
  const auto tokenizer = OpenGolden(GetParam(), true);
  ASSERT_NE(tokenizer, nullptr);
  int num_decoded = 0;
  for (const ordered_json& row :
       ReadJsonLines(GoldenFolder(std::string("tokenizers/") + GetParam()) + "/cases.jsonl")) {
    // SentencePiece takes no special token out of a text, and adds none.
    const auto ids = tokenizer->Encode(row["text"].get<std::string>(),
                                       {.add_special = false, .parse_special = false});
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, row["ids"].get<std::vector<int32_t>>()) << row["text"].dump();
    if (!row.contains("decoded")) continue;
    EXPECT_EQ(*tokenizer->Decode(*ids, false), row["decoded"].get<std::string>());
    ++num_decoded;
  }
  EXPECT_GT(num_decoded, 200);
}

TEST_P(UnigramGoldenTest, ControlTokensAreFoundOnlyWhereAllowedAndEosIsAdded) {
  const auto tokenizer = OpenGolden(GetParam(), true);
  ASSERT_NE(tokenizer, nullptr);
  const int32_t control = tokenizer->FindToken("<ctrl>");
  const std::vector<int32_t> parsed = *tokenizer->Encode("a<ctrl>b", {});
  EXPECT_THAT(parsed, testing::Contains(control));
  EXPECT_EQ(parsed.back(), tokenizer->eos_id());
  EXPECT_THAT(*tokenizer->Encode("a<ctrl>b", {.parse_special = false}),
              testing::Not(testing::Contains(control)));
  // A token of the user is one in any text, and is shown.
  const int32_t user = tokenizer->FindToken("<sep>");
  EXPECT_THAT(*tokenizer->Encode("a<sep>b", {.parse_special = false}), testing::Contains(user));
  EXPECT_FALSE(tokenizer->IsSpecial(user));
  EXPECT_TRUE(tokenizer->IsSpecial(control));
}

INSTANTIATE_TEST_SUITE_P(All, UnigramGoldenTest, testing::Values("unigram_nfkc", "unigram_bytes"));

TextVocab SmallUnigram() {
  TextVocab vocab;
  vocab.model = "t5";
  vocab.tokens = {"<unk>", "a", "b", "ab"};
  vocab.token_types = {2, 1, 1, 1};
  vocab.scores = {0, -1, -1, -1.5};
  vocab.unk_id = 0;
  return vocab;
}

void ExpectRefused(const TextVocab& vocab, const std::string& part) {
  const absl::Status status = Tokenizer::FromVocab(vocab).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(UnigramVocabTest, NamesWhatIsBrokenInAFile) {
  const auto tokenizer = Tokenizer::FromVocab(SmallUnigram());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Encode("abxxa", {}), (std::vector<int32_t>{3, 0, 1}));

  TextVocab vocab = SmallUnigram();
  vocab.scores.clear();
  ExpectRefused(vocab, "needs scores");
  vocab = SmallUnigram();
  vocab.unk_id = -1;
  ExpectRefused(vocab, "needs an unknown token");
  vocab = SmallUnigram();
  vocab.scores[2] = std::numeric_limits<float>::quiet_NaN();
  ExpectRefused(vocab, "score of token 2 is not finite");
  vocab = SmallUnigram();
  vocab.token_types = {2, 3, 3, 3};
  ExpectRefused(vocab, "no token of the normal type");
  for (const std::string& charsmap :
       {std::string("\1\0", 2), std::string("\0\0\0\0\0", 5), std::string("\377\377\377\177ab", 6),
        std::string("\4\0\0\0abcdno end", 14), std::string("\4\0\0\0abcd\377\0", 10)}) {
    vocab = SmallUnigram();
    vocab.precompiled_charsmap = charsmap;
    ExpectRefused(vocab, "precompiled charsmap");
  }
}

TEST(UnigramVocabTest, ACharsmapOfAnyBytesNeverReadsOutside) {
  std::string charsmap("\100\0\0\0", 4);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    charsmap.resize(4);
    uint32_t random = seed;
    for (int i = 0; i < 64; ++i) {
      random = random * 1664525U + 1013904223U;
      charsmap.push_back(static_cast<char>(random >> 24));
    }
    charsmap += std::string("a\0bc\0", 5);
    TextVocab vocab = SmallUnigram();
    vocab.precompiled_charsmap = charsmap;
    const auto tokenizer = Tokenizer::FromVocab(vocab);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    std::string text;
    for (char c = 1; c < 127; ++c) text.push_back(c);
    EXPECT_TRUE((*tokenizer)->Encode(text + "é🦙", {}).ok());
  }
}

}  // namespace
}  // namespace quire
