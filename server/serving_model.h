#ifndef QUIRE_SERVER_SERVING_MODEL_H_
#define QUIRE_SERVER_SERVING_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "quire/v1/generation.pb.h"
#include "server/model_text.h"

namespace quire {

// All that serves one model. Constant while calls may use it.
struct ServingModel {
  std::string name;
  std::vector<std::string> aliases;
  ModelInfo info;
  int32_t max_queued_requests = 0;  // of the engine
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ModelText> text;  // null: no tokenizer, token ids only
  // What parameters are when a request does not set them; no seed and no max_tokens.
  v1::GenerationParams default_params;
};

}  // namespace quire

#endif  // QUIRE_SERVER_SERVING_MODEL_H_
