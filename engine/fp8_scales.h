#ifndef QUIRE_ENGINE_FP8_SCALES_H_
#define QUIRE_ENGINE_FP8_SCALES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "engine/file_tensor.h"

namespace quire {

// The names under which checkpoints keep the scales of an FP8 weight "x.weight": both multiply,
// whatever the second one is called.
std::string Fp8ScaleName(absl::string_view weight_name);         // "x.weight_scale"
std::string Fp8InverseScaleName(absl::string_view weight_name);  // "x.weight_scale_inv"

// The scales of an FP8 weight in fp32, and how many of its elements share one.
struct Fp8Scales {
  std::vector<float> values;
  int64_t block_rows = 0;
  int64_t block_cols = 0;
};

// From the tensor that holds them: one number; one a row ([rows] or [rows, 1]); or one for each
// block of block_rows x block_cols, [rows / block_rows, cols / block_cols] rounded up. Errors name
// the tensor, its shape and what was expected.
absl::StatusOr<Fp8Scales> ReadFp8Scales(const FileTensor& weight, const FileTensor& scales,
                                        int block_rows, int block_cols);

}  // namespace quire

#endif  // QUIRE_ENGINE_FP8_SCALES_H_
