#include "kernels/cpu/weight_store.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "kernels/cpu/reference/unpack.h"

namespace quire {
namespace {

int64_t RowBytes(const WeightView& view) {
  const DTypeInfo info = InfoOf(view.dtype);
  return view.cols / info.block_elems * info.block_bytes;
}

// The row of the file that becomes row `row` of the packed part.
int64_t FileRow(const MatrixPart& part, int64_t row) {
  if (part.order == RowOrder::kAsIs) return row;
  const int64_t within = row % part.head_dim;
  const int64_t half = part.head_dim / 2;
  const int64_t first_of_head = row - within;
  return first_of_head + (within < half ? 2 * within : 2 * (within - half) + 1);
}

void CheckPart(const MatrixPart& part, int64_t rows, int64_t cols) {
  QUIRE_CHECK(part.view.cols == cols, "parts of a matrix have equal columns");
  QUIRE_CHECK(part.order == RowOrder::kAsIs ||
                  (part.head_dim > 0 && part.head_dim % 2 == 0 && rows % part.head_dim == 0),
              "rotary rows come in whole heads");
}

}  // namespace

absl::StatusOr<uint16_t*> WeightStore::TakePanels(int num_rows, int cols) {
  const int64_t bytes = PackedElems(num_rows, cols) * static_cast<int64_t>(sizeof(uint16_t));
  absl::StatusOr<std::byte*> memory = arena_.Take(bytes, "weights");
  if (!memory.ok()) return memory.status();
  bytes_ += bytes;
  return reinterpret_cast<uint16_t*>(*memory);
}

UnpackRowFn WeightStore::UnpackFor(DType dtype) const {
  switch (dtype) {
    case DType::kF32:
      return ops_.unpack_f32;
    case DType::kF16:
      return ops_.unpack_f16;
    case DType::kBF16:
      return ops_.unpack_bf16;
    case DType::kQ4_0:
      return ops_.unpack_q4_0;
    case DType::kQ4_1:
      return ops_.unpack_q4_1;
    case DType::kQ5_0:
      return ops_.unpack_q5_0;
    case DType::kQ5_1:
      return ops_.unpack_q5_1;
    case DType::kQ8_0:
      return ops_.unpack_q8_0;
    case DType::kQ4_K:
      return ops_.unpack_q4_k;
    case DType::kQ5_K:
      return ops_.unpack_q5_k;
    case DType::kQ6_K:
      return ops_.unpack_q6_k;
    case DType::kF8E4M3:
      break;  // not by row: it has scales beside
  }
  return nullptr;
}

void WeightStore::UnpackRow(const WeightView& view, int64_t row, uint16_t* out) const {
  const auto* source = reinterpret_cast<const uint8_t*>(view.data) + row * RowBytes(view);
  if (view.dtype != DType::kF8E4M3) return UnpackFor(view.dtype)(source, view.cols, out);
  const WeightScales& scales = view.scales;
  if (scales.data == nullptr) return ops_.unpack_f8_e4m3(source, view.cols, 1.0f, out);
  const int64_t blocks_per_row = (view.cols + scales.block_cols - 1) / scales.block_cols;
  const float* const scale = scales.data + row / scales.block_rows * blocks_per_row;
  for (int64_t i = 0; i < blocks_per_row; ++i) {
    const int64_t begin = i * scales.block_cols;
    ops_.unpack_f8_e4m3(source + begin, std::min(scales.block_cols, view.cols - begin), scale[i],
                        out + begin);
  }
}

void WeightStore::PackRows(absl::Span<const MatrixPart> parts, int64_t begin, int num_rows,
                           uint16_t* rows, uint16_t* panel) const {
  const int64_t cols = parts[0].view.cols;
  size_t part_idx = 0;
  int64_t row = begin;  // in parts[part_idx]
  for (int i = 0; i < num_rows; ++i, ++row) {
    while (row >= parts[part_idx].view.rows) row -= parts[part_idx++].view.rows;
    const MatrixPart& part = parts[part_idx];
    UnpackRow(part.view, FileRow(part, row), rows + i * cols);
  }
  PackPanel(rows, cols, num_rows, static_cast<int>(cols), panel);
}

absl::StatusOr<MatrixId> WeightStore::PackMatrix(absl::Span<const MatrixPart> parts) {
  QUIRE_CHECK(!parts.empty(), "a matrix has parts");
  int64_t total_rows = 0;
  for (const MatrixPart& part : parts) {
    CheckPart(part, part.view.rows, parts[0].view.cols);
    total_rows += part.view.rows;
  }
  const int num_rows = static_cast<int>(total_rows);
  const int cols = static_cast<int>(parts[0].view.cols);
  QUIRE_CHECK(num_rows == total_rows && num_rows > 0 && cols > 0, "dimensions fit 31 bits");
  absl::StatusOr<uint16_t*> panels = TakePanels(num_rows, cols);
  if (!panels.ok()) return panels.status();

  const int64_t rows_elems = static_cast<int64_t>(kPanelCols) * cols;
  std::vector<uint16_t> scratch(pool_->num_threads() * rows_elems);
  pool_->Run(NumPanels(num_rows), [&](int panel, int worker) {
    const int begin = panel * kPanelCols;
    PackRows(parts, begin, std::min(kPanelCols, num_rows - begin),
             scratch.data() + worker * rows_elems, *panels + panel * PanelElems(cols));
  });
  matrices_.push_back({*panels, num_rows, cols, /*is_gate_up=*/false});
  return MatrixId{static_cast<int32_t>(matrices_.size()) - 1};
}

absl::StatusOr<MatrixId> WeightStore::PackGateUp(const WeightView& gate, const WeightView& up) {
  QUIRE_CHECK(gate.rows == up.rows && gate.cols == up.cols, "gate and up have one shape");
  const int num_rows = static_cast<int>(gate.rows);
  const int cols = static_cast<int>(gate.cols);
  QUIRE_CHECK(num_rows == gate.rows && num_rows > 0 && cols > 0, "dimensions fit 31 bits");
  const int num_panels = NumPanels(num_rows);
  absl::StatusOr<uint16_t*> panels = TakePanels(2 * num_panels * kPanelCols, cols);
  if (!panels.ok()) return panels.status();

  const MatrixPart parts[2] = {{gate}, {up}};
  const int64_t rows_elems = static_cast<int64_t>(kPanelCols) * cols;
  std::vector<uint16_t> scratch(pool_->num_threads() * rows_elems);
  pool_->Run(2 * num_panels, [&](int panel, int worker) {
    const int begin = panel / 2 * kPanelCols;
    PackRows(absl::MakeConstSpan(&parts[panel % 2], 1), begin,
             std::min(kPanelCols, num_rows - begin), scratch.data() + worker * rows_elems,
             *panels + panel * PanelElems(cols));
  });
  matrices_.push_back({*panels, num_rows, cols, /*is_gate_up=*/true});
  return MatrixId{static_cast<int32_t>(matrices_.size()) - 1};
}

absl::StatusOr<VectorId> WeightStore::PackVector(absl::Span<const MatrixPart> parts) {
  int64_t size = 0;
  for (const MatrixPart& part : parts) {
    QUIRE_CHECK(part.view.rows == 1, "a vector's part is one row");
    CheckPart(part, part.view.cols, part.view.cols);
    size += part.view.cols;
  }
  const int64_t bytes = size * static_cast<int64_t>(sizeof(float));
  absl::StatusOr<std::byte*> memory = arena_.Take(bytes, "weights");
  if (!memory.ok()) return memory.status();
  bytes_ += bytes;

  float* const data = reinterpret_cast<float*>(*memory);
  float* next = data;
  for (const MatrixPart& part : parts) {
    std::vector<float> values(part.view.cols);
    reference::Dequantize(part.view, 0, values.data());
    for (int64_t i = 0; i < part.view.cols; ++i) *next++ = values[FileRow(part, i)];
  }
  vectors_.push_back({data, size});
  return VectorId{static_cast<int32_t>(vectors_.size()) - 1};
}

const PackedMatrix& WeightStore::Matrix(MatrixId id) const {
  QUIRE_CHECK(id.value >= 0 && id.value < static_cast<int32_t>(matrices_.size()),
              "the matrix was packed");
  return matrices_[id.value];
}

absl::Span<const float> WeightStore::Vector(VectorId id) const {
  QUIRE_CHECK(id.value >= 0 && id.value < static_cast<int32_t>(vectors_.size()),
              "the vector was packed");
  return absl::MakeConstSpan(vectors_[id.value].data, vectors_[id.value].size);
}

}  // namespace quire
