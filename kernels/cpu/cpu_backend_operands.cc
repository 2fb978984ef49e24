// What CpuBackend's products read: rows in bf16, in int8, or both, by the formats of the matrix.

#include "kernels/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace quire {

void CpuBackend::QuantizeInto(const QuantizedRows& operand, int row, const float* x, int cols) {
  ops_.quantize_row(x, cols, operand.q + row * operand.q_stride,
                    operand.groups + row * operand.group_stride);
}

CpuBackend::Operand CpuBackend::Normed(VectorId norm, const PackedMatrix& matrix,
                                       std::optional<absl::Span<const int32_t>> rows) {
  const float* const weight = NormOf(norm);
  const int cols = shape_->hidden_size;
  const float eps = shape_->norm_eps;
  const Operand operand = {
      .bf16 = memory_.normed,
      .stride = memory_.hidden_stride,
      .quantized = memory_.ForDepth(cols),
      .num_rows = rows.has_value() ? static_cast<int>(rows->size()) : step_.shape.num_tokens};
  ForRows(operand.num_rows, cols, [&](int begin, int end, int worker) {
    float* const wide = memory_.wide_rows + worker * memory_.wide_stride;
    for (int i = begin; i < end; ++i) {
      const float* const x = memory_.residual + int64_t{rows.has_value() ? (*rows)[i] : i} * cols;
      if (matrix.reads_bf16) {
        ops_.rms_norm(x, weight, cols, eps, memory_.normed + i * memory_.hidden_stride);
      }
      if (matrix.reads_int8) {
        ops_.rms_norm_head(x, weight, cols, eps, wide);
        QuantizeInto(operand.quantized, i, wide, cols);
      }
    }
  });
  return operand;
}

CpuBackend::Operand CpuBackend::Rows(
    const PackedMatrix& matrix, const uint16_t* bf16, int64_t stride,
    absl::FunctionRef<const float*(int row, float* scratch)> wide_row) {
  const int cols = matrix.cols;
  const Operand operand = {.bf16 = bf16,
                           .stride = stride,
                           .quantized = memory_.ForDepth(cols),
                           .num_rows = step_.shape.num_tokens};
  if (!matrix.reads_int8) return operand;
  ForRows(operand.num_rows, cols, [&](int begin, int end, int worker) {
    float* const scratch = memory_.wide_rows + worker * memory_.wide_stride;
    for (int row = begin; row < end; ++row) {
      QuantizeInto(operand.quantized, row, wide_row(row, scratch), cols);
    }
  });
  return operand;
}

CpuBackend::Operand CpuBackend::Attended(const PackedMatrix& matrix) {
  return Rows(matrix, memory_.attended, memory_.attended_stride, [&](int row, float* scratch) {
    ops_.widen_row(memory_.attended + row * memory_.attended_stride, matrix.cols, scratch);
    return scratch;
  });
}

CpuBackend::Operand CpuBackend::Mlp(const PackedMatrix& matrix) {
  QUIRE_CHECK(!(matrix.reads_int8 && matrix.reads_bf16), "down is one tensor of the file");
  return Rows(matrix, memory_.mlp, memory_.mlp_stride,
              [&](int row, float*) { return memory_.wide_mlp + int64_t{row} * matrix.cols; });
}

}  // namespace quire
