#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "kernels/check.h"
#include "kernels/cpu/cpu_count.h"

namespace quire {

CpuBackend::CpuBackend(const IsaChoice& choice, NumericsMode mode, int num_threads)
    : isa_(choice),
      mode_(mode),
      ops_(CpuOpsFor(choice.isa)),
      pool_(num_threads),
      weights_(ops_, mode, &pool_) {}

std::string CpuBackend::Describe() const {
  std::string text = absl::StrCat("cpu, ", NameOf(isa_.isa), ", ", pool_.num_threads(),
                                  pool_.num_threads() == 1 ? " thread" : " threads", ", numerics ",
                                  NumericsName());
  if (!isa_.note.empty()) absl::StrAppend(&text, " (", isa_.note, ")");
  return text;
}

absl::Status CpuBackend::Supports(const ModelShape& shape) const {
  const int sizes[] = {shape.num_layers,   shape.hidden_size, shape.num_heads,
                       shape.num_kv_heads, shape.head_dim,    shape.intermediate_size,
                       shape.vocab_size};
  for (int size : sizes) {
    if (size <= 0) return absl::InvalidArgumentError("a dimension of the model is not positive");
  }
  if (shape.num_heads % shape.num_kv_heads != 0) {
    return absl::UnimplementedError(absl::StrCat("num_kv_heads ", shape.num_kv_heads,
                                                 " does not divide num_heads ", shape.num_heads));
  }
  if (shape.head_dim % 2 != 0) {
    return absl::UnimplementedError(absl::StrCat("head_dim ", shape.head_dim, " is odd"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MatrixId> CpuBackend::PackMatrix(absl::Span<const MatrixPart> parts) {
  return weights_.PackMatrix(parts);
}

absl::StatusOr<MatrixId> CpuBackend::PackGateUp(const MatrixPart& gate, const MatrixPart& up) {
  return weights_.PackGateUp(gate, up);
}

absl::StatusOr<VectorId> CpuBackend::PackVector(absl::Span<const MatrixPart> parts) {
  return weights_.PackVector(parts);
}

absl::StatusOr<RopeId> CpuBackend::MakeRope(absl::Span<const double> inv_freq, double scale,
                                            int max_positions) {
  QUIRE_CHECK(max_positions > 0, "there are positions");
  const int64_t bytes =
      int64_t{max_positions} * 2 * static_cast<int64_t>(inv_freq.size() * sizeof(float));
  if (absl::Status status = CheckMachineHas(bytes, "the table of rotations"); !status.ok()) {
    return status;
  }
  ropes_.push_back(std::make_unique<RopeTable>(inv_freq, scale, max_positions, &pool_));
  return RopeId{static_cast<int32_t>(ropes_.size()) - 1};
}

absl::Status CpuBackend::Reserve(const ModelShape& shape, const StepLimits& limits) {
  QUIRE_CHECK(Supports(shape).ok(), "Supports was asked");
  QUIRE_CHECK(!shape_.has_value(), "Reserve is called once");
  absl::StatusOr<StepMemory> memory = StepMemory::Make(shape, limits, pool_.num_threads());
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  shape_ = shape;
  limits_ = limits;
  padded_head_dim_ = PaddedHeadDim(shape.head_dim);
  qkv_size_ = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
  for (int worker = 0; worker < pool_.num_threads(); ++worker) {
    samplers_.emplace_back(ops_, shape.vocab_size);
  }
  last_tokens_.resize(limits.max_num_seqs);
  sampled_.resize(limits.max_samples);
  logprobs_.resize(limits.max_logit_rows + limits.max_samples);
  row_finite_.resize(std::max(limits.max_num_tokens, limits.max_logit_rows));
  seq_finite_.resize(limits.max_num_seqs);
  MakeAttention();
  return absl::OkStatus();
}

absl::Status CpuBackend::AllocateKv(const KvSpec& spec) {
  QUIRE_CHECK(shape_.has_value(), "Reserve comes before AllocateKv");
  QUIRE_CHECK(spec.group_of_layer.size() == static_cast<size_t>(shape_->num_layers) &&
                  spec.index_in_group.size() == spec.group_of_layer.size(),
              "every layer has a group");
  if (absl::Status status = kv_.Allocate(spec, *shape_); !status.ok()) return status;
  MakeAttention();
  return absl::OkStatus();
}

void CpuBackend::MakeAttention() {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape_->head_dim));
  for (const KvGroupSpec& group : kv_.spec().groups) {
    const PagedAttention::Config config = {
        .shape = {shape_->num_heads, shape_->num_kv_heads, shape_->head_dim, scale},
        .block_size = kv_.spec().block_size,
        .block_bytes = kv_.spec().block_bytes,
        .window = group.window,
        .max_num_tokens = limits_.max_num_tokens,
        .max_num_seqs = limits_.max_num_seqs,
    };
    attention_.push_back(
        std::make_unique<PagedAttention>(config, AttentionKernelsFor(isa_.isa, mode_), &pool_));
  }
}

void CpuBackend::CheckStep(const HostStep& step) const {
  const size_t num_tokens = step.shape.num_tokens;
  const size_t num_seqs = step.shape.num_seqs;
  const size_t num_groups = attention_.size();
  QUIRE_CHECK(num_groups > 0, "Reserve and AllocateKv come before steps");
  QUIRE_CHECK(step.shape.num_tokens <= limits_.max_num_tokens &&
                  step.shape.num_seqs <= limits_.max_num_seqs &&
                  step.shape.num_logit_rows <= limits_.max_logit_rows &&
                  step.shape.num_samples <= limits_.max_samples &&
                  step.shape.num_logprobs <= static_cast<int>(logprobs_.size()),
              "a step is within the limits");
  QUIRE_CHECK(step.token_ids.size() == num_tokens && step.positions.size() == num_tokens &&
                  step.slots.size() == num_groups * num_tokens,
              "arrays of tokens have num_tokens elements");
  QUIRE_CHECK(step.query_starts.size() == num_seqs + 1 && step.query_starts[0] == 0 &&
                  step.query_starts[num_seqs] == step.shape.num_tokens &&
                  std::is_sorted(step.query_starts.begin(), step.query_starts.end()) &&
                  step.block_tables.size() == num_groups * num_seqs * step.max_blocks,
              "arrays of sequences have num_seqs elements");
  QUIRE_CHECK(step.logit_rows.size() == static_cast<size_t>(step.shape.num_logit_rows) &&
                  step.samples.size() == static_cast<size_t>(step.shape.num_samples) &&
                  step.logprob_rows.size() == static_cast<size_t>(step.shape.num_logprobs),
              "arrays of logits and samples have their sizes");
  for (size_t i = 0; i < num_tokens; ++i) {
    QUIRE_CHECK(step.token_ids[i] < shape_->vocab_size && step.positions[i] >= 0 &&
                    step.token_ids[i] >= -limits_.max_num_seqs &&
                    step.positions[i] < limits_.max_model_len,
                "tokens and positions are in range");
  }
  const int64_t num_slots = int64_t{kv_.spec().num_blocks} * kv_.spec().block_size;
  for (int32_t slot : step.slots) {
    QUIRE_CHECK(slot >= -1 && slot < num_slots, "slots are in range");
  }
  const int num_blocks = kv_.spec().num_blocks;
  for (int32_t block : step.block_tables) {
    QUIRE_CHECK(block >= -1 && block < num_blocks, "blocks of tables are in range");
  }
  for (const BlockCopy& copy : step.copies) {
    QUIRE_CHECK(copy.source >= 0 && copy.source < num_blocks && copy.target >= 0 &&
                    copy.target < num_blocks,
                "blocks to copy are in range");
  }
  for (size_t i = 0; i < step.logit_rows.size(); ++i) {
    QUIRE_CHECK(step.logit_rows[i] < step.shape.num_tokens &&
                    step.logit_rows[i] > (i == 0 ? -1 : step.logit_rows[i - 1]),
                "logit rows are rows of the step, ascending");
  }
  for (size_t i = 0; i < step.logit_taps.size(); ++i) {
    QUIRE_CHECK(step.logit_taps[i] < step.shape.num_logit_rows &&
                    step.logit_taps[i] > (i == 0 ? -1 : step.logit_taps[i - 1]),
                "taps are logit rows, ascending");
  }
  CheckSamples(step);
}

void CpuBackend::CheckSamples(const HostStep& step) const {
  const auto in_vocabulary = [&](int32_t id) { return id >= 0 && id < shape_->vocab_size; };
  const size_t num_mask_words = (static_cast<size_t>(shape_->vocab_size) + 31) / 32;
  for (const SampleRow& row : step.samples) {
    QUIRE_CHECK(row.logit_row >= 0 && row.logit_row < step.shape.num_logit_rows &&
                    row.seq_slot >= -1 && row.seq_slot < limits_.max_num_seqs,
                "samples are of logit rows, for slots or nobody");
    const LogitEdits& edits = row.edits;
    QUIRE_CHECK(edits.allowed.empty() || edits.allowed.size() == num_mask_words,
                "a mask has a bit for each token");
    bool in_range = true;
    for (const TokenBias& bias : edits.biases) in_range &= in_vocabulary(bias.token_id);
    for (const int32_t id : edits.banned) in_range &= in_vocabulary(id);
    for (const TokenCount& count : edits.counts) in_range &= in_vocabulary(count.token_id);
    QUIRE_CHECK(in_range, "edits are of tokens of the vocabulary");
  }
  for (const LogprobRow& row : step.logprob_rows) {
    QUIRE_CHECK(row.logit_row >= 0 && row.logit_row < step.shape.num_logit_rows &&
                    row.token_id >= -step.shape.num_samples && row.token_id < shape_->vocab_size &&
                    row.num_top >= 0 && row.num_top <= kMaxTopLogprobs &&
                    row.num_top <= shape_->vocab_size,
                "log-probabilities are of logit rows, for tokens or samples");
  }
}

StepTicket CpuBackend::Launch(const HostStep& step, const Forward& forward) {
  QUIRE_CHECK(num_launched_ == num_collected_, "a step is collected before the next");
  CheckStep(step);
  step_ = step;
  const int64_t table_size = int64_t{step.shape.num_seqs} * step.max_blocks;
  for (size_t group = 0; group < attention_.size(); ++group) {
    attention_[group]->Plan({
        .positions = step.positions,
        .query_starts = step.query_starts,
        .block_tables = step.block_tables.subspan(group * table_size, table_size),
        .max_blocks = step.max_blocks,
    });
  }
  std::fill_n(seq_finite_.begin(), step.shape.num_seqs, uint8_t{1});
  forward(step.shape);
  GatherTaps();
  return {++num_launched_};
}

void CpuBackend::GatherTaps() {
  const int64_t vocab_size = shape_->vocab_size;
  for (size_t i = 0; i < step_.logit_taps.size(); ++i) {
    const int64_t row = step_.logit_taps[i];
    if (row == static_cast<int64_t>(i)) continue;
    std::memcpy(memory_.logits + i * vocab_size, memory_.logits + row * vocab_size,
                vocab_size * sizeof(float));
  }
}

absl::StatusOr<StepResult> CpuBackend::Collect(StepTicket ticket) {
  QUIRE_CHECK(ticket.value == num_launched_ && num_collected_ + 1 == num_launched_,
              "steps are collected once, in order");
  ++num_collected_;
  return StepResult{
      .sampled = absl::MakeConstSpan(sampled_.data(), step_.shape.num_samples),
      .seq_finite = absl::MakeConstSpan(seq_finite_.data(), step_.shape.num_seqs),
      .logits = absl::MakeConstSpan(memory_.logits, step_.logit_taps.size() * shape_->vocab_size),
      .logprobs = absl::MakeConstSpan(logprobs_.data(), step_.shape.num_logprobs),
  };
}

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options) {
  IsaChoice choice;
  if (options.isa.has_value()) {
    if (!MachineRuns(*options.isa)) {
      return absl::FailedPreconditionError(
          absl::StrCat("this machine does not have ", NameOf(*options.isa)));
    }
    choice.isa = *options.isa;
  } else {
    absl::StatusOr<IsaChoice> detected = DetectCpuIsa();
    if (!detected.ok()) return detected.status();
    choice = *std::move(detected);
  }
  const int num_threads = options.num_threads > 0 ? options.num_threads : DefaultNumThreads();
  return std::make_unique<CpuBackend>(choice, options.numerics, num_threads);
}

}  // namespace quire
