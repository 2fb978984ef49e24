#ifndef QUIRE_KERNELS_DTYPE_H_
#define QUIRE_KERNELS_DTYPE_H_

#include <cstdint>

namespace quire {

// How the elements of a weight lie in its file. What a backend computes with is its own choice
// (the numerics mode), made when it packs the weight.
enum class DType : uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ8_0 };

// Elements come in blocks of `block_elems` that take `block_bytes` together; 1 for plain types.
struct DTypeInfo {
  const char* name;
  int block_elems;
  int block_bytes;
};

// The sizes of the quantised types are those of the GGUF specification: fp16 scale (and minimum),
// then the integers.
constexpr DTypeInfo InfoOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {"F32", 1, 4};
    case DType::kF16:
      return {"F16", 1, 2};
    case DType::kBF16:
      return {"BF16", 1, 2};
    case DType::kQ4_0:
      return {"Q4_0", 32, 18};
    case DType::kQ4_1:
      return {"Q4_1", 32, 20};
    case DType::kQ8_0:
      return {"Q8_0", 32, 34};
  }
  return {"?", 1, 0};
}

}  // namespace quire

#endif  // QUIRE_KERNELS_DTYPE_H_
