#ifndef QUIRE_SERVER_MODEL_CALLS_H_
#define QUIRE_SERVER_MODEL_CALLS_H_

#include "absl/status/statusor.h"

#include "quire/v1/model.pb.h"
#include "quire/v1/tokenizer.pb.h"
#include "server/server_core.h"

namespace quire {

// What the calls of TokenizerService and ModelService do; no gRPC here. All check their request.
// The first three tokenise or render: for text workers.
absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                              const ServingModel& model,
                                              const ServerLimits& limits);
absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                  const ServingModel& model,
                                                  const ServerLimits& limits);
absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
    const v1::ApplyChatTemplateRequest& request, const ServingModel& model,
    const ServerLimits& limits);

v1::ListModelsResponse ListModels(const ServingModel& model);
absl::StatusOr<v1::GetModelResponse> GetModel(const v1::GetModelRequest& request,
                                              const ServingModel& model, const ServerCore& core);

}  // namespace quire

#endif  // QUIRE_SERVER_MODEL_CALLS_H_
