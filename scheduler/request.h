#ifndef QUIRE_SCHEDULER_REQUEST_H_
#define QUIRE_SCHEDULER_REQUEST_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace quire {

// Identifies a sequence for the life of the process; never reused.
using SequenceId = uint64_t;

// Microseconds on a clock that never runs back. The scheduler is told the time, it reads no clock.
using TimeUs = int64_t;
inline constexpr TimeUs kNever = std::numeric_limits<TimeUs>::max();

// How the next token is drawn; names and meaning as in the API (proto/quire/v1/generation.proto).
struct SamplingParams {
  float temperature = 1;      // 0: greedy
  float top_n_sigma = 0;      // 0: off
  float min_p = 0;            // 0: off
  int32_t top_k = 0;          // 0: off
  float typical_p = 1;        // 1: off
  float top_p = 1;            // 1: off
  float xtc_probability = 0;  // 0: off
  float xtc_threshold = 0;
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  uint64_t seed = 0;
};

struct LogitBias {
  int32_t token_id = 0;
  float bias = 0;
};

// Which tokens may be drawn, and which are favoured, whatever the model says.
struct TokenRules {
  std::vector<LogitBias> logit_bias;            // each token once
  std::vector<int32_t> allowed_token_ids;       // each token once; empty: all
  std::vector<std::vector<int32_t>> bad_words;  // none of these follows within a completion
  int32_t min_tokens = 0;                       // until then no stop token is drawn
};

// Which logits the listener wants to see. Prompt logits need every prompt row computed, so such a
// request uses no cached prefix; it may still publish its own.
enum class LogitsWanted : uint8_t { kNone, kGenerated, kPromptAndGenerated };

// What a client asked: checked, complete, immutable.
struct Request {
  std::vector<int32_t> prompt_token_ids;  // not empty, all in the vocabulary
  // Sequences that continue the prompt, each with its own random numbers: (seed, choice index).
  int32_t num_choices = 1;
  SamplingParams sampling;
  TokenRules rules;
  // Generated tokens at most; 0: none, the request is over when the prompt is computed (`eval`).
  int32_t max_tokens = 0;
  std::vector<int32_t> stop_token_ids;  // EOS included, unless ignore_eos was asked
  int32_t priority = 0;                 // -100..100, higher first
  TimeUs deadline = kNever;             // then: EndReason::kDeadline
  TimeUs time_limit = kNever;           // then: EndReason::kTimeLimit, with what there is
  TimeUs queue_deadline = kNever;       // if still waiting for its first step then: kQueueTimeout
  LogitsWanted logits = LogitsWanted::kNone;
  // Log-probabilities of generated and of prompt tokens: -1 none, else how many of the likeliest
  // tokens beside the one in place. Prompt log-probabilities need every prompt row, as above.
  int32_t num_logprobs = -1;
  int32_t num_prompt_logprobs = -1;
  // Prefixes are shared only among requests of equal salt (tenant and whatever else divides them).
  std::string cache_salt;

  // The logits, or the log-probabilities, of the prompt's rows go to the listener.
  bool WantsPromptRows() const {
    return logits == LogitsWanted::kPromptAndGenerated || num_prompt_logprobs >= 0;
  }
};

// Why a sequence ended. Every sequence ends once, for one of these reasons.
enum class EndReason : uint8_t {
  kStop,            // a stop token, or the server found a stop string
  kLength,          // max_tokens
  kAborted,         // Abort RPC
  kCancelled,       // the client went away
  kTimeLimit,       // max_time_ms
  kDeadline,        // the RPC's deadline
  kQueueTimeout,    // max_queue_ms
  kSlowConsumer,    // the client did not read
  kDraining,        // the server shuts down
  kNumericalFault,  // a value that is not finite
  kNoTokenAllowed,  // the request's own rules ban every token
  kEngineFailed,    // the step failed
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_REQUEST_H_
