#include <string>
#include <utility>

#include "spdlog/spdlog.h"

#include "server/model_text.h"
#include "server/server.h"
#include "server/server_core.h"

namespace quire {

// In a file of its own: the rest of the server does not need to link a real engine.
absl::Status Server::LoadModel(const LoadProgress& progress) {
  EngineConfig config = core_->config().engine;
  config.max_choices = core_->config().limits.max_choices;
  // Text first: it is quick to say what is wrong with it.
  absl::StatusOr<std::unique_ptr<ModelText>> text =
      ModelText::Open(config.model_path, config.gguf_overrides);
  const bool has_tokenizer = !absl::IsNotFound(text.status());
  if (!has_tokenizer) text = std::unique_ptr<ModelText>();
  if (!text.ok()) return text.status();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(config, progress);
  if (!engine.ok()) return engine.status();
  if (!has_tokenizer) {
    spdlog::warn("{} has no tokenizer: serving token ids only, text and chat will be refused",
                 config.model_path);
  } else if (!absl::IsNotFound((*text)->chat_template_error())) {
    spdlog::warn("{}: the chat template is of no use, chat will be refused: {}", config.model_path,
                 std::string((*text)->chat_template_error().message()));
  }
  Serve(*std::move(engine), *std::move(text));
  return absl::OkStatus();
}

}  // namespace quire
