#ifndef QUIRE_KERNELS_CPU_WEIGHT_STORE_H_
#define QUIRE_KERNELS_CPU_WEIGHT_STORE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "kernels/backend.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/numerics_mode.h"

namespace quire {

// Rows of a matrix that lie in panels of one format, and so form one product.
struct PackedSegment {
  PackedFormat format = PackedFormat::kBf16;
  int first_row = 0;  // of the matrix
  int rows = 0;
  const uint8_t* panels = nullptr;
};

// A weight matrix in the panels of packed_format.h. One of gate and up has `rows` rows of each, in
// alternating panels of one segment.
struct PackedMatrix {
  std::vector<PackedSegment> segments;
  int rows = 0;
  int cols = 0;
  bool is_gate_up = false;
  // Which operands its products read.
  bool reads_bf16 = false;
  bool reads_int8 = false;
};

// Weights as the CPU backend computes with them: matrices in panels, vectors in fp32. It turns rows
// of a file, whatever their format, into these; it does not read files.
//
// Quantised rows keep their numbers, and others are quantised where their part asks for it; in mode
// bf16x2 all become bf16, as everywhere what is not quantised.
//
// Engine thread only; packing uses the pool. Allocates when packing, never afterwards.
class WeightStore {
 public:
  // Both outlive this.
  WeightStore(const CpuOps& ops, NumericsMode mode, ThreadPool* pool)
      : ops_(ops), mode_(mode), pool_(pool) {}

  // As Backend's methods of these names. Fail when there is no memory.
  absl::StatusOr<MatrixId> PackMatrix(absl::Span<const MatrixPart> parts);
  absl::StatusOr<MatrixId> PackGateUp(const MatrixPart& gate, const MatrixPart& up);
  absl::StatusOr<VectorId> PackVector(absl::Span<const MatrixPart> parts);

  // REQUIRES: an id that this store gave out.
  const PackedMatrix& Matrix(MatrixId id) const;
  absl::Span<const float> Vector(VectorId id) const;

  // Row `row` of a matrix that is not of gate and up, in fp32. out: [cols].
  static void UnpackRow(const PackedMatrix& matrix, int row, float* out);

  int64_t bytes() const { return bytes_; }

 private:
  struct PackedVector {
    const float* data;
    int64_t size;
  };
  // Memory of one worker, for one panel.
  struct Scratch {
    std::vector<uint16_t> bf16;      // [kPanelCols, cols]
    std::vector<float> wide;         // [cols]
    std::vector<uint8_t> quantized;  // [kPanelCols] rows
  };

  PackedFormat FormatOf(const MatrixPart& part) const;
  MatrixId Keep(PackedMatrix matrix);
  // Memory for `num_panels` panels of depth `cols`.
  absl::StatusOr<uint8_t*> TakePanels(PackedFormat format, int64_t num_panels, int cols);
  std::vector<Scratch> MakeScratch(PackedFormat format, int cols) const;
  // Rows [begin, begin + num_rows) of `parts`, counted through all of them, into one panel.
  void PackPanel(PackedFormat format, absl::Span<const MatrixPart> parts, int64_t begin,
                 int num_rows, Scratch& scratch, uint8_t* panel) const;
  // One row of the file as bf16. out: [view.cols].
  void UnpackFileRow(const WeightView& view, int64_t row, uint16_t* out) const;
  UnpackRowFn UnpackFor(DType dtype) const;

  const CpuOps& ops_;
  const NumericsMode mode_;
  ThreadPool* const pool_;

  MappedArena arena_;
  std::vector<PackedMatrix> matrices_;
  std::vector<PackedVector> vectors_;
  int64_t bytes_ = 0;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_STORE_H_
