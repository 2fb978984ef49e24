#ifndef QUIRE_KERNELS_BACKEND_H_
#define QUIRE_KERNELS_BACKEND_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "kernels/sample_row.h"
#include "kernels/tensor.h"

namespace quire {

// Handles to memory that a backend owns, in an arrangement that only it knows. -1: none.
struct MatrixId {
  int32_t value = -1;
};
struct VectorId {
  int32_t value = -1;
};
struct RopeId {
  int32_t value = -1;
};

// The dimensions of a decoder that its ops share. All fixed at load.
struct ModelShape {
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;      // even
  int intermediate_size = 0;
  int vocab_size = 0;
  float norm_eps = 0;
};

// Layers with the same attention span share blocks.
struct KvGroupSpec {
  int num_layers = 0;
  int window = 0;  // tokens a query sees, itself included; 0: all
};

// How KV memory is cut. A block is one contiguous span of `block_bytes`: all layers of its group,
// [num_layers, K|V, num_kv_heads, block_size, padded_head_dim] elements in an inner arrangement
// that the backend chooses; padded_head_dim is head_dim rounded up to a multiple of 32.
struct KvSpec {
  int block_size = 0;  // token slots; divides 256
  int64_t block_bytes = 0;
  int num_blocks = 0;
  std::vector<KvGroupSpec> groups;
  // [num_layers]: where each layer's KV is.
  std::vector<int> group_of_layer;
  std::vector<int> index_in_group;
};

// The most that one step will ever hold. The backend sizes its scratch by it, once.
struct StepLimits {
  int max_num_tokens = 0;
  int max_num_seqs = 0;
  int max_logit_rows = 0;
  int max_samples = 0;  // several may be of one logit row
  int max_model_len = 0;
};

// What a forward pass may depend on besides the model: capacities, not values. A backend that
// replays captured steps rounds these up to buckets; padded rows have slot -1.
struct StepShape {
  int num_tokens = 0;
  int num_seqs = 0;
  int num_logit_rows = 0;
  int num_samples = 0;
  int num_logprobs = 0;
};

struct BlockCopy {
  int32_t source = 0;
  int32_t target = 0;
};

// The arrays of one step, on the host. Spans stay valid until Collect. A token id below 0 stands
// for the last token drawn for a slot: id = -1 - seq_slot.
struct HostStep {
  StepShape shape;
  absl::Span<const int32_t> token_ids;  // [num_tokens]
  absl::Span<const int32_t> positions;  // [num_tokens]
  // [num_groups, num_tokens]: block_id * block_size + offset, or -1: nothing is written.
  absl::Span<const int32_t> slots;
  absl::Span<const int32_t> query_starts;  // [num_seqs + 1], rows of each sequence, in order
  // [num_groups, num_seqs, max_blocks]: ids of the blocks of each sequence in order of position;
  // -1 where a block is out of the window, or past the end.
  absl::Span<const int32_t> block_tables;
  int max_blocks = 0;
  absl::Span<const int32_t> logit_rows;  // [num_logit_rows], indices of rows, ascending
  // Indices into logit_rows, ascending: rows whose logits the host wants.
  absl::Span<const int32_t> logit_taps;
  absl::Span<const SampleRow> samples;             // [num_samples]
  absl::Span<const LogprobRow> logprob_rows = {};  // [num_logprobs]
  absl::Span<const BlockCopy> copies;              // done before anything else of the step
};

// What a step brought. Spans are the backend's, valid until the next Launch.
struct StepResult {
  absl::Span<const int32_t> sampled;     // [num_samples]; kNoToken where all are banned
  absl::Span<const uint8_t> seq_finite;  // [num_seqs]: 0 where a row held a NaN or an infinity
  absl::Span<const float> logits;        // [logit_taps.size(), vocab_size]
  absl::Span<const RowLogprobs> logprobs = {};  // [num_logprobs]
};

struct StepTicket {
  uint64_t value = 0;
};

// A Backend is one device: its memory, and the ops of a decoder on it. It holds the weights and
// the KV memory behind handles, the fp32 residual stream [num_tokens, hidden_size], the logits
// [num_logit_rows, vocab_size] and the last token drawn for each seq_slot. It knows nothing of
// sequences, queues or files: engine/ does.
//
// Order of use: Pack*/Make* while loading, Reserve and then AllocateKv once, then steps. Everything
// that can be refused is refused before the first step; ops do not fail.
//
// One thread (the engine's) calls it, but for TouchKv. No allocation in a step.
class Backend {
 public:
  using Forward = std::function<void(const StepShape&)>;

  virtual ~Backend() = default;

  // For logs: instruction set or device, threads, numerics mode.
  virtual std::string Describe() const = 0;
  // Name of the numerics mode: equal modes give equal bits on every machine.
  virtual std::string NumericsName() const = 0;

  // ---- loading ----

  // Says whether a model of this shape can run here; every other call assumes that it can.
  virtual absl::Status Supports(const ModelShape& shape) const = 0;
  // The rows of `parts` one after the other, as one [sum of rows, cols] matrix.
  virtual absl::StatusOr<MatrixId> PackMatrix(absl::Span<const MatrixPart> parts) = 0;
  // Gate and up projections [rows, cols] each, side by side for NormMlpAdd.
  virtual absl::StatusOr<MatrixId> PackGateUp(const MatrixPart& gate, const MatrixPart& up) = 0;
  // The `parts` one after the other, in fp32. RowOrder applies as for matrices.
  virtual absl::StatusOr<VectorId> PackVector(absl::Span<const MatrixPart> parts) = 0;
  // Table of cos and sin for positions [0, max_positions): angle = position * inv_freq[i] in
  // double, times `scale` after cos and sin, rounded once. inv_freq: [head_dim / 2].
  virtual absl::StatusOr<RopeId> MakeRope(absl::Span<const double> inv_freq, double scale,
                                          int max_positions) = 0;
  virtual absl::Status Reserve(const ModelShape& shape, const StepLimits& limits) = 0;
  // Address space for all blocks; touched by TouchKv. Fails when it cannot be had.
  virtual absl::Status AllocateKv(const KvSpec& spec) = 0;
  // Makes the memory of blocks [begin, end) resident, so that no step faults. Any thread.
  virtual void TouchKv(int begin, int end) = 0;
  // Bytes of the weights as held.
  virtual int64_t WeightBytes() const = 0;

  // ---- steps ----

  // Starts a step: runs `forward`, which calls the ops below in order. Tickets are collected in
  // the order of launches; a backend with one step in flight wants each before the next Launch.
  virtual StepTicket Launch(const HostStep& step, const Forward& forward) = 0;
  // Waits for a step. An error means that the step's results are lost, the backend lives on.
  virtual absl::StatusOr<StepResult> Collect(StepTicket ticket) = 0;

  // ---- ops, called inside `forward` only ----

  virtual void CopyBlocks() = 0;
  // residual = rows of `embedding` [vocab_size, hidden_size].
  virtual void Embed(MatrixId embedding) = 0;

  struct QkvArgs {
    int layer = 0;
    VectorId norm;    // [hidden_size]
    MatrixId qkv;     // [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]
    VectorId bias;    // [(num_heads + 2 * num_kv_heads) * head_dim], or none
    VectorId q_norm;  // [head_dim], or none: RMSNorm of every head of q, before rope
    VectorId k_norm;  // the same of k
    RopeId rope;      // none: a layer without rope
  };
  // RMSNorm of the residual, q, k and v, norms and rotation of q and k; k and v go to their slots.
  virtual void NormQkvRopeAppend(const QkvArgs& args) = 0;
  // Causal attention of this step's q over the KV of `layer`, through the block tables.
  virtual void Attend(int layer) = 0;
  // residual += attention * out^T. out: [hidden_size, num_heads * head_dim]; bias [hidden_size].
  virtual void OutProjAdd(MatrixId out, VectorId bias) = 0;

  struct MlpArgs {
    VectorId norm;       // [hidden_size]
    MatrixId gate_up;    // from PackGateUp
    VectorId gate_bias;  // [intermediate_size], or none
    VectorId up_bias;    // [intermediate_size], or none
    MatrixId down;       // [hidden_size, intermediate_size]
    VectorId down_bias;  // [hidden_size], or none
  };
  // residual += down(silu(gate(x)) * up(x)), x = RMSNorm of the residual.
  virtual void NormMlpAdd(const MlpArgs& args) = 0;
  // logits = head(RMSNorm(residual rows of logit_rows)). head: [vocab_size, hidden_size].
  // Also checks every row of the residual, and the logits, for values that are not finite.
  virtual void LogitsOfRows(VectorId norm, MatrixId head) = 0;
  virtual void Sample() = 0;
  // Answers logprob_rows. After Sample, whose tokens they may name.
  virtual void Logprobs() = 0;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_BACKEND_H_
