#include <utility>

#include "server/model_text.h"
#include "server/server.h"
#include "server/server_core.h"
#include "spdlog/spdlog.h"

namespace quire {

// In a file of its own: the rest of the server does not need to link a real engine.
absl::Status Server::LoadModel(const LoadProgress& progress) {
  const EngineConfig& config = core_->config().engine;
  absl::StatusOr<std::unique_ptr<ModelText>> text = ModelText::Open(config.model_path);
  if (absl::IsNotFound(text.status())) {
    spdlog::warn("{}: serving token ids only; text and chat requests will be refused",
                 std::string(text.status().message()));
    text = std::unique_ptr<ModelText>();
  }
  if (!text.ok()) return text.status();
  if (*text != nullptr && !absl::IsNotFound((*text)->chat_template_error())) {
    spdlog::warn("{}; chat requests will be refused",
                 std::string((*text)->chat_template_error().message()));
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(config, progress);
  if (!engine.ok()) return engine.status();
  Serve(*std::move(engine), *std::move(text));
  return absl::OkStatus();
}

}  // namespace quire
