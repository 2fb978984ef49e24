#ifndef QUIRE_ENGINE_FILE_TENSOR_H_
#define QUIRE_ENGINE_FILE_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.h"

namespace quire {

// A tensor of a file that holds weights.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;  // slowest first, as Hugging Face writes it
  WeightView view;             // [product of all dimensions but the last, last]
  int64_t num_bytes = 0;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_FILE_TENSOR_H_
