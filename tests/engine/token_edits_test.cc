// What the rules of a request do to logits: tests/golden/README.md, "sampling", and closed forms.

#include "engine/token_edits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/cpu/reference/sampling.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/testing/golden_data.h"

namespace quire {
namespace {

using Json = nlohmann::json;

Request RequestOf(const Json& golden) {
  Request request;
  request.prompt_token_ids = golden["prompt"].get<std::vector<int32_t>>();
  request.max_tokens = 100;
  request.sampling.repetition_penalty = golden.value("repetition_penalty", 1.0f);
  request.sampling.frequency_penalty = golden.value("frequency_penalty", 0.0f);
  request.sampling.presence_penalty = golden.value("presence_penalty", 0.0f);
  request.stop_token_ids = golden.value("stop_token_ids", std::vector<int32_t>());
  TokenRules& rules = request.rules;
  for (const Json& bias : golden.value("logit_bias", Json::array())) {
    rules.logit_bias.push_back({bias[0], bias[1]});
  }
  rules.allowed_token_ids = golden.value("allowed_token_ids", std::vector<int32_t>());
  rules.bad_words = golden.value("bad_words", std::vector<std::vector<int32_t>>());
  rules.min_tokens = golden.value("min_tokens", 0);
  return request;
}

// The edits of `request` after `generated`.
TokenEdits EditsAfter(const Request& request, const std::vector<int32_t>& generated,
                      int vocab_size) {
  TokenEdits edits(std::make_shared<const Request>(request), vocab_size);
  for (const int32_t id : generated) {
    edits.Next();  // asked at every step, as the engine does
    edits.OnToken(id);
  }
  return edits;
}

std::vector<float> Edited(const Request& request, const std::vector<int32_t>& generated,
                          const std::vector<float>& logits) {
  TokenEdits edits = EditsAfter(request, generated, static_cast<int>(logits.size()));
  return reference::EditLogits(logits, edits.Next());
}

TEST(TokenEditsGolden, LogitsAreThoseOfTransformersAndLlamaCpp) {
  const ScopedFlushDenormals flush;
  const std::string folder = OwnGoldenPath("sampling/");
  const GoldenArrays arrays(folder + "arrays.safetensors");
  std::map<std::string, int> num_cases;
  for (const Json& golden : ReadJsonLines(folder + "edits.jsonl")) {
    ++num_cases[golden["by"]];
    const std::vector<float> expected = arrays.Get<float>(golden["scores"]);
    const std::vector<float> actual =
        Edited(RequestOf(golden), golden["generated"].get<std::vector<int32_t>>(),
               arrays.Get<float>(golden["logits"]));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t id = 0; id < actual.size(); ++id) {
      // llama.cpp takes both penalties off at once.
      if (std::isinf(expected[id])) {
        ASSERT_EQ(actual[id], expected[id]) << golden["scores"] << " token " << id;
      } else {
        ASSERT_NEAR(actual[id], expected[id], 2e-6f * (1 + std::fabs(expected[id]) * 4))
            << golden["scores"] << " token " << id;
      }
    }
  }
  EXPECT_EQ(num_cases["transformers"], 40);
  EXPECT_EQ(num_cases["llama.cpp"], 12);
}

TEST(TokenEdits, ARequestWithoutRulesNeedsNone) {
  Request request;
  EXPECT_FALSE(TokenEdits::Needed(request));
  request.stop_token_ids = {3};
  request.sampling.top_k = 5;
  EXPECT_FALSE(TokenEdits::Needed(request));
  Request biased = request;
  biased.rules.logit_bias = {{1, 2.0f}};
  EXPECT_TRUE(TokenEdits::Needed(biased));
  Request penal = request;
  penal.sampling.presence_penalty = -0.5f;
  EXPECT_TRUE(TokenEdits::Needed(penal));
  Request longer = request;
  longer.rules.min_tokens = 1;
  EXPECT_TRUE(TokenEdits::Needed(longer));
}

TEST(TokenEdits, FrequencyAndPresenceCountGeneratedTokensRepetitionThePromptToo) {
  Request request;
  request.prompt_token_ids = {1, 1, 2};
  request.max_tokens = 10;
  request.sampling.repetition_penalty = 2;
  request.sampling.frequency_penalty = 0.25f;
  request.sampling.presence_penalty = 0.5f;
  const std::vector<float> logits = {4, 4, -4, 4, -4};
  // 1: prompt and twice generated. 2: prompt alone. 3: once generated. 4: never seen.
  const std::vector<float> expected = {4, 4 / 2.0f - 0.5f - 0.5f, -8, 4 / 2.0f - 0.25f - 0.5f, -4};
  EXPECT_EQ(Edited(request, {1, 3, 1}, logits), expected);
}

TEST(TokenEdits, ABadWordIsBannedOnlyWhereItWouldBeCompleted) {
  Request request;
  request.prompt_token_ids = {5, 6};
  request.max_tokens = 10;
  request.rules.bad_words = {{3}, {5, 6, 7}, {6, 8}, {9, 9}};
  const auto banned_after = [&](const std::vector<int32_t>& generated) {
    TokenEdits edits = EditsAfter(request, generated, 10);
    const absl::Span<const int32_t> banned = edits.Next().banned;
    std::vector<int32_t> ids(banned.begin(), banned.end());
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  EXPECT_EQ(banned_after({}), (std::vector<int32_t>{3})) << "the prompt begins no bad word";
  EXPECT_EQ(banned_after({5}), (std::vector<int32_t>{3}));
  EXPECT_EQ(banned_after({6}), (std::vector<int32_t>{3, 8}));
  EXPECT_EQ(banned_after({5, 6}), (std::vector<int32_t>{3, 7, 8}));
  EXPECT_EQ(banned_after({5, 6, 9}), (std::vector<int32_t>{3, 9}));
}

TEST(TokenEdits, StopTokensAreBannedUntilMinTokens) {
  Request request;
  request.prompt_token_ids = {5};
  request.max_tokens = 10;
  request.stop_token_ids = {2, 4};
  request.rules.min_tokens = 2;
  for (int num_generated = 0; num_generated < 4; ++num_generated) {
    TokenEdits edits = EditsAfter(request, std::vector<int32_t>(num_generated, 7), 10);
    const absl::Span<const int32_t> banned = edits.Next().banned;
    const std::vector<int32_t> expected =
        num_generated < 2 ? std::vector<int32_t>{2, 4} : std::vector<int32_t>();
    EXPECT_EQ(std::vector<int32_t>(banned.begin(), banned.end()), expected) << num_generated;
  }
}

TEST(TokenEdits, AllowedTokensAndBiasesHoldAtEveryStep) {
  Request request;
  request.prompt_token_ids = {5};
  request.max_tokens = 10;
  request.rules.allowed_token_ids = {0, 31, 32, 39};
  request.rules.logit_bias = {{31, 1.5f}, {1, 100.0f}};
  for (const std::vector<int32_t>& generated :
       {std::vector<int32_t>{}, std::vector<int32_t>{31, 0}}) {
    const std::vector<float> edited = Edited(request, generated, std::vector<float>(40, 1.0f));
    for (int id = 0; id < 40; ++id) {
      const bool allowed = id == 0 || id == 31 || id == 32 || id == 39;
      EXPECT_EQ(edited[id], !allowed ? -INFINITY : id == 31 ? 2.5f : 1.0f) << id;
    }
  }
}

}  // namespace
}  // namespace quire
