#ifndef QUIRE_TESTS_KERNELS_VEC16_PROBE_H_
#define QUIRE_TESTS_KERNELS_VEC16_PROBE_H_

#include <stdint.h>

// The operations of vec16.h and math.h on 16 elements in memory, compiled for each instruction set
// (vec16_probe_<isa>.cc).

namespace quire {

struct Vec16Probe {
  // out = f(a), out = f(a, b), out = f(a, b, c): [16] each.
  struct Unary {
    const char* name;
    void (*run)(const float* a, float* out);
  };
  struct Binary {
    const char* name;
    void (*run)(const float* a, const float* b, float* out);
  };
  struct Ternary {
    const char* name;
    void (*run)(const float* a, const float* b, const float* c, float* out);
  };
  struct IntBinary {
    const char* name;
    void (*run)(const int32_t* a, const int32_t* b, int32_t* out);
  };
  const Unary* unary;
  int num_unary;
  const Binary* binary;
  int num_binary;
  const Ternary* ternary;
  int num_ternary;
  const IntBinary* int_binary;
  int num_int_binary;

  void (*exp)(const float* a, float* out);
  void (*exp_of_negative)(const float* a, float* out);
  void (*log)(const float* a, float* out);
  void (*silu)(const float* a, float* out);
  // The first n elements.
  void (*store_bf16)(const float* a, int n, uint16_t* out);
  void (*bf16_bits)(const float* a, int32_t* out);
  void (*load_bf16)(const uint16_t* a, int n, float* out);
  void (*load_f16)(const uint16_t* a, float* out);
  void (*copy_floats)(const float* a, int n, float* out);
  void (*copy_ints)(const int32_t* a, int n, int32_t* out);
  float (*sum_lanes)(const float* a);
  float (*max_lanes)(const float* a);
  // acc += pairs of a times pairs of b: bf16 [16, 2].
  void (*fma_pairs)(const uint16_t* a, const uint16_t* b, float* acc);
};

}  // namespace quire

#endif  // QUIRE_TESTS_KERNELS_VEC16_PROBE_H_
