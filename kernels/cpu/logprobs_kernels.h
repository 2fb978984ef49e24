#ifndef QUIRE_KERNELS_CPU_LOGPROBS_KERNELS_H_
#define QUIRE_KERNELS_CPU_LOGPROBS_KERNELS_H_

// Where tokens stand in the order falling logit, then rising id.

#include <stdint.h>

#include "kernels/cpu/sampling_kernels.h"
#include "kernels/cpu/vec16.h"

namespace quire {
inline namespace QUIRE_ISA {

// Puts a token with a larger id than all of the `count` sorted ones where it belongs among the
// first k.
QUIRE_INLINE void InsertToken(int32_t id, float value, int k, int32_t* ids, float* values,
                              int* count) {
  int place = *count < k ? (*count)++ : k - 1;
  for (; place > 0 && values[place - 1] < value; --place) {
    ids[place] = ids[place - 1];
    values[place] = values[place - 1];
  }
  ids[place] = id;
  values[place] = value;
}

// Few tokens are inserted once the best are known: about k * ln(n / k) of a row without order.
inline int TopOfRow(const float* logits, int n, int k, int32_t* ids, float* values) {
  int count = 0;
  int i = 0;
  for (; i < n && count < k; ++i) {
    if (logits[i] == logits[i]) InsertToken(i, logits[i], k, ids, values, &count);
  }
  for (; i < n; i += 16) {
    const F32x16 x = LoadOrNever(logits + i, n - i);
    uint32_t bits = MaskBits(Less(Broadcast(values[k - 1]), x));
    for (; bits != 0; bits &= bits - 1) {
      const int id = i + __builtin_ctz(bits);
      if (values[k - 1] < logits[id]) InsertToken(id, logits[id], k, ids, values, &count);
    }
  }
  return count;
}

inline int NumBefore(const float* logits, int n, int32_t id) {
  const bool is_nan = logits[id] != logits[id];
  const F32x16 value = Broadcast(logits[id]);
  int count = 0;
  for (int i = 0; i < n; i += 16) {
    const F32x16 x = LoadOrNever(logits + i, n - i);
    uint32_t before;
    if (is_nan) {
      before = MaskBits(Equal(x, x));
    } else {
      const Mask16 earlier = LessInt(Iota16() + BroadcastInt(i), BroadcastInt(id));
      before = MaskBits(Less(value, x) | (Equal(value, x) & earlier));
    }
    if (n - i < 16) before &= (1u << (n - i)) - 1u;
    count += __builtin_popcount(before);
  }
  return count;
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_LOGPROBS_KERNELS_H_
