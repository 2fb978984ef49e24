#include "kernels/cpu/step_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quire {
namespace {

// Adds up what Take was asked for when it has no memory yet, hands it out when it has.
class Carver {
 public:
  explicit Carver(std::byte* begin) : begin_(begin) {}

  template <typename T>
  void Take(int64_t num_elems, T** out) {
    if (begin_ != nullptr) *out = reinterpret_cast<T*>(begin_ + used_);
    used_ += (num_elems * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* const begin_;
  int64_t used_ = 0;
};

int64_t Carve(const ModelShape& shape, const StepLimits& limits, int num_threads, std::byte* begin,
              StepMemory* m) {
  const int64_t tokens = limits.max_num_tokens;
  const int64_t heads = shape.num_heads;
  const int64_t padded_head_dim = PaddedHeadDim(shape.head_dim);
  Carver carver(begin);
  carver.Take(tokens * shape.hidden_size, &m->residual);
  carver.Take(std::max<int64_t>(tokens, limits.max_logit_rows) * m->hidden_stride, &m->normed);
  carver.Take(tokens * (heads + 2 * shape.num_kv_heads) * shape.head_dim, &m->qkv);
  carver.Take(tokens * heads * padded_head_dim, &m->q);
  carver.Take(num_threads * 2 * padded_head_dim, &m->kv_rows);
  carver.Take(tokens * m->attended_stride, &m->attended);
  carver.Take(tokens * m->mlp_stride, &m->mlp);
  const int64_t rows = std::max<int64_t>(tokens, limits.max_logit_rows);
  const int64_t stride = std::max({m->hidden_stride, m->attended_stride, m->mlp_stride});
  carver.Take(rows * stride, &m->quantized.q);
  carver.Take(rows * (stride / kGroupDepth), &m->quantized.groups);
  carver.Take(num_threads * m->wide_stride, &m->wide_rows);
  carver.Take(tokens * shape.intermediate_size, &m->wide_mlp);
  carver.Take(int64_t{limits.max_logit_rows} * shape.vocab_size, &m->logits);
  return carver.used();
}

}  // namespace

absl::StatusOr<StepMemory> StepMemory::Make(const ModelShape& shape, const StepLimits& limits,
                                            int num_threads) {
  StepMemory m;
  m.hidden_stride = ActivationStride(shape.hidden_size);
  m.attended_stride = ActivationStride(shape.num_heads * shape.head_dim);
  m.mlp_stride = ActivationStride(shape.intermediate_size);
  m.wide_stride = std::max(m.hidden_stride, m.attended_stride);
  const int64_t bytes = Carve(shape, limits, num_threads, nullptr, &m);
  if (absl::Status status = CheckMachineHas(bytes, "activations"); !status.ok()) return status;
  absl::StatusOr<MappedMemory> memory = MappedMemory::Map(bytes, "activations");
  if (!memory.ok()) return memory.status();
  m.memory = *std::move(memory);
  std::memset(m.memory.data(), 0, bytes);
  Carve(shape, limits, num_threads, m.memory.data(), &m);
  return m;
}

QuantizedRows StepMemory::ForDepth(int k) const {
  QuantizedRows rows = quantized;
  rows.q_stride = ActivationStride(k);
  rows.group_stride = rows.q_stride / kGroupDepth;
  return rows;
}

}  // namespace quire
