// From a client's request to the engine's, with real tokenizers.
#include "server/engine_request.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/errors.h"
#include "server/params.h"
#include "tests/testing/byte_text.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class EngineRequestTest : public testing::Test {
 protected:
  EngineRequestTest() {
    model_.info = FakeModelInfo();
    model_.default_params = DefaultParams(model_.info);
    model_.text = MakeByteText();
  }
  absl::Status Build(const v1::GenerateRequest& asked) {
    built_ = {};
    return BuildEngineRequest(asked, model_, {}, params_, built_);
  }
  static v1::GenerateRequest TextRequest(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    return request;
  }

  ServingModel model_;
  v1::GenerationParams params_;
  Request built_;
};

TEST_F(EngineRequestTest, ABadWordIsBannedAtTheStartAndAfterASpace) {
  auto tokenizer = Tokenizer::Open(OwnGoldenPath("tokenizers/own_bpe_llama3"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  model_.info.vocab_size = (*tokenizer)->vocab_size();
  model_.text = std::make_unique<ModelText>(*std::move(tokenizer), nullptr);
  const Tokenizer& text = model_.text->tokenizer();
  int num_with_both = 0;
  for (const std::string word : {"the", "  and", "of", "zebra", "a"}) {
    v1::GenerateRequest request = TextRequest("x");
    request.mutable_params()->add_bad_words(word);
    ASSERT_TRUE(Build(request).ok());
    const std::string bare = word.substr(word.find_first_not_of(' '));
    const auto first = *text.Encode(bare, {.add_special = false});
    const auto spaced = *text.Encode(" " + bare, {.add_special = false});
    EXPECT_THAT(built_.rules.bad_words, Contains(first)) << word;
    const bool both = spaced.size() == first.size() && spaced[0] != first[0];
    num_with_both += both ? 1 : 0;
    ASSERT_EQ(built_.rules.bad_words.size(), both ? 2u : 1u) << word;
    if (both) {
      EXPECT_THAT(built_.rules.bad_words, Contains(spaced)) << word;
    }
  }
  EXPECT_GT(num_with_both, 0);
}

TEST_F(EngineRequestTest, ABadWordOfNoTokensIsRefused) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->add_bad_words("fine");
  request.mutable_params()->add_bad_words("  ");
  const absl::Status status = Build(request);
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_THAT(std::string(status.message()), HasSubstr("params.bad_words[1]"));
}

TEST_F(EngineRequestTest, StopTokensAreThoseAskedForAndEosEachOnce) {
  v1::GenerateRequest request = TextRequest("x");
  for (const uint32_t id : {7u, 256u, 7u}) request.mutable_params()->add_stop_token_ids(id);
  ASSERT_TRUE(Build(request).ok());
  EXPECT_THAT(built_.stop_token_ids, ElementsAre(7, 256));
}

TEST_F(EngineRequestTest, ALongTextThatIsTruncatedIsNotRefused) {
  v1::GenerateRequest request = TextRequest(std::string(50'000, 'x') + "end");
  EXPECT_EQ(ReasonOf(Build(request)), "CONTEXT_LENGTH_EXCEEDED");
  request.mutable_params()->set_truncate_prompt_tokens(3);
  ASSERT_TRUE(Build(request).ok());
  EXPECT_THAT(built_.prompt_token_ids, ElementsAre('e', 'n', 'd'));
  request.mutable_params()->set_truncate_prompt_tokens(2'000'000'000);
  EXPECT_EQ(ReasonOf(Build(request)), "CONTEXT_LENGTH_EXCEEDED");
}

TEST_F(EngineRequestTest, MoreLogprobsThanTokensAreAllOfThem) {
  model_.info.vocab_size = 5;
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(4);
  request.mutable_params()->set_logprobs(20);
  ASSERT_TRUE(Build(request).ok());
  EXPECT_EQ(built_.num_logprobs, 5);
  EXPECT_EQ(built_.num_prompt_logprobs, -1);
}

TEST_F(EngineRequestTest, MinTokensBeyondTheServersDefaultLengthIsRefused) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_params()->set_min_tokens(11);
  const ServerLimits limits{.max_output_tokens = 10};
  const absl::Status status = BuildEngineRequest(request, model_, limits, params_, built_);
  EXPECT_THAT(std::string(status.message()), HasSubstr("set max_tokens"));
  request.mutable_params()->set_max_tokens(12);
  EXPECT_TRUE(BuildEngineRequest(request, model_, limits, params_, built_).ok());
}

}  // namespace
}  // namespace quire
