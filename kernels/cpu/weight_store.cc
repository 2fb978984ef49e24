#include "kernels/cpu/weight_store.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "kernels/cpu/reference/unpack.h"
#include "kernels/cpu/weight_format.h"
#include "kernels/cpu/weight_packing.h"
#include "kernels/cpu/weight_quantization.h"

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

// Which part row `row` of all of them lies in, and where.
struct RowPlace {
  const MatrixPart& part;
  int64_t file_row;
};
RowPlace FindRow(absl::Span<const MatrixPart> parts, int64_t row) {
  size_t i = 0;
  while (row >= parts[i].view.rows) row -= parts[i++].view.rows;
  return {parts[i], FileRow(parts[i], row)};
}

const uint8_t* RowData(const WeightView& view, int64_t row) {
  return reinterpret_cast<const uint8_t*>(view.data) + row * RowBytes(view);
}

}  // namespace

PackedFormat WeightStore::FormatOf(const MatrixPart& part) const {
  return HeldFormatOf(mode_, part.view.dtype, part.quantize_to, part.view.cols);
}

absl::StatusOr<uint8_t*> WeightStore::TakePanels(PackedFormat format, int64_t num_panels,
                                                 int cols) {
  const int64_t bytes = num_panels * PanelBytes(format, cols);
  absl::StatusOr<std::byte*> memory = arena_.Take(bytes, "weights");
  if (!memory.ok()) return memory.status();
  bytes_ += bytes;
  return reinterpret_cast<uint8_t*>(*memory);
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

void WeightStore::UnpackFileRow(const WeightView& view, int64_t row, uint16_t* out) const {
  const uint8_t* const source = RowData(view, row);
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

std::vector<WeightStore::Scratch> WeightStore::MakeScratch(PackedFormat format, int cols) const {
  std::vector<Scratch> scratch(pool_->num_threads());
  for (Scratch& one : scratch) {
    one.bf16.resize(static_cast<size_t>(kPanelCols) * cols);
    if (format == PackedFormat::kBf16) continue;
    one.wide.resize(cols);
    one.quantized.resize(static_cast<size_t>(kPanelCols) * cols * 2);
  }
  return scratch;
}

void WeightStore::PackPanel(PackedFormat format, absl::Span<const MatrixPart> parts, int64_t begin,
                            int num_rows, Scratch& scratch, uint8_t* panel) const {
  const int cols = static_cast<int>(parts[0].view.cols);
  if (format == PackedFormat::kBf16) {
    for (int i = 0; i < num_rows; ++i) {
      const RowPlace place = FindRow(parts, begin + i);
      UnpackFileRow(place.part.view, place.file_row, &scratch.bf16[int64_t{i} * cols]);
    }
    PackBf16Panel(scratch.bf16.data(), cols, num_rows, cols, panel);
    return;
  }
  const uint8_t* rows[kPanelCols];
  DType dtype = parts[0].view.dtype;
  for (int i = 0; i < num_rows; ++i) {
    const RowPlace place = FindRow(parts, begin + i);
    const WeightView& view = place.part.view;
    rows[i] = RowData(view, place.file_row);
    if (IsQuantized(view.dtype)) continue;
    dtype = *place.part.quantize_to;
    UnpackFileRow(view, place.file_row, scratch.bf16.data());
    ops_.widen_row(scratch.bf16.data(), cols, scratch.wide.data());
    uint8_t* const out = &scratch.quantized[int64_t{i} * cols * 2];
    QuantizeWeightRow(dtype, scratch.wide.data(), cols, out);
    rows[i] = out;
  }
  PackQuantizedPanel(dtype, rows, num_rows, cols, panel);
}

absl::StatusOr<MatrixId> WeightStore::PackMatrix(absl::Span<const MatrixPart> parts) {
  QUIRE_CHECK(!parts.empty(), "a matrix has parts");
  const int64_t cols = parts[0].view.cols;
  PackedMatrix matrix;
  matrix.cols = static_cast<int>(cols);
  int64_t total_rows = 0;
  for (size_t begin = 0; begin < parts.size();) {
    const PackedFormat format = FormatOf(parts[begin]);
    size_t end = begin;
    int64_t num_rows = 0;
    for (; end < parts.size() && FormatOf(parts[end]) == format; ++end) {
      CheckPart(parts[end], parts[end].view.rows, cols);
      num_rows += parts[end].view.rows;
    }
    QUIRE_CHECK(total_rows + num_rows <= INT32_MAX && num_rows > 0 && cols > 0 && cols <= INT32_MAX,
                "dimensions fit 31 bits");
    const int rows = static_cast<int>(num_rows);
    absl::StatusOr<uint8_t*> panels = TakePanels(format, NumPanels(rows), matrix.cols);
    if (!panels.ok()) return panels.status();
    std::vector<Scratch> scratch = MakeScratch(format, matrix.cols);
    const absl::Span<const MatrixPart> of_segment = parts.subspan(begin, end - begin);
    pool_->Run(NumPanels(rows), [&](int panel, int worker) {
      const int first = panel * kPanelCols;
      PackPanel(format, of_segment, first, std::min(kPanelCols, rows - first), scratch[worker],
                *panels + panel * PanelBytes(format, matrix.cols));
    });
    matrix.segments.push_back({format, static_cast<int>(total_rows), rows, *panels});
    total_rows += num_rows;
    begin = end;
  }
  matrix.rows = static_cast<int>(total_rows);
  return Keep(std::move(matrix));
}

MatrixId WeightStore::Keep(PackedMatrix matrix) {
  for (const PackedSegment& segment : matrix.segments) {
    const bool int8 = TakesInt8(mode_) && segment.format != PackedFormat::kBf16;
    (int8 ? matrix.reads_int8 : matrix.reads_bf16) = true;
  }
  matrices_.push_back(std::move(matrix));
  return MatrixId{static_cast<int32_t>(matrices_.size()) - 1};
}

absl::StatusOr<MatrixId> WeightStore::PackGateUp(const MatrixPart& gate, const MatrixPart& up) {
  QUIRE_CHECK(gate.view.rows == up.view.rows && gate.view.cols == up.view.cols,
              "gate and up have one shape");
  const int num_rows = static_cast<int>(gate.view.rows);
  const int cols = static_cast<int>(gate.view.cols);
  QUIRE_CHECK(num_rows == gate.view.rows && num_rows > 0 && cols == gate.view.cols && cols > 0,
              "dimensions fit 31 bits");
  // Panels alternate, so both have one format; bf16 can hold either.
  const PackedFormat format = FormatOf(gate) == FormatOf(up) ? FormatOf(gate) : PackedFormat::kBf16;
  const int num_panels = 2 * NumPanels(num_rows);
  absl::StatusOr<uint8_t*> panels = TakePanels(format, num_panels, cols);
  if (!panels.ok()) return panels.status();

  const MatrixPart parts[2] = {gate, up};
  std::vector<Scratch> scratch = MakeScratch(format, cols);
  pool_->Run(num_panels, [&](int panel, int worker) {
    const int begin = panel / 2 * kPanelCols;
    PackPanel(format, absl::MakeConstSpan(&parts[panel % 2], 1), begin,
              std::min(kPanelCols, num_rows - begin), scratch[worker],
              *panels + panel * PanelBytes(format, cols));
  });
  return Keep({.segments = {{format, 0, num_rows, *panels}},
               .rows = num_rows,
               .cols = cols,
               .is_gate_up = true});
}

void WeightStore::UnpackRow(const PackedMatrix& matrix, int row, float* out) {
  for (const PackedSegment& segment : matrix.segments) {
    if (row >= segment.first_row + segment.rows) continue;
    UnpackPackedRow(segment.format, segment.panels, row - segment.first_row, matrix.cols, out);
    return;
  }
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
