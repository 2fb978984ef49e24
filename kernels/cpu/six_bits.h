#ifndef QUIRE_KERNELS_CPU_SIX_BITS_H_
#define QUIRE_KERNELS_CPU_SIX_BITS_H_

#include <stdint.h>

#include "kernels/cpu/isa_target.h"

namespace quire {
inline namespace QUIRE_ISA {

// The 6-bit scale and minimum of part `part` (of 8) of a Q4_K or Q5_K block, from its 12 bytes: the
// first four of each lie in the low bits of bytes 0-3 and 4-7; of the others, bytes 8-11 have the
// low four bits and the upper ends of bytes 0-7 the rest.
struct SixBitPair {
  int scale;
  int min;
};
QUIRE_INLINE SixBitPair SixBits(const uint8_t* bytes, int part) {
  if (part < 4) return {bytes[part] & 63, bytes[part + 4] & 63};
  return {(bytes[part + 4] & 15) | (bytes[part - 4] >> 6) << 4,
          (bytes[part + 4] >> 4) | (bytes[part] >> 6) << 4};
}

}  // namespace QUIRE_ISA
}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_SIX_BITS_H_
