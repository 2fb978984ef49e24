#ifndef QUIRE_SERVER_VALIDATION_H_
#define QUIRE_SERVER_VALIDATION_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "quire/v1/generation.pb.h"
#include "quire/v1/model.pb.h"
#include "quire/v1/tokenizer.pb.h"
#include "server/server_config.h"
#include "server/serving_model.h"

namespace quire {

// The checks of what clients send. Everything is checked here, once, before anything is computed
// or allocated for it: each field by its row in field_rules.h, then what fields mean to each other.
// wire_check.h comes before; what only the tokens show (lengths) and the scheduler's own refusals
// (a full queue) after. Failures are INVALID_ARGUMENT INVALID_FIELD with all fields that are wrong
// and the numbers of the first, unless said otherwise.

// NOT_FOUND MODEL_NOT_FOUND unless `name` is empty, the served name or an alias.
absl::Status CheckModelName(absl::string_view name, const ServingModel& model);

// At most 128 of [A-Za-z0-9._-]. `where` is the field or metadata key it came from.
absl::Status CheckRequestId(absl::string_view id, absl::string_view where);

// All of a request that can be checked before the prompt is tokenised. FAILED_PRECONDITION for
// text, chat, stop strings or bad words where the model has no tokenizer or template.
absl::Status CheckGenerate(const v1::GenerateRequest& request, const ServingModel& model,
                           const ServerLimits& limits);
absl::Status CheckAbort(const v1::AbortRequest& request, const ServerLimits& limits);
// These say FAILED_PRECONDITION likewise.
absl::Status CheckTokenize(const v1::TokenizeRequest& request, const ServingModel& model,
                           const ServerLimits& limits);
absl::Status CheckDetokenize(const v1::DetokenizeRequest& request, const ServingModel& model,
                             const ServerLimits& limits);
absl::Status CheckApplyChatTemplate(const v1::ApplyChatTemplateRequest& request,
                                    const ServingModel& model, const ServerLimits& limits);
absl::Status CheckGetModel(const v1::GetModelRequest& request, const ServingModel& model,
                           const ServerLimits& limits);

}  // namespace quire

#endif  // QUIRE_SERVER_VALIDATION_H_
