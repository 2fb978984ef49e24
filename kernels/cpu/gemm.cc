#include "kernels/cpu/gemm.h"

#include <algorithm>

namespace quire {

// Defined by gemm_bf16x2_<isa>.cc, gemm_bf16x32_<isa>.cc and gemm_a8g32_<isa>.cc.
namespace isa_reference {
extern const GemmKernels kGemmKernels;
extern const GemmKernelsByFormat kBf16x32GemmKernels;
extern const GemmKernelsByFormat kQuantizedGemmKernels;
}  // namespace isa_reference
namespace isa_avx2 {
extern const GemmKernels kGemmKernels;
extern const GemmKernelsByFormat kBf16x32GemmKernels;
extern const GemmKernelsByFormat kQuantizedGemmKernels;
}  // namespace isa_avx2
namespace isa_avx512 {
extern const GemmKernels kGemmKernels;
extern const GemmKernelsByFormat kBf16x32GemmKernels;
}  // namespace isa_avx512
namespace isa_avx512vnni {
extern const GemmKernelsByFormat kQuantizedGemmKernels;
}
namespace isa_avx512bf16 {
extern const GemmKernels kGemmKernels;
}
namespace isa_amx {
extern const GemmKernelsByFormat kBf16x32GemmKernels;
extern const GemmKernelsByFormat kQuantizedGemmKernels;
}  // namespace isa_amx

namespace {

const GemmKernels& Bf16x2KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kGemmKernels;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
    case CpuIsa::kAmx:  // where VDPBF16PS does half of what FMA does
      return isa_avx512::kGemmKernels;
    case CpuIsa::kAvx512Bf16:
      return isa_avx512bf16::kGemmKernels;
  }
  return isa_reference::kGemmKernels;
}

const GemmKernelsByFormat& Bf16x32KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
      return isa_avx2::kBf16x32GemmKernels;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
    case CpuIsa::kAvx512Bf16:
      return isa_avx512::kBf16x32GemmKernels;
    case CpuIsa::kAmx:
      return isa_amx::kBf16x32GemmKernels;
  }
  return isa_reference::kBf16x32GemmKernels;
}

// AVX-512 without VNNI has no kernels of its own.
const GemmKernelsByFormat& A8g32KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kReference:
      break;
    case CpuIsa::kAvx2:
    case CpuIsa::kAvx512:
      return isa_avx2::kQuantizedGemmKernels;
    case CpuIsa::kAvx512Vnni:
    case CpuIsa::kAvx512Bf16:
      return isa_avx512vnni::kQuantizedGemmKernels;
    case CpuIsa::kAmx:
      return isa_amx::kQuantizedGemmKernels;
  }
  return isa_reference::kQuantizedGemmKernels;
}

}  // namespace

const GemmKernels& GemmKernelsFor(CpuIsa isa, NumericsMode mode, PackedFormat format) {
  const bool int8 = TakesInt8(mode) && format != PackedFormat::kBf16;
  if (int8) return A8g32KernelsFor(isa).of[static_cast<int>(format)];
  if (GoesByBlocks(mode)) return Bf16x32KernelsFor(isa).of[static_cast<int>(format)];
  return Bf16x2KernelsFor(isa);
}

int RowsPerChunk(NumericsMode mode, PackedFormat format) {
  const bool int8 = TakesInt8(mode) && format != PackedFormat::kBf16;
  return GoesByBlocks(mode) && !int8 ? 256 : 192;
}

GemmChunks ChunkGemm(int rows, int units, int panels_per_unit, int k, int rows_per_chunk,
                     int num_threads) {
  // A chunk should take some 20 us at least, so that claiming it costs nothing, and there should
  // be several per thread, so that threads end together. kWorkPerChunk is in multiply-adds where
  // rows are many; a single row is bound by the bytes of weights, which as many multiply-adds of
  // kMinRows rows would outlast.
  constexpr int64_t kWorkPerChunk = 2'000'000;
  constexpr int kMinRows = 16;
  constexpr int kChunksPerThread = 8;

  GemmChunks chunks;
  if (rows == 0) return chunks;
  chunks.rows = rows;
  chunks.units = units;
  chunks.rows_per_chunk = std::min(rows, rows_per_chunk);
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
