#ifndef QUIRE_KERNELS_CPU_CPU_BACKEND_H_
#define QUIRE_KERNELS_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_memory.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cpu/step_memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight_store.h"
#include "kernels/numerics_mode.h"

namespace quire {

struct CpuBackendOptions {
  int num_threads = 0;        // 0: DefaultNumThreads()
  std::optional<CpuIsa> isa;  // none: DetectCpuIsa()
  NumericsMode numerics = NumericsMode::kBf16x2;
};

// The Backend of this machine's processor, in one numerics mode (kernels/numerics.md). Rows of a
// step are cut in chunks that the threads of a pool claim; no result depends on how.
//
// A step runs inside Launch; it must be collected before the next Launch. No op allocates, faults
// pages of its own, or makes a system call but to wake workers that sleep.
//
// Owned by the engine; its thread calls everything but TouchKv.
class CpuBackend final : public Backend {
 public:
  // REQUIRES: the machine runs choice.isa; num_threads >= 1.
  CpuBackend(const IsaChoice& choice, NumericsMode mode, int num_threads);

  std::string Describe() const override;
  std::string NumericsName() const override { return NameOf(mode_); }

  absl::Status Supports(const ModelShape& shape) const override;
  absl::StatusOr<MatrixId> PackMatrix(absl::Span<const MatrixPart> parts) override;
  absl::StatusOr<MatrixId> PackGateUp(const MatrixPart& gate, const MatrixPart& up) override;
  absl::StatusOr<VectorId> PackVector(absl::Span<const MatrixPart> parts) override;
  absl::StatusOr<RopeId> MakeRope(absl::Span<const double> inv_freq, double scale,
                                  int max_positions) override;
  absl::Status Reserve(const ModelShape& shape, const StepLimits& limits) override;
  absl::Status AllocateKv(const KvSpec& spec) override;
  void TouchKv(int begin, int end) override { kv_.Touch(begin, end); }
  int64_t WeightBytes() const override { return weights_.bytes(); }

  StepTicket Launch(const HostStep& step, const Forward& forward) override;
  absl::StatusOr<StepResult> Collect(StepTicket ticket) override;

  void CopyBlocks() override;
  void Embed(MatrixId embedding) override;
  void NormQkvRopeAppend(const QkvArgs& args) override;
  void Attend(int layer) override;
  void OutProjAdd(MatrixId out, VectorId bias) override;
  void NormMlpAdd(const MlpArgs& args) override;
  void LogitsOfRows(VectorId norm, MatrixId head) override;
  void Sample() override;
  void Logprobs() override;

  // For tests that look at, or poison, what blocks hold.
  std::byte* KvBlock(int block) { return kv_.Block(block); }

 private:
  // Both are known only after Reserve and AllocateKv, in either order.
  void MakeAttention();
  // Ends the process when the step breaks the rules of HostStep or the limits.
  void CheckStep(const HostStep& step) const;
  void CheckSamples(const HostStep& step) const;
  // Moves the rows of logits that the host wants to the front.
  void GatherTaps();

  // Runs fn(begin, end, worker) over [0, num_rows), cut so that a chunk is worth a dispatch; `cost`
  // of a row is about its elements.
  void ForRows(int num_rows, int64_t cost,
               absl::FunctionRef<void(int begin, int end, int worker)> fn);
  // Rows as the formats of a matrix read them; what none reads is null.
  struct Operand {
    const uint16_t* bf16 = nullptr;
    int64_t stride = 0;
    QuantizedRows quantized;
    int num_rows = 0;
  };
  // RMSNorm of the residual, of all rows of the step or of those listed (perhaps none).
  Operand Normed(VectorId norm, const PackedMatrix& matrix,
                 std::optional<absl::Span<const int32_t>> rows = std::nullopt);
  // All rows of the step, which lie in `bf16`; where the matrix has quantised weights, those of
  // wide_row, in fp32, become its operand. scratch: [wide_stride].
  Operand Rows(const PackedMatrix& matrix, const uint16_t* bf16, int64_t stride,
               absl::FunctionRef<const float*(int row, float* scratch)> wide_row);
  // What attention, and the product of gate and up, left for `matrix`.
  Operand Attended(const PackedMatrix& matrix);
  Operand Mlp(const PackedMatrix& matrix);
  // Row `row` of `operand` in int8. x: fp32 [cols].
  void QuantizeInto(const QuantizedRows& operand, int row, const float* x, int cols);
  // operand * matrix^T, by that kernel of each segment's format into args' output.
  void Multiply(GemmFn GemmKernels::*kernel, const PackedMatrix& matrix, const Operand& operand,
                GemmArgs args);
  const float* LogitsOf(int32_t logit_row) const;
  // Token `row` of the step, with what was drawn for its slot filled in.
  int32_t TokenOf(int row) const;
  void RotateAndAppend(int row, const QkvArgs& args, const RopeTable* rope, int worker);
  // From `row` on, the first row that does not continue the block of the row before it.
  int NextBlockStart(absl::Span<const int32_t> slots, int row) const;
  // row_finite_ of rows [num_rows, row_size].
  void FindFiniteRows(const float* data, int num_rows, int row_size);
  // seq_finite_: of the residual of all rows, then also of the rows of logits.
  void CheckResidual();
  void CheckLogits();

  // [size], or null for "none".
  const float* OptionalVector(VectorId id, int64_t size) const;
  const float* NormOf(VectorId id) const;  // [hidden_size]
  absl::Span<const int32_t> SlotsOf(int layer) const;

  // Constant after construction.
  const IsaChoice isa_;
  const NumericsMode mode_;
  const CpuOps& ops_;
  ThreadPool pool_;

  // Constant after loading.
  WeightStore weights_;
  std::vector<std::unique_ptr<RopeTable>> ropes_;
  std::optional<ModelShape> shape_;
  StepLimits limits_;
  int padded_head_dim_ = 0;
  int qkv_size_ = 0;
  KvMemory kv_;
  std::vector<std::unique_ptr<PagedAttention>> attention_;  // [num_groups]

  // Of a step, and between steps.
  StepMemory memory_;
  std::vector<TokenSampler> samplers_;  // [num_threads]
  std::vector<int32_t> last_tokens_;    // [max_num_seqs], by seq_slot
  std::vector<int32_t> sampled_;        // [num_samples]
  std::vector<RowLogprobs> logprobs_;   // [num_logprobs]
  std::vector<uint8_t> row_finite_;     // [num_tokens], then [num_logit_rows]
  std::vector<uint8_t> seq_finite_;     // [num_seqs]
  HostStep step_;
  uint64_t num_launched_ = 0;
  uint64_t num_collected_ = 0;
};

// Fails where the environment asks for what this machine lacks.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuBackendOptions& options);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_CPU_BACKEND_H_
