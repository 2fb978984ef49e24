#ifndef QUIRE_KERNELS_TENSOR_H_
#define QUIRE_KERNELS_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/dtype.h"

namespace quire {

// Multipliers of a kF8E4M3 weight: one for each block of `block_rows` x `block_cols` elements, in
// rows of blocks; blocks at the end may be cut. No data: all are 1. Not owned.
struct WeightScales {
  const float* data = nullptr;
  int64_t block_rows = 0;
  int64_t block_cols = 0;
};

// A weight as it lies in a file, row-major [rows, cols]; a vector has rows == 1. Not owned: the
// file's mapping outlives the view. `cols` is a multiple of the dtype's block_elems, and `data`
// has rows * cols / block_elems * block_bytes readable bytes, of any alignment: whoever opened the
// file has checked both.
struct WeightView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  WeightScales scales = {};
};

// In which order a file stores the rows of one attention head of q or k.
enum class RowOrder : uint8_t {
  kAsIs,               // rotary pairs are (i, i + head_dim / 2), as Hugging Face stores them
  kRotaryInterleaved,  // rotary pairs are (2i, 2i + 1), as GGUF stores them for Llama
};

// Rows of one packed matrix that come from one tensor of the file.
struct MatrixPart {
  WeightView view;
  RowOrder order = RowOrder::kAsIs;
  int head_dim = 0;  // for kRotaryInterleaved: rows per head
  // Where the file's type is not quantised, the one (Q8_0 or Q4_0) that the backend should round
  // the rows to, if its numerics mode computes with quantised weights.
  std::optional<DType> quantize_to = {};
};

}  // namespace quire

#endif  // QUIRE_KERNELS_TENSOR_H_
