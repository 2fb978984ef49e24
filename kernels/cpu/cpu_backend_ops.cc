// The ops of CpuBackend: each is one or more phases of its thread pool.

#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/logprobs.h"

namespace quire {
namespace {

// A chunk should take some 10 us, at several elements per ns for the cheapest row operation.
constexpr int64_t kCostPerChunk = 32 * 1024;

}  // namespace

void CpuBackend::ForRows(int num_rows, int64_t cost,
                         absl::FunctionRef<void(int begin, int end, int worker)> fn) {
  const int rows_per_chunk = static_cast<int>(std::max<int64_t>(1, kCostPerChunk / cost));
  const int num_chunks = (num_rows + rows_per_chunk - 1) / rows_per_chunk;
  pool_.Run(num_chunks, [&](int chunk, int worker) {
    const int begin = chunk * rows_per_chunk;
    fn(begin, std::min(num_rows, begin + rows_per_chunk), worker);
  });
}

void CpuBackend::Multiply(GemmFn GemmKernels::*kernel, const PackedMatrix& matrix,
                          const Operand& operand, GemmArgs args) {
  args.a = operand.bf16;
  args.lda = operand.stride;
  args.quantized = operand.quantized;
  args.k = matrix.cols;
  for (const PackedSegment& segment : matrix.segments) {
    GemmArgs part = args;
    part.w = segment.panels;
    part.n = segment.rows;
    if (part.bias != nullptr) part.bias += segment.first_row;
    if (part.out != nullptr) part.out += segment.first_row;
    const GemmFn multiply = GemmKernelsFor(isa_.isa, mode_, segment.format).*kernel;
    const GemmChunks chunks =
        ChunkGemm(operand.num_rows, NumPanels(segment.rows), matrix.is_gate_up ? 2 : 1, matrix.cols,
                  RowsPerChunk(mode_, segment.format), pool_.num_threads());
    pool_.Run(chunks.num_chunks, [&](int chunk, int) {
      const GemmChunks::Range rows = chunks.RowsOf(chunk);
      const GemmChunks::Range units = chunks.UnitsOf(chunk);
      multiply(part, rows.begin, rows.end, units.begin, units.end);
    });
  }
}

const float* CpuBackend::OptionalVector(VectorId id, int64_t size) const {
  if (id.value < 0) return nullptr;
  const absl::Span<const float> vector = weights_.Vector(id);
  QUIRE_CHECK(static_cast<int64_t>(vector.size()) == size,
              "a vector has the size of what it is added to or multiplies");
  return vector.data();
}

const float* CpuBackend::NormOf(VectorId id) const {
  const absl::Span<const float> vector = weights_.Vector(id);
  QUIRE_CHECK(vector.size() == static_cast<size_t>(shape_->hidden_size),
              "a norm has hidden_size weights");
  return vector.data();
}

absl::Span<const int32_t> CpuBackend::SlotsOf(int layer) const {
  const int64_t num_tokens = step_.shape.num_tokens;
  return step_.slots.subspan(kv_.spec().group_of_layer[layer] * num_tokens, num_tokens);
}

void CpuBackend::CopyBlocks() {
  const int64_t block_bytes = kv_.spec().block_bytes;
  pool_.Run(static_cast<int>(step_.copies.size()), [&](int i, int) {
    const BlockCopy& copy = step_.copies[i];
    std::memcpy(kv_.Block(copy.target), kv_.Block(copy.source), block_bytes);
  });
}

int32_t CpuBackend::TokenOf(int row) const {
  const int32_t id = step_.token_ids[row];
  return id >= 0 ? id : last_tokens_[-1 - id];
}

void CpuBackend::Embed(MatrixId embedding) {
  const PackedMatrix& matrix = weights_.Matrix(embedding);
  const int hidden_size = shape_->hidden_size;
  QUIRE_CHECK(matrix.cols == hidden_size && matrix.rows == shape_->vocab_size && !matrix.is_gate_up,
              "the embedding is [vocab_size, hidden_size]");
  ForRows(step_.shape.num_tokens, hidden_size * 4, [&](int begin, int end, int) {
    for (int row = begin; row < end; ++row) {
      WeightStore::UnpackRow(matrix, TokenOf(row),
                             memory_.residual + static_cast<int64_t>(row) * hidden_size);
    }
  });
}

void CpuBackend::NormQkvRopeAppend(const QkvArgs& args) {
  const PackedMatrix& matrix = weights_.Matrix(args.qkv);
  QUIRE_CHECK(matrix.rows == qkv_size_ && matrix.cols == shape_->hidden_size && !matrix.is_gate_up,
              "qkv is [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]");
  const RopeTable* rope = nullptr;
  if (args.rope.value >= 0) {
    QUIRE_CHECK(args.rope.value < static_cast<int32_t>(ropes_.size()), "the rope was made");
    rope = ropes_[args.rope.value].get();
    QUIRE_CHECK(
        rope->half_dim() * 2 == shape_->head_dim && rope->max_positions() >= limits_.max_model_len,
        "a rope covers head_dim and max_model_len");
  }
  const int num_tokens = step_.shape.num_tokens;
  Multiply(&GemmKernels::store, matrix, Normed(args.norm, matrix),
           {.bias = OptionalVector(args.bias, qkv_size_), .out = memory_.qkv, .ldo = qkv_size_});

  const absl::Span<const int32_t> slots = SlotsOf(args.layer);
  ForRows(num_tokens, qkv_size_ * 4, [&](int begin, int end, int worker) {
    // Rows of one block stay in one chunk: the first may clear what the others write.
    begin = NextBlockStart(slots, begin);
    end = NextBlockStart(slots, end);
    for (int row = begin; row < end; ++row) RotateAndAppend(row, args, rope, worker);
  });
}

int CpuBackend::NextBlockStart(absl::Span<const int32_t> slots, int row) const {
  const int block_size = kv_.spec().block_size;
  const int num_rows = static_cast<int>(slots.size());
  while (row > 0 && row < num_rows && slots[row] >= 0 &&
         slots[row] / block_size == slots[row - 1] / block_size) {
    ++row;
  }
  return row;
}

void CpuBackend::RotateAndAppend(int row, const QkvArgs& args, const RopeTable* rope, int worker) {
  const int layer = args.layer;
  const int head_dim = shape_->head_dim;
  const int position = step_.positions[row];
  const auto rotate = [&](float* x, const float* norm, uint16_t* out) {
    if (norm != nullptr) ops_.rms_norm_head(x, norm, head_dim, shape_->norm_eps, x);
    if (rope == nullptr) {
      ops_.round_row(x, head_dim, padded_head_dim_, out);
    } else {
      ops_.rotate_head(x, rope->Cos(position), rope->Sin(position), head_dim, padded_head_dim_,
                       out);
    }
  };
  const float* const q_norm = OptionalVector(args.q_norm, head_dim);
  const float* const k_norm = OptionalVector(args.k_norm, head_dim);
  float* x = memory_.qkv + static_cast<int64_t>(row) * qkv_size_;
  uint16_t* q = memory_.q + static_cast<int64_t>(row) * shape_->num_heads * padded_head_dim_;
  for (int head = 0; head < shape_->num_heads; ++head) {
    rotate(x, q_norm, q);
    x += head_dim;
    q += padded_head_dim_;
  }
  const int32_t slot = SlotsOf(layer)[row];
  if (slot < 0) return;
  const int kv_size = shape_->num_kv_heads * head_dim;
  uint16_t* const key = memory_.kv_rows + static_cast<int64_t>(worker) * 2 * padded_head_dim_;
  uint16_t* const value = key + padded_head_dim_;
  for (int head = 0; head < shape_->num_kv_heads; ++head) {
    rotate(x, k_norm, key);
    ops_.round_row(x + kv_size, head_dim, padded_head_dim_, value);
    kv_.Append(layer, head, slot, key, value);
    x += head_dim;
  }
}

void CpuBackend::Attend(int layer) {
  attention_[kv_.spec().group_of_layer[layer]]->Run({
      .q = memory_.q,
      .kv = kv_.data(),
      .layer_in_group = kv_.spec().index_in_group[layer],
      .out = memory_.attended,
      .out_stride = memory_.attended_stride,
  });
}

void CpuBackend::OutProjAdd(MatrixId out, VectorId bias) {
  const PackedMatrix& matrix = weights_.Matrix(out);
  const int hidden_size = shape_->hidden_size;
  QUIRE_CHECK(matrix.rows == hidden_size && !matrix.is_gate_up &&
                  matrix.cols == shape_->num_heads * shape_->head_dim,
              "out is [hidden_size, num_heads * head_dim]");
  Multiply(
      &GemmKernels::add, matrix, Attended(matrix),
      {.bias = OptionalVector(bias, hidden_size), .out = memory_.residual, .ldo = hidden_size});
}

void CpuBackend::NormMlpAdd(const MlpArgs& args) {
  const PackedMatrix& gate_up = weights_.Matrix(args.gate_up);
  const PackedMatrix& down = weights_.Matrix(args.down);
  const int hidden_size = shape_->hidden_size;
  const int mlp_size = shape_->intermediate_size;
  QUIRE_CHECK(gate_up.is_gate_up && gate_up.rows == mlp_size && gate_up.cols == hidden_size,
              "gate and up are [intermediate_size, hidden_size]");
  QUIRE_CHECK(!down.is_gate_up && down.rows == hidden_size && down.cols == mlp_size,
              "down is [hidden_size, intermediate_size]");
  GemmArgs to_mlp = {.bias = OptionalVector(args.gate_bias, mlp_size),
                     .up_bias = OptionalVector(args.up_bias, mlp_size)};
  if (down.reads_int8) {
    to_mlp.out = memory_.wide_mlp;
    to_mlp.ldo = mlp_size;
  } else {
    to_mlp.out_bf16 = memory_.mlp;
    to_mlp.ldo = memory_.mlp_stride;
  }
  Multiply(&GemmKernels::silu_mul, gate_up, Normed(args.norm, gate_up), to_mlp);
  Multiply(&GemmKernels::add, down, Mlp(down),
           {.bias = OptionalVector(args.down_bias, hidden_size),
            .out = memory_.residual,
            .ldo = hidden_size});
}

void CpuBackend::FindFiniteRows(const float* data, int num_rows, int row_size) {
  ForRows(num_rows, row_size, [&](int begin, int end, int) {
    for (int row = begin; row < end; ++row) {
      row_finite_[row] = ops_.all_finite(data + static_cast<int64_t>(row) * row_size, row_size);
    }
  });
}

void CpuBackend::CheckResidual() {
  FindFiniteRows(memory_.residual, step_.shape.num_tokens, shape_->hidden_size);
  for (int seq = 0; seq < step_.shape.num_seqs; ++seq) {
    uint8_t finite = 1;
    for (int row = step_.query_starts[seq]; row < step_.query_starts[seq + 1]; ++row) {
      finite &= row_finite_[row];
    }
    seq_finite_[seq] = finite;
  }
}

void CpuBackend::CheckLogits() {
  FindFiniteRows(memory_.logits, step_.shape.num_logit_rows, shape_->vocab_size);
  int seq = 0;
  for (int i = 0; i < step_.shape.num_logit_rows; ++i) {
    while (step_.logit_rows[i] >= step_.query_starts[seq + 1]) ++seq;
    seq_finite_[seq] &= row_finite_[i];
  }
}

void CpuBackend::LogitsOfRows(VectorId norm, MatrixId head) {
  const PackedMatrix& matrix = weights_.Matrix(head);
  const int hidden_size = shape_->hidden_size;
  QUIRE_CHECK(matrix.rows == shape_->vocab_size && matrix.cols == hidden_size && !matrix.is_gate_up,
              "the head is [vocab_size, hidden_size]");
  CheckResidual();
  Multiply(&GemmKernels::store, matrix, Normed(norm, matrix, step_.logit_rows),
           {.out = memory_.logits, .ldo = shape_->vocab_size});
  CheckLogits();
}

const float* CpuBackend::LogitsOf(int32_t logit_row) const {
  return memory_.logits + static_cast<int64_t>(logit_row) * shape_->vocab_size;
}

void CpuBackend::Sample() {
  pool_.Run(step_.shape.num_samples, [&](int i, int worker) {
    const SampleRow& row = step_.samples[i];
    sampled_[i] = samplers_[worker].Draw(LogitsOf(row.logit_row), row);
  });
  for (int i = 0; i < step_.shape.num_samples; ++i) {
    const int32_t slot = step_.samples[i].seq_slot;
    // Where no token could be drawn, the sequence ends and its last token is of no use.
    if (slot >= 0 && sampled_[i] != kNoToken) last_tokens_[slot] = sampled_[i];
  }
}

void CpuBackend::Logprobs() {
  pool_.Run(step_.shape.num_logprobs, [&](int i, int) {
    const LogprobRow& row = step_.logprob_rows[i];
    const int32_t token_id = row.token_id >= 0 ? row.token_id : sampled_[-1 - row.token_id];
    logprobs_[i] =
        LogprobsOf(ops_, LogitsOf(row.logit_row), shape_->vocab_size, token_id, row.num_top);
  });
}

}  // namespace quire
