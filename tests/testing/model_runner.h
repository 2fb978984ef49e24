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

namespace quire {

// Drives a model on a backend without an engine: one sequence, no queue, no scheduler. Its blocks
// are handed out in descending order, so that a table read as if it were the identity shows.
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
    auto model = Transformer::Load(**files, *runner->backend_, max_model_len);
    if (!model.ok()) return model.status();
    runner->model_ = *std::move(model);
    const ModelShape& shape = runner->model_->shape();
    absl::Status status = runner->backend_->Reserve(shape, {.max_num_tokens = kMaxStepTokens,
                                                            .max_num_seqs = 1,
                                                            .max_logit_rows = kMaxStepTokens,
                                                            .max_samples = kMaxStepTokens,
                                                            .max_model_len = max_model_len});
    if (status.ok()) status = runner->backend_->AllocateKv(runner->KvSpecOf(shape));
    if (!status.ok()) return status;
    runner->backend_->TouchKv(0, runner->num_blocks_);
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
    std::vector<int32_t> positions, slots, rows, table(num_blocks_, -1);
    for (int i = 0; i < count; ++i) {
      const int position = num_tokens_ + i;
      positions.push_back(position);
      slots.push_back(BlockOf(position) * kBlockSize + position % kBlockSize);
      rows.push_back(i);
    }
    num_tokens_ += count;
    for (int i = 0; i * kBlockSize < num_tokens_; ++i) table[i] = BlockOf(i * kBlockSize);
    const int32_t starts[] = {0, count};
    const SampleRow sample = {.logit_row = count - 1, .position = num_tokens_};  // greedy
    const HostStep step = {
        .shape = {.num_tokens = count, .num_seqs = 1, .num_logit_rows = count, .num_samples = 1},
        .token_ids = tokens,
        .positions = positions,
        .slots = slots,
        .query_starts = starts,
        .block_tables = table,
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

  int BlockOf(int position) const { return num_blocks_ - 1 - position / kBlockSize; }

  KvSpec KvSpecOf(const ModelShape& shape) const {
    KvSpec spec;
    spec.block_size = kBlockSize;
    spec.block_bytes = int64_t{2} * 2 * shape.num_layers * shape.num_kv_heads * kBlockSize *
                       ((shape.head_dim + 31) / 32 * 32);
    spec.num_blocks = num_blocks_;
    spec.groups = {{.num_layers = shape.num_layers, .window = 0}};
    for (int i = 0; i < shape.num_layers; ++i) {
      spec.group_of_layer.push_back(0);
      spec.index_in_group.push_back(i);
    }
    return spec;
  }

  const std::unique_ptr<Backend> backend_;
  const int num_blocks_;
  std::unique_ptr<Transformer> model_;
  int num_tokens_ = 0;
  int32_t drawn_ = -1;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_MODEL_RUNNER_H_
