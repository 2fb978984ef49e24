#include "kernels/cpu/gemm.h"

#include <algorithm>

namespace quire {

// Defined by gemm_bf16x2_<isa>.cc.
namespace isa_reference {
extern const GemmKernels kGemmKernels;
}
namespace isa_avx2 {
extern const GemmKernels kGemmKernels;
}
namespace isa_avx512 {
extern const GemmKernels kGemmKernels;
}
namespace isa_avx512bf16 {
extern const GemmKernels kGemmKernels;
}

const GemmKernels& GemmKernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kGemmKernels;
    case CpuIsa::kAvx512:
      return isa_avx512::kGemmKernels;
    case CpuIsa::kAvx512Bf16:
      return isa_avx512bf16::kGemmKernels;
  }
  return isa_reference::kGemmKernels;
}

void PackPanel(const uint16_t* rows, int64_t row_stride, int num_rows, int k, uint16_t* panel) {
  for (int pair = 0; pair < PaddedK(k) / 2; ++pair) {
    for (int column = 0; column < kPanelCols; ++column) {
      for (int odd = 0; odd < 2; ++odd) {
        const int k_idx = 2 * pair + odd;
        const bool inside = column < num_rows && k_idx < k;
        *panel++ = inside ? rows[column * row_stride + k_idx] : 0;
      }
    }
  }
}

void UnpackPanelRow(const uint16_t* panels, int n, int k, uint16_t* out) {
  const uint16_t* column = panels + n / kPanelCols * PanelElems(k) + n % kPanelCols * 2;
  for (int i = 0; i < k; ++i) out[i] = column[i / 2 * (2 * kPanelCols) + i % 2];
}

GemmChunks ChunkGemm(int rows, int units, int panels_per_unit, int k, int num_threads) {
  // A chunk should take some 20 us at least, so that claiming it costs nothing, and there should
  // be several per thread, so that threads end together. kWorkPerChunk is in multiply-adds where
  // rows are many; a single row is bound by the bytes of weights, which as many multiply-adds of
  // kMinRows rows would outlast.
  constexpr int64_t kWorkPerChunk = 2'000'000;
  constexpr int kMinRows = 16;
  constexpr int kChunksPerThread = 8;
  constexpr int kRowsPerChunk = 192;

  GemmChunks chunks;
  if (rows == 0) return chunks;
  chunks.rows = rows;
  chunks.units = units;
  chunks.rows_per_chunk = std::min(rows, kRowsPerChunk);
  chunks.num_row_chunks = (rows + chunks.rows_per_chunk - 1) / chunks.rows_per_chunk;

  const int64_t work_per_unit =
      int64_t{std::max(chunks.rows_per_chunk, kMinRows)} * k * kPanelCols * panels_per_unit;
  const int64_t by_work = (kWorkPerChunk + work_per_unit - 1) / work_per_unit;
  const int64_t wanted = int64_t{num_threads} * kChunksPerThread;
  const int64_t by_count = int64_t{units} * chunks.num_row_chunks / wanted;
  int64_t units_per_chunk = std::max<int64_t>({by_work, by_count, 1});
  // Kernels take panels by twos.
  if (panels_per_unit == 1) units_per_chunk += units_per_chunk % 2;
  chunks.units_per_chunk = static_cast<int>(std::min<int64_t>(units_per_chunk, units));
  const int num_unit_chunks = (units + chunks.units_per_chunk - 1) / chunks.units_per_chunk;
  chunks.num_chunks = num_unit_chunks * chunks.num_row_chunks;
  return chunks;
}

}  // namespace quire
