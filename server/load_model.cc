// In a file of its own: the rest of the server does not need to link a real engine.

#include <string>
#include <utility>

#include "spdlog/spdlog.h"

#include "server/access_control.h"
#include "server/model_text.h"
#include "server/server.h"
#include "server/server_core.h"
#include "server/tls_certificates.h"

namespace quire {

namespace {

EngineConfig EngineConfigOf(const ServerConfig& config) {
  EngineConfig engine = config.engine;
  engine.max_choices = config.limits.max_choices;
  return engine;
}

// Null where the model has no tokenizer.
absl::StatusOr<std::unique_ptr<ModelText>> OpenText(const EngineConfig& config) {
  absl::StatusOr<std::unique_ptr<ModelText>> text =
      ModelText::Open(config.model_path, config.gguf_overrides);
  if (absl::IsNotFound(text.status())) return std::unique_ptr<ModelText>();
  return text;
}

}  // namespace

absl::StatusOr<ModelInfo> Server::Check(const ServerConfig& config) {
  if (absl::Status status = CheckListeners(config); !status.ok()) return status;
  if (absl::Status status = AccessControl(config.access_tokens).Load(); !status.ok()) return status;
  if (absl::Status status = TlsCertificates(config.tls).Load(); !status.ok()) return status;
  const EngineConfig engine = EngineConfigOf(config);
  if (absl::Status status = OpenText(engine).status(); !status.ok()) return status;
  return Engine::Check(engine);
}

absl::Status Server::LoadModel(const LoadProgress& progress) {
  const EngineConfig config = EngineConfigOf(core_->config());
  // Text first: it is quick to say what is wrong with it.
  absl::StatusOr<std::unique_ptr<ModelText>> text = OpenText(config);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(config, progress);
  if (!engine.ok()) return engine.status();
  if (*text == nullptr) {
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
