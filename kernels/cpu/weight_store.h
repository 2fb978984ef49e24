#ifndef QUIRE_KERNELS_CPU_WEIGHT_STORE_H_
#define QUIRE_KERNELS_CPU_WEIGHT_STORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {

// A weight matrix in the panels of gemm.h. One of gate and up has `rows` rows of each.
struct PackedMatrix {
  const uint16_t* panels = nullptr;
  int rows = 0;
  int cols = 0;
  bool is_gate_up = false;
};

// Weights as the CPU backend computes with them: matrices as bf16 panels, vectors in fp32. It
// turns rows of a file, whatever their format, into these; it does not read files.
//
// Engine thread only; packing uses the pool. Allocates when packing, never afterwards.
class WeightStore {
 public:
  // Both outlive this.
  WeightStore(const CpuOps& ops, ThreadPool* pool) : ops_(ops), pool_(pool) {}

  // As Backend's methods of these names. Fail when there is no memory.
  absl::StatusOr<MatrixId> PackMatrix(absl::Span<const MatrixPart> parts);
  absl::StatusOr<MatrixId> PackGateUp(const WeightView& gate, const WeightView& up);
  absl::StatusOr<VectorId> PackVector(absl::Span<const MatrixPart> parts);

  // REQUIRES: an id that this store gave out.
  const PackedMatrix& Matrix(MatrixId id) const;
  absl::Span<const float> Vector(VectorId id) const;

  int64_t bytes() const { return bytes_; }

 private:
  struct PackedVector {
    const float* data;
    int64_t size;
  };

  // Memory for panels of `num_rows` rows of depth `cols`.
  absl::StatusOr<uint16_t*> TakePanels(int num_rows, int cols);
  // Rows [begin, begin + num_rows) of `parts`, counted through all of them, into one panel.
  // rows: scratch [kPanelCols, cols].
  void PackRows(absl::Span<const MatrixPart> parts, int64_t begin, int num_rows, uint16_t* rows,
                uint16_t* panel) const;
  // One row of the file as bf16. out: [view.cols].
  void UnpackRow(const WeightView& view, int64_t row, uint16_t* out) const;
  UnpackRowFn UnpackFor(DType dtype) const;

  const CpuOps& ops_;
  ThreadPool* const pool_;

  MappedArena arena_;
  std::vector<PackedMatrix> matrices_;
  std::vector<PackedVector> vectors_;
  int64_t bytes_ = 0;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_STORE_H_
