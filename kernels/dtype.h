#ifndef QUIRE_KERNELS_DTYPE_H_
#define QUIRE_KERNELS_DTYPE_H_

#include <cstdint>

namespace quire {

// How the elements of a weight lie in its file. What a backend computes with is its own choice
// (the numerics mode), made when it packs the weight.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,  // of safetensors; WeightView has its scales
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

// Elements come in blocks of `block_elems` that take `block_bytes` together; 1 for plain types.
struct DTypeInfo {
  const char* name;
  int block_elems;
  int block_bytes;
};

// The sizes of the quantised types are those of ggml, which has no other specification
// (ggml-common.h).
constexpr DTypeInfo InfoOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {"F32", 1, 4};
    case DType::kF16:
      return {"F16", 1, 2};
    case DType::kBF16:
      return {"BF16", 1, 2};
    case DType::kF8E4M3:
      return {"F8_E4M3", 1, 1};
    case DType::kQ4_0:
      return {"Q4_0", 32, 18};
    case DType::kQ4_1:
      return {"Q4_1", 32, 20};
    case DType::kQ5_0:
      return {"Q5_0", 32, 22};
    case DType::kQ5_1:
      return {"Q5_1", 32, 24};
    case DType::kQ8_0:
      return {"Q8_0", 32, 34};
    case DType::kQ4_K:
      return {"Q4_K", 256, 144};
    case DType::kQ5_K:
      return {"Q5_K", 256, 176};
    case DType::kQ6_K:
      return {"Q6_K", 256, 210};
  }
  return {"?", 1, 0};
}

// Whether elements are small integers with scales of their block.
constexpr bool IsQuantized(DType dtype) { return InfoOf(dtype).block_elems > 1; }

}  // namespace quire

#endif  // QUIRE_KERNELS_DTYPE_H_
