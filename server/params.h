#ifndef QUIRE_SERVER_PARAMS_H_
#define QUIRE_SERVER_PARAMS_H_

#include <cstdint>

#include "absl/status/status.h"

#include "quire/v1/generation.pb.h"
#include "server/server_config.h"
#include "server/serving_model.h"

namespace quire {

// What is in effect where a request says nothing. A field is set or not set, whatever its value.

// generation_config.json > the API's defaults. What is drawn or depends on the prompt (seed,
// max_tokens), and what is off by not being set (logprobs, prompt_logprobs,
// truncate_prompt_tokens), is not set.
v1::GenerationParams DefaultParams(const ModelInfo& info);

// Request > defaults. A seed is drawn; `max_time_ms` is within the server's limit; max_tokens is
// set only where the request sets it.
v1::GenerationParams EffectiveParams(const v1::GenerationParams& asked, const ServingModel& model,
                                     const ServerLimits& limits);

// Checks the length of the prompt, and sets max_tokens where it is not set. INVALID_ARGUMENT
// CONTEXT_LENGTH_EXCEEDED or REQUEST_EXCEEDS_KV_CAPACITY, with the numbers, or INVALID_FIELD where
// min_tokens exceeds what the server gives without max_tokens.
absl::Status ResolveMaxTokens(int64_t prompt_tokens, const ModelInfo& info,
                              const ServerLimits& limits, v1::GenerationParams& params);

}  // namespace quire

#endif  // QUIRE_SERVER_PARAMS_H_
