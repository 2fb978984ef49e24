#include "server/cli/bench/engine_target.h"

#include <string>
#include <utility>

#include "server/errors.h"

namespace quire::cli::bench {
namespace {

std::string ErrorOf(const absl::Status& status) { return status.ok() ? "" : ReasonOf(status); }

class TokenCounter : public TokenListener {
 public:
  explicit TokenCounter(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}

  void OnAccepted(int, int) override {}
  void OnRefused(const absl::Status& status) override { listener_->OnEnd(ReasonOf(status)); }
  void OnToken(const NewToken&, const TokenScores&) override { listener_->OnTokens(1); }
  void OnEnd(const EndedSequence& end) override { listener_->OnEnd(ErrorOf(StatusOfEnd(end))); }

 private:
  const std::shared_ptr<Listener> listener_;
};

TargetInfo Describe(const ModelInfo& model) {
  return {.kind = "engine",
          .model = model.path,
          .backend = model.backend,
          .vocab_size = model.vocab_size,
          .numerics = model.numerics_mode,
          .weight_bytes = model.weight_bytes,
          .num_layer_weights = model.num_layer_weights,
          .num_head_weights = model.num_head_weights};
}

}  // namespace

EngineTarget::EngineTarget(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)), info_(Describe(engine_->info())) {}

void EngineTarget::Start(const BenchRequest& request, std::shared_ptr<Listener> listener) {
  auto asked = std::make_shared<Request>();
  asked->prompt_token_ids = request.prompt_ids;
  asked->sampling.temperature = 0;
  asked->max_tokens = request.new_tokens;
  const absl::StatusOr<SequenceId> id =
      engine_->Submit(std::move(asked), std::make_shared<TokenCounter>(listener));
  if (id.ok()) {
    started_.push_back(*id);
  } else {
    listener->OnEnd(ReasonOf(id.status()));
  }
}

void EngineTarget::CancelAll() {
  for (const SequenceId id : started_) engine_->End(id, EndReason::kCancelled);
  started_.clear();
}

}  // namespace quire::cli::bench
