// Random valid requests on a tiny model: every token is what the definition of sampling draws from
// the logits that the model gave, under rules that this test applies by itself, naively.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "kernels/cpu/reference/sampling.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/testing/event.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

constexpr int kNumRequests = 10000;
constexpr int kAtOnce = 24;
constexpr uint64_t kFirstSeed = 4100;

// Keeps what every choice of a request is told.
class ChoicesRecorder : public TokenListener {
 public:
  struct Choice {
    std::vector<int32_t> tokens;
    std::vector<std::vector<float>> logits;
    std::vector<RowLogprobs> logprobs;
    EndedSequence end;
  };

  explicit ChoicesRecorder(int num_choices) : choices(num_choices), num_left_(num_choices) {}

  void OnAccepted(int, int) override {}
  void OnRefused(const absl::Status& status) override {
    refused = status;
    done_.Notify();
  }
  void OnToken(const NewToken& token, const TokenScores& scores) override {
    Choice& choice = choices[token.choice];
    choice.tokens.push_back(token.token_id);
    choice.logits.emplace_back(scores.logits.begin(), scores.logits.end());
    if (scores.logprobs != nullptr) choice.logprobs.push_back(*scores.logprobs);
  }
  void OnPromptLogprobs(int position, const RowLogprobs& logprobs) override {
    prompt_positions.push_back(position);
    prompt_logprobs.push_back(logprobs);
  }
  void OnEnd(const EndedSequence& end) override {
    choices[end.choice].end = end;
    if (--num_left_ == 0) done_.Notify();
  }
  [[nodiscard]] bool Wait() { return done_.Wait(); }

  std::vector<Choice> choices;
  std::vector<int> prompt_positions;
  std::vector<RowLogprobs> prompt_logprobs;
  absl::Status refused;

 private:
  int num_left_;
  Event done_;
};

// A random valid request, a function of the seed.
std::shared_ptr<Request> RandomRequest(uint64_t seed, int vocab_size) {
  std::mt19937_64 random(seed);
  const auto one_in = [&](int n) { return random() % n == 0; };
  const auto between = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  const auto token = [&] { return static_cast<int32_t>(random() % vocab_size); };
  auto request = std::make_shared<Request>();
  // Few different prompts: some requests find what others have left in the cache.
  std::mt19937_64 prompt_random(random() % 50);
  request->prompt_token_ids.resize(1 + prompt_random() % 40);
  for (int32_t& id : request->prompt_token_ids) {
    id = static_cast<int32_t>(prompt_random() % vocab_size);
  }
  request->max_tokens = 1 + static_cast<int32_t>(random() % 8);
  request->num_choices = one_in(3) ? 2 + static_cast<int32_t>(random() % 3) : 1;
  SamplingParams& sampling = request->sampling;
  sampling.temperature = one_in(4) ? 0 : between(0.05f, 2);
  if (one_in(4)) sampling.top_n_sigma = between(0.1f, 4);
  if (one_in(4)) sampling.min_p = between(0, 1);
  if (one_in(3)) sampling.top_k = 1 + static_cast<int32_t>(random() % 60);
  if (one_in(4)) sampling.typical_p = between(0.1f, 0.99f);
  if (one_in(3)) sampling.top_p = between(0.05f, 0.99f);
  if (one_in(4)) {
    sampling.xtc_probability = between(0, 1);
    sampling.xtc_threshold = between(0.01f, 0.5f);
  }
  if (one_in(3)) sampling.repetition_penalty = between(0.5f, 2);
  if (one_in(3)) sampling.frequency_penalty = between(-2, 2);
  if (one_in(3)) sampling.presence_penalty = between(-2, 2);
  sampling.seed = random();
  TokenRules& rules = request->rules;
  if (one_in(4)) {
    for (int32_t id = token() % 7; id < vocab_size; id += 1 + token() % 60) {
      rules.logit_bias.push_back({id, between(-100, 100)});
    }
  }
  if (one_in(5)) {
    const int32_t stride = 1 + token() % 80;
    for (int32_t id = token() % stride; id < vocab_size; id += stride) {
      rules.allowed_token_ids.push_back(id);
    }
  }
  while (one_in(2) && rules.bad_words.size() < 200) {
    // Short words of few different tokens, so that they are met.
    std::vector<int32_t>& word = rules.bad_words.emplace_back();
    do {
      word.push_back(token());
    } while (one_in(2));
  }
  if (one_in(50)) {
    // One that leaves itself no second token.
    rules.allowed_token_ids = {token()};
    rules.bad_words = {{rules.allowed_token_ids[0], rules.allowed_token_ids[0]}};
  }
  if (one_in(4)) {
    for (int i = 0; i < 100; ++i) request->stop_token_ids.push_back(token());
    rules.min_tokens = static_cast<int32_t>(random() % (request->max_tokens + 1));
  }
  request->logits = LogitsWanted::kGenerated;
  if (one_in(3)) request->num_logprobs = static_cast<int32_t>(random() % 6);
  if (one_in(6)) request->num_prompt_logprobs = static_cast<int32_t>(random() % 3);
  return request;
}

bool EndsWith(const std::vector<int32_t>& tokens, std::vector<int32_t>::const_iterator begin,
              std::vector<int32_t>::const_iterator end) {
  const auto length = static_cast<size_t>(end - begin);
  return tokens.size() >= length && std::equal(begin, end, tokens.end() - length);
}

// Rules and penalties as the API describes them, on a copy of the logits.
std::vector<float> Edited(const Request& request, const std::vector<int32_t>& generated,
                          std::vector<float> logits) {
  const TokenRules& rules = request.rules;
  for (const LogitBias& bias : rules.logit_bias) logits[bias.token_id] += bias.bias;
  std::vector<bool> banned(logits.size(), !rules.allowed_token_ids.empty());
  for (const int32_t id : rules.allowed_token_ids) banned[id] = false;
  if (static_cast<int32_t>(generated.size()) < rules.min_tokens) {
    for (const int32_t id : request.stop_token_ids) banned[id] = true;
  }
  for (const std::vector<int32_t>& word : rules.bad_words) {
    if (EndsWith(generated, word.begin(), word.end() - 1)) banned[word.back()] = true;
  }
  const SamplingParams& sampling = request.sampling;
  std::map<int32_t, int> times_generated;
  std::map<int32_t, bool> seen;
  for (const int32_t id : request.prompt_token_ids) seen[id] = true;
  for (const int32_t id : generated) {
    seen[id] = true;
    ++times_generated[id];
  }
  for (const auto& [id, is_seen] : seen) {
    float& x = logits[id];
    const float r = sampling.repetition_penalty;
    x = x > 0 ? x / r : x * r;
  }
  for (const auto& [id, times] : times_generated) {
    logits[id] -= sampling.frequency_penalty * static_cast<float>(times);
    logits[id] -= sampling.presence_penalty;
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    if (banned[id]) logits[id] = -INFINITY;
  }
  return logits;
}

// The plain definition: what choice `choice` draws after `generated`. kNoToken: all are banned.
int32_t Drawn(const Request& request, uint32_t choice, const std::vector<int32_t>& generated,
              const std::vector<float>& raw) {
  const std::vector<float> logits = Edited(request, generated, raw);
  const bool none_left =
      std::all_of(logits.begin(), logits.end(), [](float x) { return x == -INFINITY; });
  if (none_left) return kNoToken;
  const SamplingParams& sampling = request.sampling;
  const auto position = static_cast<int32_t>(request.prompt_token_ids.size() + generated.size());
  return reference::SampleToken(logits, SampleRow{.temperature = sampling.temperature,
                                                  .top_n_sigma = sampling.top_n_sigma,
                                                  .min_p = sampling.min_p,
                                                  .top_k = sampling.top_k,
                                                  .typical_p = sampling.typical_p,
                                                  .top_p = sampling.top_p,
                                                  .xtc_probability = sampling.xtc_probability,
                                                  .xtc_threshold = sampling.xtc_threshold,
                                                  .seed = sampling.seed,
                                                  .choice = choice,
                                                  .position = position});
}

// Log-probability, rank and the likeliest tokens in long double, by sorting.
void ExpectLogprobs(const std::vector<float>& logits, int32_t token_id, int32_t num_top,
                    const RowLogprobs& got) {
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  long double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<long double>(x) - logits[ids[0]]);
  const long double log_sum = logits[ids[0]] + std::log(sum);
  EXPECT_EQ(got.token.token_id, token_id);
  EXPECT_NEAR(got.token.logprob, static_cast<double>(logits[token_id] - log_sum), 1e-5);
  EXPECT_EQ(got.rank, 1 + std::find(ids.begin(), ids.end(), token_id) - ids.begin());
  ASSERT_EQ(got.num_top, num_top);
  for (int32_t i = 0; i < num_top; ++i) {
    EXPECT_EQ(got.top[i].token_id, ids[i]);
    EXPECT_NEAR(got.top[i].logprob, static_cast<double>(logits[ids[i]] - log_sum), 1e-5);
  }
}

void ExpectEnd(const Request& request, const ChoicesRecorder::Choice& choice) {
  const std::vector<int32_t>& tokens = choice.tokens;
  const std::vector<int32_t>& stops = request.stop_token_ids;
  const bool stopped =
      !tokens.empty() && std::find(stops.begin(), stops.end(), tokens.back()) != stops.end();
  if (choice.end.reason == EndReason::kNoTokenAllowed) return;  // the caller looks at its logits
  EXPECT_EQ(choice.end.reason, stopped ? EndReason::kStop : EndReason::kLength);
  if (stopped) {
    EXPECT_GT(static_cast<int32_t>(tokens.size()), request.rules.min_tokens);
  } else {
    EXPECT_EQ(static_cast<int32_t>(tokens.size()), request.max_tokens);
  }
  EXPECT_EQ(choice.end.completion_tokens, static_cast<int32_t>(tokens.size()));
}

class RandomRequestsTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineConfig config;
    config.model_path = OwnGoldenPath("models/llama_mha");
    config.block_size = 16;
    config.kv_cache_bytes = 32 << 20;
    config.max_model_len = 128;
    auto engine = Engine::Load(config, [](absl::string_view, double) {});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::shared_ptr<ChoicesRecorder> Submit(std::shared_ptr<const Request> request) {
    auto recorder = std::make_shared<ChoicesRecorder>(request->num_choices);
    const auto id = engine_->Submit(std::move(request), recorder);
    EXPECT_TRUE(id.ok()) << id.status();
    return recorder;
  }

  // The logits of a draw that found no token are not told: a request without rules says them.
  std::vector<float> LogitsAfter(const Request& request, const std::vector<int32_t>& generated) {
    auto plain = std::make_shared<Request>();
    plain->prompt_token_ids = request.prompt_token_ids;
    plain->prompt_token_ids.insert(plain->prompt_token_ids.end(), generated.begin(),
                                   generated.end());
    plain->sampling.temperature = 0;
    plain->max_tokens = 1;
    plain->logits = LogitsWanted::kGenerated;
    const auto recorder = Submit(plain);
    EXPECT_TRUE(recorder->Wait());
    return recorder->choices[0].logits[0];
  }

  void ExpectAsDefined(const Request& request, const ChoicesRecorder& recorder) {
    const ScopedFlushDenormals flush;
    for (uint32_t i = 0; i < recorder.choices.size(); ++i) {
      const ChoicesRecorder::Choice& choice = recorder.choices[i];
      std::vector<int32_t> generated;
      for (size_t t = 0; t < choice.tokens.size(); ++t) {
        ASSERT_EQ(choice.tokens[t], Drawn(request, i, generated, choice.logits[t]))
            << "token " << t << " of choice " << i;
        generated.push_back(choice.tokens[t]);
        if (request.num_logprobs < 0) continue;
        ExpectLogprobs(choice.logits[t], choice.tokens[t], request.num_logprobs,
                       choice.logprobs[t]);
      }
      if (choice.end.reason == EndReason::kNoTokenAllowed) {
        ++num_without_tokens_;
        EXPECT_EQ(Drawn(request, i, generated, LogitsAfter(request, generated)), kNoToken);
      }
      ExpectEnd(request, choice);
      num_tokens_ += static_cast<int>(choice.tokens.size());
    }
    const auto num_prompt = static_cast<int>(request.prompt_token_ids.size());
    const int num_scored = request.num_prompt_logprobs < 0 ? 0 : num_prompt - 1;
    ASSERT_EQ(recorder.prompt_positions.size(), static_cast<size_t>(num_scored));
    for (int i = 0; i < num_scored; ++i) {
      EXPECT_EQ(recorder.prompt_positions[i], i + 1);
      EXPECT_EQ(recorder.prompt_logprobs[i].token.token_id, request.prompt_token_ids[i + 1]);
    }
  }

  std::unique_ptr<Engine> engine_;
  int num_tokens_ = 0;
  int num_without_tokens_ = 0;
};

TEST_F(RandomRequestsTest, TokensOf10000RequestsAreThoseOfThePlainDefinition) {
  const int vocab_size = engine_->info().vocab_size;
  for (int first = 0; first < kNumRequests && !HasFailure(); first += kAtOnce) {
    std::vector<std::shared_ptr<Request>> requests;
    std::vector<std::shared_ptr<ChoicesRecorder>> recorders;
    for (int i = first; i < std::min(first + kAtOnce, kNumRequests); ++i) {
      requests.push_back(RandomRequest(kFirstSeed + i, vocab_size));
      recorders.push_back(Submit(requests.back()));
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("seed ", kFirstSeed + first + i));
      ASSERT_TRUE(recorders[i]->Wait());
      ASSERT_TRUE(recorders[i]->refused.ok()) << recorders[i]->refused;
      ExpectAsDefined(*requests[i], *recorders[i]);
    }
  }
  const SchedulerStats stats = engine_->Stats();
  std::printf("%d tokens, %d choices without one to draw, %lld tokens of prompts from the cache\n",
              num_tokens_, num_without_tokens_, static_cast<long long>(stats.prefix_hit_tokens));
  EXPECT_GT(num_tokens_, 3 * kNumRequests);
  EXPECT_GT(num_without_tokens_, 0);
  EXPECT_GT(stats.prefix_hit_tokens, 0);
}

TEST_F(RandomRequestsTest, TheFirstChoiceOfFourIsWhatOneChoiceGives) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const auto four = RandomRequest(seed, engine_->info().vocab_size);
    four->num_choices = 4;
    const auto one = std::make_shared<Request>(*four);
    one->num_choices = 1;
    const auto of_four = Submit(four);
    ASSERT_TRUE(of_four->Wait());
    const auto of_one = Submit(one);
    ASSERT_TRUE(of_one->Wait());
    EXPECT_EQ(of_four->choices[0].tokens, of_one->choices[0].tokens) << "seed " << seed;
    EXPECT_EQ(of_four->choices[0].logits, of_one->choices[0].logits) << "seed " << seed;
  }
}

// A prompt's log-probabilities are computed, not remembered: what the cache holds changes nothing.
TEST_F(RandomRequestsTest, LogprobsAreTheSameOnAPrefixHit) {
  const auto request = std::make_shared<Request>();
  for (int i = 0; i < 64; ++i) request->prompt_token_ids.push_back((37 * i + 5) % 500);
  request->sampling.temperature = 0;
  request->max_tokens = 4;
  request->num_logprobs = 5;
  const auto cold = Submit(request);
  ASSERT_TRUE(cold->Wait());
  const auto hit = Submit(request);
  ASSERT_TRUE(hit->Wait());
  EXPECT_EQ(hit->choices[0].end.cached_tokens, 64);
  const auto with_prompt = std::make_shared<Request>(*request);
  with_prompt->num_prompt_logprobs = 2;
  const auto computed = Submit(with_prompt);
  ASSERT_TRUE(computed->Wait());
  EXPECT_EQ(computed->choices[0].end.cached_tokens, 0);
  EXPECT_EQ(computed->prompt_logprobs.size(), 63u);
  for (const auto& other : {hit, computed}) {
    EXPECT_EQ(other->choices[0].tokens, cold->choices[0].tokens);
    for (size_t t = 0; t < cold->choices[0].logprobs.size(); ++t) {
      const RowLogprobs& want = cold->choices[0].logprobs[t];
      const RowLogprobs& got = other->choices[0].logprobs[t];
      EXPECT_EQ(got.token.logprob, want.token.logprob) << "bit for bit";
      EXPECT_EQ(got.top[4].logprob, want.top[4].logprob);
    }
  }
}

}  // namespace
}  // namespace quire
