#include "server/prompt.h"

#include "gtest/gtest.h"

#include "server/errors.h"
#include "tests/testing/byte_text.h"

namespace quire {
namespace {

// Of MakeByteText: token i is byte i.
ModelInfo InfoWith(int32_t vocab_size) {
  ModelInfo info;
  info.vocab_size = vocab_size;
  info.max_model_len = 8;
  return info;
}

TEST(PromptTest, TokensThatTheTokenizerHasAndTheModelLacksAreRefused) {
  const auto text = MakeByteText();
  v1::GenerateRequest request;
  request.set_text("ab");  // 97, 98
  const auto known = TokenizePrompt(request, text.get(), InfoWith(99));
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(*known, (std::vector<int32_t>{97, 98}));
  const auto unknown = TokenizePrompt(request, text.get(), InfoWith(98));
  EXPECT_EQ(unknown.status().message(),
            "INVALID_FIELD: text: comes to the token 98, which the model's 98 tokens do not "
            "include");
}

}  // namespace
}  // namespace quire
