#ifndef QUIRE_SERVER_VALIDATION_H_
#define QUIRE_SERVER_VALIDATION_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/message.h>

#include "quire/v1/generation.pb.h"
#include "quire/v1/model.pb.h"
#include "quire/v1/tokenizer.pb.h"
#include "server/server_config.h"
#include "server/serving_model.h"
#include "server/tenant.h"

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
// Of a checked request: PERMISSION_DENIED where it asks for a higher priority than its tenant may;
// one that asks for none gets as much of the default as there is. `tenant` may be null.
absl::Status ApplyRights(const Tenant* tenant, v1::GenerateRequest* request);
// Of Abort, and of what is asked of the server itself: each field by its row.
absl::Status CheckWithoutModel(const google::protobuf::Message& request,
                               const ServerLimits& limits);
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
