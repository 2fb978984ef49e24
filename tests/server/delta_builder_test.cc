#include "server/delta_builder.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/byte_text.h"

namespace quire {
namespace {

using testing::ElementsAre;

std::vector<int32_t> Bytes(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

TEST(DeltaBuilderTest, MergesWhatCameSinceTheLastDelta) {
  const auto text = MakeByteText();
  DeltaBuilder deltas(&text->tokenizer(), true, {});
  EXPECT_FALSE(deltas.HasDelta());
  deltas.Add(Bytes("ab"));
  deltas.Add(Bytes("c"));
  v1::Delta delta;
  deltas.Take(&delta);
  EXPECT_EQ(delta.text(), "abc");
  EXPECT_EQ(delta.token_offset(), 0u);
  EXPECT_EQ(delta.token_ids_size(), 3);
  EXPECT_FALSE(deltas.HasDelta());
  deltas.Add(Bytes("d"));
  v1::Delta second;
  deltas.Take(&second);
  EXPECT_EQ(second.text(), "d");
  EXPECT_EQ(second.token_offset(), 3u);
}

TEST(DeltaBuilderTest, SplitsWhatIsTooLargeAndNeverACharacter) {
  const auto text = MakeByteText();
  DeltaBuilder deltas(&text->tokenizer(), true, {});
  std::string expected = "x";  // characters begin at odd offsets
  while (expected.size() < 3 * DeltaBuilder::kMaxTextBytes) expected += "é";
  deltas.Add(Bytes(expected));
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
  DeltaBuilder deltas(&text->tokenizer(), true, {'!'});
  deltas.Add({'a', 0xE2, '!'});
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
  DeltaBuilder deltas(nullptr, true, {});
  deltas.Add({1, 2});
  v1::Delta delta;
  deltas.Take(&delta);
  EXPECT_EQ(delta.text(), "");
  EXPECT_THAT(delta.token_ids(), ElementsAre(1, 2));
  deltas.Flush();
  EXPECT_FALSE(deltas.HasDelta());
}

}  // namespace
}  // namespace quire
