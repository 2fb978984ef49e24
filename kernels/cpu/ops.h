#ifndef QUIRE_KERNELS_CPU_OPS_H_
#define QUIRE_KERNELS_CPU_OPS_H_

#include <stdint.h>

// No header of isa.h's kind here: the objects of each instruction set include this (isa_target.h).

namespace quire {

enum class CpuIsa : uint8_t;

// Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
inline constexpr uint32_t kPhiloxMul0 = 0xd2511f53u;
inline constexpr uint32_t kPhiloxMul1 = 0xcd9e8d57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9e3779b9u;
inline constexpr uint32_t kPhiloxWeyl1 = 0xbb67ae85u;
inline constexpr int kPhiloxRounds = 10;

// Which random numbers: Philox's key is `seed`, its counter (token id, position, purpose, choice).
struct DrawKey {
  uint64_t seed = 0;
  uint32_t choice = 0;
  int32_t position = 0;
  uint32_t purpose = 0;
};

// Counts and sums of weights of the scores at or above max + kLevels[k], and the sum of all: how
// sampling learns which few tokens a filter can keep, without sorting the row.
inline constexpr int kNumLevels = 3;
constexpr float kLevels[kNumLevels] = {-4, -8, -16};
struct LevelSums {
  int64_t count[kNumLevels] = {};
  uint64_t sum[kNumLevels] = {};
  uint64_t total = 0;
};

// Turns one row of `cols` weights, as they lie in a file, into bf16.
using UnpackRowFn = void (*)(const uint8_t* row, int64_t cols, uint16_t* out);

// The row operations of the CPU backend but for products and attention, compiled for one
// instruction set. The headers they come from (norm.h, rope.h, unpack.h, sampling_kernels.h)
// describe them; reference/ defines them. Equal bits for every instruction set. FTZ and DAZ must be
// set in the calling thread. None allocates.
struct CpuOps {
  void (*rms_norm)(const float* x, const float* weight, int cols, float eps, uint16_t* out);
  void (*rms_norm_head)(const float* x, const float* weight, int cols, float eps, float* out);
  bool (*all_finite)(const float* x, int64_t n);
  void (*rotate_head)(const float* x, const float* cos, const float* sin, int head_dim,
                      int padded_head_dim, uint16_t* out);
  void (*round_row)(const float* x, int cols, int padded_cols, uint16_t* out);
  void (*widen_row)(const uint16_t* x, int cols, float* out);

  UnpackRowFn unpack_f32;
  UnpackRowFn unpack_f16;
  UnpackRowFn unpack_bf16;
  UnpackRowFn unpack_q4_0;
  UnpackRowFn unpack_q4_1;
  UnpackRowFn unpack_q5_0;
  UnpackRowFn unpack_q5_1;
  UnpackRowFn unpack_q8_0;
  UnpackRowFn unpack_q4_k;
  UnpackRowFn unpack_q5_k;
  UnpackRowFn unpack_q6_k;
  // `cols` elements of one scale.
  void (*unpack_f8_e4m3)(const uint8_t* row, int64_t cols, float scale, uint16_t* out);

  // Id of the largest logit, the lowest among equals; NaNs are left out; 0 when nothing is left.
  int32_t (*argmax)(const float* logits, int n);
  float (*scale)(const float* logits, int n, float temperature, float* scores);
  void (*sum_levels)(const float* scores, int n, float max, LevelSums* result);
  // Writes ids (ascending) and scores of the tokens with score - max >= level; returns how many.
  int (*collect_above)(const float* scores, int n, float max, float level, int32_t* ids,
                       float* values);
  // weights[i] = floor(exp(values[i] - max) * 2^40).
  void (*weigh)(const float* values, int n, float max, uint64_t* weights);
  // Id of the largest score + gumbel(id), over all n ids or over a list of them.
  int32_t (*gumbel_argmax)(const float* scores, int n, const DrawKey& key);
  int32_t (*gumbel_argmax_of)(const float* values, const int32_t* token_ids, int n,
                              const DrawKey& key);
};

// REQUIRES: the machine runs `isa`.
const CpuOps& CpuOpsFor(CpuIsa isa);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_OPS_H_
