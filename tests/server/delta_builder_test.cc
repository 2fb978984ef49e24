#include "server/delta_builder.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/byte_text.h"
#include "tests/testing/fake_engine.h"

namespace quire {
namespace {

using testing::ElementsAre;

std::vector<int32_t> Bytes(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

void AddAll(DeltaBuilder& deltas, const std::vector<int32_t>& token_ids) {
  for (const int32_t id : token_ids) deltas.Add(id);
}

// The text of all that there is now.
std::string TakeText(DeltaBuilder& deltas) {
  std::string text;
  while (deltas.HasDelta()) {
    v1::Delta delta;
    deltas.Take(&delta);
    text += delta.text();
  }
  return text;
}

TEST(DeltaBuilderTest, MergesWhatCameSinceTheLastDelta) {
  const auto text = MakeByteText();
  const TextRules rules{.tokenizer = &text->tokenizer()};
  DeltaBuilder deltas(rules);
  EXPECT_FALSE(deltas.HasDelta());
  AddAll(deltas, Bytes("ab"));
  AddAll(deltas, Bytes("c"));
  v1::Delta delta;
  deltas.Take(&delta);
  EXPECT_EQ(delta.text(), "abc");
  EXPECT_EQ(delta.token_offset(), 0u);
  EXPECT_EQ(delta.token_ids_size(), 3);
  EXPECT_FALSE(deltas.HasDelta());
  AddAll(deltas, Bytes("d"));
  v1::Delta second;
  deltas.Take(&second);
  EXPECT_EQ(second.text(), "d");
  EXPECT_EQ(second.token_offset(), 3u);
}

TEST(DeltaBuilderTest, SplitsWhatIsTooLargeAndNeverACharacter) {
  const auto text = MakeByteText();
  const TextRules rules{.tokenizer = &text->tokenizer()};
  DeltaBuilder deltas(rules);
  std::string expected = "x";  // characters begin at odd offsets
  while (expected.size() < 3 * DeltaBuilder::kMaxTextBytes) expected += "é";
  AddAll(deltas, Bytes(expected));
  std::string joined;
  uint32_t num_ids = 0;
  while (deltas.HasDelta()) {
    v1::Delta delta;
    deltas.Take(&delta);
    EXPECT_LT(delta.ByteSizeLong(), size_t{1} << 20);
    EXPECT_EQ(delta.token_offset(), num_ids);
    EXPECT_NE(static_cast<uint8_t>(delta.text().empty() ? 'x' : delta.text()[0]) & 0xC0, 0x80);
    joined += delta.text();
    num_ids += static_cast<uint32_t>(delta.token_ids_size());
  }
  EXPECT_EQ(joined, expected);
  EXPECT_EQ(num_ids, expected.size());
}

TEST(DeltaBuilderTest, FlushReleasesHalfACharacterOnce) {
  const auto text = MakeByteText();
  const TextRules rules{.tokenizer = &text->tokenizer(), .stop_token_ids = {'!'}};
  DeltaBuilder deltas(rules);
  AddAll(deltas, {'a', 0xE2, '!'});
  v1::Delta delta;
  deltas.Take(&delta);
  EXPECT_EQ(delta.text(), "a");
  EXPECT_THAT(delta.token_ids(), ElementsAre('a', 0xE2, '!'));
  deltas.Flush();
  v1::Delta rest;
  ASSERT_TRUE(deltas.HasDelta());
  deltas.Take(&rest);
  EXPECT_EQ(rest.text(), "\uFFFD");
  EXPECT_EQ(rest.token_ids_size(), 0);
  EXPECT_EQ(rest.token_offset(), 3u);
  deltas.Flush();
  EXPECT_FALSE(deltas.HasDelta());
}

TEST(DeltaBuilderTest, WithoutATokenizerThereAreIdsOnly) {
  const TextRules rules;
  DeltaBuilder deltas(rules);
  AddAll(deltas, {1, 2});
  v1::Delta delta;
  deltas.Take(&delta);
  EXPECT_EQ(delta.text(), "");
  EXPECT_THAT(delta.token_ids(), ElementsAre(1, 2));
  deltas.Flush();
  EXPECT_FALSE(deltas.HasDelta());
}

TEST(DeltaBuilderTest, TextWaitsUntilItIsNoBeginningOfAStopString) {
  const auto text = MakeByteText();
  const std::vector<std::string> stops = {"END", "\n\n"};
  const TextRules rules{.tokenizer = &text->tokenizer(), .stop_strings = StopStrings(stops)};
  DeltaBuilder deltas(rules);
  AddAll(deltas, Bytes("aE"));
  EXPECT_EQ(TakeText(deltas), "a");
  AddAll(deltas, Bytes("N"));
  v1::Delta delta;
  ASSERT_TRUE(deltas.HasDelta()) << "ids are never withheld";
  deltas.Take(&delta);
  EXPECT_EQ(delta.text(), "");
  EXPECT_THAT(delta.token_ids(), ElementsAre('N'));
  AddAll(deltas, Bytes("x\nE"));
  EXPECT_EQ(TakeText(deltas), "ENx\n");
  AddAll(deltas, Bytes("ND"));
  EXPECT_EQ(TakeText(deltas), "");
  ASSERT_NE(deltas.stop_string(), nullptr);
  EXPECT_EQ(*deltas.stop_string(), "END");
  EXPECT_EQ(deltas.num_tokens(), 8);
  // The engine was faster than the text.
  AddAll(deltas, Bytes("more"));
  EXPECT_FALSE(deltas.HasDelta());
  EXPECT_EQ(deltas.num_tokens(), 8);
  deltas.Flush();
  EXPECT_FALSE(deltas.HasDelta());
}

TEST(DeltaBuilderTest, HeldTextIsReleasedAtTheEnd) {
  const auto text = MakeByteText();
  const std::vector<std::string> stops = {"END"};
  const TextRules rules{.tokenizer = &text->tokenizer(), .stop_strings = StopStrings(stops)};
  DeltaBuilder deltas(rules);
  AddAll(deltas, Bytes("aEN"));
  EXPECT_EQ(TakeText(deltas), "a");
  deltas.Flush();
  EXPECT_EQ(TakeText(deltas), "EN");
  EXPECT_EQ(deltas.stop_string(), nullptr);
}

TEST(DeltaBuilderTest, AStopStringIsIncludedWhereAsked) {
  const auto text = MakeByteText();
  const std::vector<std::string> stops = {"END"};
  const TextRules rules{.tokenizer = &text->tokenizer(),
                        .stop_strings = StopStrings(stops),
                        .include_stop_string = true};
  DeltaBuilder deltas(rules);
  AddAll(deltas, Bytes("aEN"));
  EXPECT_EQ(TakeText(deltas), "aEN") << "nothing has to wait";
  AddAll(deltas, Bytes("Dx"));
  EXPECT_EQ(TakeText(deltas), "D");
  EXPECT_EQ(deltas.num_tokens(), 4);
}

TEST(DeltaBuilderTest, NoStopStringCountsBeforeMinTokens) {
  const auto text = MakeByteText();
  const std::vector<std::string> stops = {"b"};
  const TextRules rules{
      .tokenizer = &text->tokenizer(), .stop_strings = StopStrings(stops), .min_tokens = 4};
  DeltaBuilder deltas(rules);
  AddAll(deltas, Bytes("abb"));
  EXPECT_EQ(deltas.stop_string(), nullptr);
  AddAll(deltas, Bytes("b"));
  ASSERT_NE(deltas.stop_string(), nullptr);
  EXPECT_EQ(TakeText(deltas), "abb");
}

TEST(DeltaBuilderTest, LogprobsGoWithTheirTokensInMessagesThatFit) {
  const auto text = MakeByteText();
  const TextRules rules{.tokenizer = &text->tokenizer(), .wants_logprobs = true};
  DeltaBuilder deltas(rules);
  constexpr int kNumTokens = 20'000;
  LogprobList scores;
  double sum = 0;
  for (int i = 0; i < kNumTokens; ++i) {
    const RowLogprobs logprobs = FakeLogprobs(i % 256, 20);
    sum += logprobs.token.logprob;
    scores.Append(logprobs);
    deltas.Add(i % 256, &scores, static_cast<size_t>(i));
  }
  EXPECT_EQ(deltas.cumulative_logprob(), sum);
  int num_seen = 0, num_deltas = 0;
  while (deltas.HasDelta()) {
    v1::Delta delta;
    deltas.Take(&delta);
    ++num_deltas;
    EXPECT_LT(delta.ByteSizeLong(), size_t{1} << 20);
    EXPECT_EQ(delta.token_offset(), static_cast<uint32_t>(num_seen));
    ASSERT_EQ(delta.logprobs_size(), delta.token_ids_size());
    for (int i = 0; i < delta.logprobs_size(); ++i, ++num_seen) {
      const v1::TokenLogprob& entry = delta.logprobs(i);
      ASSERT_EQ(entry.token_id(), delta.token_ids(i));
      ASSERT_EQ(entry.token_bytes(), std::string(1, static_cast<char>(num_seen % 256)));
      ASSERT_EQ(entry.logprob(), FakeLogprobs(num_seen % 256, 20).token.logprob);
      ASSERT_EQ(entry.rank(), static_cast<uint32_t>(num_seen % 256 % 5 + 1));
      ASSERT_EQ(entry.top_size(), 20);
      ASSERT_EQ(entry.top(3).token_id(), 3u);
      ASSERT_EQ(entry.top(3).logprob(), -0.75f);
      ASSERT_EQ(entry.top(3).token_bytes(), std::string(1, '\3'));
    }
  }
  EXPECT_EQ(num_seen, kNumTokens);
  EXPECT_GT(num_deltas, 10);
}

}  // namespace
}  // namespace quire
