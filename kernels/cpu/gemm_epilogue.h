#ifndef QUIRE_KERNELS_CPU_GEMM_EPILOGUE_H_
#define QUIRE_KERNELS_CPU_GEMM_EPILOGUE_H_

// What becomes of the sums of a product, in every mode. For the instruction set that the including
// file is compiled for.

#include <stdint.h>

#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// Sums of two panels side by side.
inline constexpr int kBlockCols = 2 * kPanelCols;

QUIRE_INLINE F32x16 AddBias(F32x16 x, const float* bias, int column, int num_columns) {
  return bias == nullptr ? x : x + LoadN(bias + column, num_columns);
}

// Epilogues take the sums of one row: c[32 * num_panels], of panel `panel` and the next.
struct StoreEpilogue {
  static constexpr int kUnitPanels = 1;
  QUIRE_INLINE static F32x16 Combine(F32x16 sum, const float*, int) { return sum; }
};

struct AddEpilogue {
  static constexpr int kUnitPanels = 1;
  QUIRE_INLINE static F32x16 Combine(F32x16 sum, const float* out, int num_columns) {
    return LoadN(out, num_columns) + sum;
  }
};

template <typename Epilogue>
QUIRE_INLINE void FinishRow(Epilogue, const GemmArgs& args, int row, int panel, int num_panels,
                            const float* c) {
  int column = panel * kPanelCols;
  const int end = column + num_panels * kPanelCols;
  const int whole_end = (end < args.n ? end : args.n) / 16 * 16;
  float* const out = args.out + row * args.ldo;
  const auto finish = [&](int num_columns) __attribute__((always_inline)) {
    const F32x16 sum = AddBias(Load(c), args.bias, column, num_columns);
    StoreN(out + column, Epilogue::Combine(sum, out + column, num_columns), num_columns);
  };
  for (; column < whole_end; column += 16, c += 16) finish(16);
  if (column < end && column < args.n) finish(args.n - column);
}

struct SiluMulEpilogue {
  static constexpr int kUnitPanels = 2;
};

QUIRE_INLINE void FinishRow(SiluMulEpilogue, const GemmArgs& args, int row, int panel, int,
                            const float* c) {
  const int padded_n = args.n + (args.n & 1);
  for (int i = 0; i < 2; ++i) {
    const int column = panel / 2 * kPanelCols + i * 16;
    if (column >= args.n) return;
    const int num_columns = args.n - column < 16 ? args.n - column : 16;
    const int num_written = padded_n - column < 16 ? padded_n - column : 16;
    const F32x16 gate = AddBias(Load(c + i * 16), args.bias, column, num_columns);
    const F32x16 up = AddBias(Load(c + kPanelCols + i * 16), args.up_bias, column, num_columns);
    const F32x16 product = Silu16(gate) * up;
    const int64_t at = row * args.ldo + column;
    if (args.out_bf16 != nullptr) {
      StoreBf16N(args.out_bf16 + at, product, num_written);
    } else {
      StoreN(args.out + at, product, num_columns);
    }
  }
}

// Gemm::kRun<format, Epilogue>, a GemmFn, with all epilogues.
template <typename Gemm, PackedFormat kFormat>
inline constexpr GemmKernels kKernelsOf = {Gemm::template kRun<kFormat, StoreEpilogue>,
                                           Gemm::template kRun<kFormat, AddEpilogue>,
                                           Gemm::template kRun<kFormat, SiluMulEpilogue>};

// The same for all quantised formats, and `bf16` for that one.
template <typename Gemm>
constexpr GemmKernelsByFormat KernelsByFormat(const GemmKernels& bf16) {
  return {{
      bf16,
      kKernelsOf<Gemm, PackedFormat::kU4>,
      kKernelsOf<Gemm, PackedFormat::kU4Min>,
      kKernelsOf<Gemm, PackedFormat::kU5>,
      kKernelsOf<Gemm, PackedFormat::kU5Min>,
      kKernelsOf<Gemm, PackedFormat::kU8>,
      kKernelsOf<Gemm, PackedFormat::kQ4K>,
      kKernelsOf<Gemm, PackedFormat::kQ5K>,
      kKernelsOf<Gemm, PackedFormat::kQ6K>,
  }};
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_GEMM_EPILOGUE_H_
