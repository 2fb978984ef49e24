#ifndef QUIRE_KERNELS_CPU_WEIGHT_FORMAT_H_
#define QUIRE_KERNELS_CPU_WEIGHT_FORMAT_H_

#include <cstdint>
#include <optional>

#include "kernels/cpu/packed_format.h"
#include "kernels/dtype.h"
#include "kernels/numerics_mode.h"

// Which packed format a file's weights are held in. Arithmetic only: what plans memory calls it
// without a backend.

namespace quire {

// What holds a file's quantised numbers without loss; kBf16 for types that are not quantised.
PackedFormat PackedFormatOf(DType dtype);

// What a weight of `cols` columns is held in. `quantize_to`: as MatrixPart's (weight_store.h); a
// depth that does not fill groups stays bf16.
PackedFormat HeldFormatOf(NumericsMode mode, DType dtype, std::optional<DType> quantize_to,
                          int64_t cols);

// Bytes of the panels of a weight [rows, cols], rows rounded up to whole panels.
int64_t PackedWeightBytes(NumericsMode mode, DType dtype, std::optional<DType> quantize_to,
                          int64_t rows, int64_t cols);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_WEIGHT_FORMAT_H_
