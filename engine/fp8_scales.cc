#include "engine/fp8_scales.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "engine/mapped_file.h"
#include "kernels/cpu/reference/unpack.h"

namespace quire {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string Fp8ScaleName(absl::string_view weight_name) {
  return absl::StrCat(weight_name, "_scale");
}

std::string Fp8InverseScaleName(absl::string_view weight_name) {
  return absl::StrCat(weight_name, "_scale_inv");
}

absl::StatusOr<Fp8Scales> ReadFp8Scales(const FileTensor& weight, const FileTensor& scales,
                                        int block_rows, int block_cols) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quoted(scales.name), " of shape [", absl::StrJoin(scales.shape, ", "), "] of ",
        InfoOf(scales.view.dtype).name, ", the scales of ", Quoted(weight.name), ", ", what));
  };
  if (scales.view.dtype != DType::kF32 && scales.view.dtype != DType::kBF16 &&
      scales.view.dtype != DType::kF16) {
    return bad("is of another type than F32, BF16 or F16");
  }
  const int64_t rows = weight.view.rows;
  const int64_t cols = weight.view.cols;
  const std::vector<int64_t> by_block = {CeilDiv(rows, block_rows), CeilDiv(cols, block_cols)};
  Fp8Scales result;
  if (scales.view.rows * scales.view.cols == 1) {
    result = {{}, rows, cols};
  } else if (scales.shape == std::vector<int64_t>{rows} ||
             scales.shape == std::vector<int64_t>{rows, 1}) {
    result = {{}, 1, cols};
  } else if (scales.shape == by_block) {
    result = {{}, block_rows, block_cols};
  } else {
    return bad(absl::StrCat("fits neither one scale, nor one a row (", rows,
                            "), nor one for each block of ", block_rows, " x ", block_cols, " [",
                            absl::StrJoin(by_block, ", "), "]"));
  }
  result.values.resize(scales.view.rows * scales.view.cols);
  for (int64_t row = 0; row < scales.view.rows; ++row) {
    reference::Dequantize(scales.view, row, result.values.data() + row * scales.view.cols);
  }
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (!std::isfinite(result.values[i])) {
      return bad(
          absl::StrCat("has ", result.values[i], " as element ", i, "; expected a finite number"));
    }
  }
  return result;
}

}  // namespace quire
