#ifndef QUIRE_SERVER_VALIDATION_H_
#define QUIRE_SERVER_VALIDATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/repeated_field.h>

#include "quire/v1/generation.pb.h"
#include "quire/v1/tokenizer.pb.h"
#include "server/server_config.h"
#include "server/serving_model.h"

namespace quire {

// The checks of what clients send. Everything is checked here, once, before anything is computed
// or allocated for it; wire_check.h comes before, the scheduler's own refusals (a full queue)
// after. Failures are INVALID_ARGUMENT INVALID_FIELD with all fields that are wrong, unless said
// otherwise.

// NOT_FOUND MODEL_NOT_FOUND unless `name` is empty, the served name or an alias.
absl::Status CheckModelName(absl::string_view name, const ServingModel& model);

// At most 128 of [A-Za-z0-9._-]. `where` is the field or metadata key it came from.
absl::Status CheckRequestId(absl::string_view id, absl::string_view where);

// All of a request that can be checked before the prompt is tokenised: model, id, prompt, and
// parameters. FAILED_PRECONDITION for text or chat where the model has no tokenizer or template.
absl::Status CheckGenerate(const v1::GenerateRequest& request, const ServingModel& model,
                           const ServerLimits& limits);

absl::Status CheckChat(const v1::Chat& chat, const ServingModel& model, const ServerLimits& limits);
absl::Status CheckTokenIds(const google::protobuf::RepeatedField<uint32_t>& ids,
                           absl::string_view field, const ServingModel& model);
absl::Status CheckTokenize(const v1::TokenizeRequest& request, const ServingModel& model,
                           const ServerLimits& limits);
// FAILED_PRECONDITION where there is no tokenizer.
absl::Status CheckHasText(const ServingModel& model);

// Request > generation_config.json > the API's defaults; every field is set but max_tokens where
// the request does not set it. A seed is drawn. `max_time_ms` is within the server's limit.
v1::GenerationParams EffectiveParams(const v1::GenerationParams& asked, const ServingModel& model,
                                     const ServerLimits& limits);
// What EffectiveParams starts from.
v1::GenerationParams DefaultParams(const ModelInfo& info);

// Checks the length of the prompt, and sets max_tokens where it is not set. INVALID_ARGUMENT
// CONTEXT_LENGTH_EXCEEDED or REQUEST_EXCEEDS_KV_CAPACITY, with the numbers.
absl::Status ResolveMaxTokens(int64_t prompt_tokens, const ModelInfo& info,
                              const ServerLimits& limits, v1::GenerationParams& params);

}  // namespace quire

#endif  // QUIRE_SERVER_VALIDATION_H_
