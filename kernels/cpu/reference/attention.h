#ifndef QUIRE_KERNELS_CPU_REFERENCE_ATTENTION_H_
#define QUIRE_KERNELS_CPU_REFERENCE_ATTENTION_H_

#include <cstdint>

#include "kernels/numerics_mode.h"

// The definition of attention (attention.h has it in words). Plain scalar code over dense keys and
// values; it reads visible tokens only. FTZ and DAZ must be set in the calling thread.

namespace quire::reference {

struct AttentionRow {
  const uint16_t* q = nullptr;  // bf16 [head_dim]
  // bf16 [tokens, head_dim], token t at k + t * token_stride.
  const uint16_t* k = nullptr;
  const uint16_t* v = nullptr;
  int64_t token_stride = 0;
  int head_dim = 0;  // at most 512
  float scale = 0;
  int position = 0;
  int window = 0;  // 0: all
  NumericsMode mode = NumericsMode::kBf16x2;
};

// out: bf16 [head_dim].
void Attend(const AttentionRow& row, uint16_t* out);

}  // namespace quire::reference

#endif  // QUIRE_KERNELS_CPU_REFERENCE_ATTENTION_H_
