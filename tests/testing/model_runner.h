#ifndef QUIRE_TESTS_TESTING_MODEL_RUNNER_H_
#define QUIRE_TESTS_TESTING_MODEL_RUNNER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/model_files.h"
#include "engine/transformer.h"
#include "kernels/backend.h"
#include "paged_kv/kv_layout.h"
#include "paged_kv/kv_storage.h"

namespace quire {

// Drives a model on a backend without an engine: one sequence, no queue, no scheduler. Its blocks
// are handed out in descending order, so that a table read as if it were the identity shows; blocks
// that are out of a window are taken out of the table.
class ModelRunner {
 public:
  static constexpr int kBlockSize = 32;
  static constexpr int kMaxStepTokens = 64;

  static absl::StatusOr<std::unique_ptr<ModelRunner>> Load(const std::string& path,
                                                           std::unique_ptr<Backend> backend,
                                                           int max_model_len) {
    std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(backend), max_model_len));
    auto files = ModelFiles::Open(path);
    if (!files.ok()) return files.status();
    auto model =
        Transformer::Load(**files, *runner->backend_, max_model_len, WeightQuantization::kNone);
    if (!model.ok()) return model.status();
    runner->model_ = *std::move(model);
    runner->MakeLayout((*files)->config());
    const ModelShape& shape = runner->model_->shape();
    absl::Status status = runner->backend_->Reserve(shape, {.max_num_tokens = kMaxStepTokens,
                                                            .max_num_seqs = 1,
                                                            .max_logit_rows = kMaxStepTokens,
                                                            .max_samples = kMaxStepTokens,
                                                            .max_model_len = max_model_len});
    if (status.ok())
      status = runner->backend_->AllocateKv(
          MakeKvSpec(runner->layout_, runner->num_groups() * runner->num_blocks_));
    if (!status.ok()) return status;
    runner->backend_->TouchKv(0, runner->num_groups() * runner->num_blocks_);
    return runner;
  }

  int vocab_size() const { return model_->shape().vocab_size; }
  int num_tokens() const { return num_tokens_; }
  // Forgets the sequence.
  void Restart() { num_tokens_ = 0; }

  // Appends at most kMaxStepTokens tokens in one step; id -1 is the token drawn last. Returns the
  // logits after each, [tokens.size(), vocab_size], valid until the next call.
  absl::StatusOr<absl::Span<const float>> Step(absl::Span<const int32_t> tokens) {
    const int count = static_cast<int>(tokens.size());
    std::vector<int32_t> positions, slots, rows, tables;
    const int first = num_tokens_;
    num_tokens_ += count;
    for (int i = 0; i < count; ++i) {
      positions.push_back(first + i);
      rows.push_back(i);
    }
    for (int group = 0; group < num_groups(); ++group) {
      for (const int position : positions) {
        slots.push_back(BlockOf(group, position) * kBlockSize + position % kBlockSize);
      }
      const int window = layout_.groups[group].window;
      const int first_seen = window == 0 ? 0 : std::max(0, first - window + 1);
      for (int i = 0; i < num_blocks_; ++i) {
        const bool is_held = i >= first_seen / kBlockSize && i * kBlockSize < num_tokens_;
        tables.push_back(is_held ? BlockOf(group, i * kBlockSize) : -1);
      }
    }
    const int32_t starts[] = {0, count};
    const SampleRow sample = {.logit_row = count - 1, .position = num_tokens_};  // greedy
    const HostStep step = {
        .shape = {.num_tokens = count, .num_seqs = 1, .num_logit_rows = count, .num_samples = 1},
        .token_ids = tokens,
        .positions = positions,
        .slots = slots,
        .query_starts = starts,
        .block_tables = tables,
        .max_blocks = num_blocks_,
        .logit_rows = rows,
        .logit_taps = rows,
        .samples = absl::MakeConstSpan(&sample, 1),
        .copies = {}};
    const StepTicket ticket = backend_->Launch(
        step, [this](const StepShape& shape) { model_->Forward(*backend_, shape); });
    absl::StatusOr<StepResult> result = backend_->Collect(ticket);
    if (!result.ok()) return result.status();
    if (result->seq_finite[0] == 0) return absl::InternalError("a value is not finite");
    drawn_ = result->sampled[0];
    return result->logits;
  }
  // The token of highest logit after the last step.
  int32_t drawn() const { return drawn_; }

 private:
  ModelRunner(std::unique_ptr<Backend> backend, int max_model_len)
      : backend_(std::move(backend)), num_blocks_((max_model_len + kBlockSize - 1) / kBlockSize) {}

  int num_groups() const { return static_cast<int>(layout_.groups.size()); }
  int BlockOf(int group, int position) const {
    return (num_groups() - group) * num_blocks_ - 1 - position / kBlockSize;
  }
  void MakeLayout(const ModelConfig& config) {
    KvModel model;
    model.num_layers = config.num_layers;
    model.num_kv_heads = config.num_kv_heads;
    model.head_dim = config.head_dim;
    model.layer_windows = config.layer_windows;
    layout_ = MakeKvLayout(model, kBlockSize);
  }

  const std::unique_ptr<Backend> backend_;
  const int num_blocks_;  // of each group
  KvLayout layout_;
  std::unique_ptr<Transformer> model_;
  int num_tokens_ = 0;
  int32_t drawn_ = -1;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_MODEL_RUNNER_H_
