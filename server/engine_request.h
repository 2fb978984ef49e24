#ifndef QUIRE_SERVER_ENGINE_REQUEST_H_
#define QUIRE_SERVER_ENGINE_REQUEST_H_

#include <memory>

#include "absl/status/status.h"

#include "quire/v1/generation.pb.h"
#include "scheduler/request.h"
#include "server/delta_builder.h"
#include "server/server_config.h"
#include "server/serving_model.h"

namespace quire {

// From a checked request of a client to a request of the engine: tokenises the prompt, settles the
// parameters and fills `params` with them, and all of `request` but its times. What a client got
// wrong and only now shows (lengths, words without tokens, a conversation that the template
// refuses) is the status. For text workers.
absl::Status BuildEngineRequest(const v1::GenerateRequest& asked, const ServingModel& model,
                                const ServerLimits& limits, v1::GenerationParams& params,
                                Request& request);

// max_time_ms and max_queue_ms, on the clock of the engine.
void SetTimes(const v1::GenerationParams& params, TimeUs arrived_at, Request& request);

// How the tokens of that request become text.
std::unique_ptr<const TextRules> MakeTextRules(const v1::GenerationParams& params,
                                               const ServingModel& model, const Request& request);

}  // namespace quire

#endif  // QUIRE_SERVER_ENGINE_REQUEST_H_
