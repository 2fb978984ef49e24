#ifndef QUIRE_KERNELS_CPU_OPS_H_
#define QUIRE_KERNELS_CPU_OPS_H_

#include <stdint.h>

// No header of isa.h's kind here: the objects of each instruction set include this (isa_target.h).

namespace quire {

enum class CpuIsa : uint8_t;
struct RowGroup;

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

// How sampling learns, without sorting a row, which few tokens a filter can keep: numbers and
// weights of the tokens whose score - max is within a few distances of a center.
inline constexpr int kNumLevels = 8;
constexpr float kLevels[kNumLevels] = {0.25f, 1, 2, 4, 6, 8, 10, 13};
struct LevelCounts {
  int32_t count[kNumLevels] = {};
};
struct LevelSums {
  uint64_t sum[kNumLevels] = {};
  uint64_t total = 0;  // of the whole row
};

// Sums over a row of scores: of weights, and of floor(exp(d) * -d * 2^40), d = score - max.
struct WeightSums {
  uint64_t total = 0;
  uint64_t depth = 0;
};

// Mean and standard deviation of the finite elements.
struct Spread {
  float mean = 0;
  float deviation = 0;
};

// Turns one row of `cols` weights, as they lie in a file, into bf16.
using UnpackRowFn = void (*)(const uint8_t* row, int64_t cols, uint16_t* out);

// The row operations of the CPU backend but for products and attention, compiled for one
// instruction set. The headers they come from (norm.h, rope.h, quantize.h, unpack.h,
// sampling_kernels.h) describe them; reference/ defines them. Equal bits for every instruction set.
// FTZ and DAZ must be set in the calling thread. None allocates.
struct CpuOps {
  void (*rms_norm)(const float* x, const float* weight, int cols, float eps, uint16_t* out);
  void (*rms_norm_head)(const float* x, const float* weight, int cols, float eps, float* out);
  bool (*all_finite)(const float* x, int64_t n);
  void (*rotate_head)(const float* x, const float* cos, const float* sin, int head_dim,
                      int padded_head_dim, uint16_t* out);
  void (*round_row)(const float* x, int cols, int padded_cols, uint16_t* out);
  void (*widen_row)(const uint16_t* x, int cols, float* out);
  void (*quantize_row)(const float* x, int cols, int8_t* q, RowGroup* groups);

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

  // Sampling. d = scores[i] - max wherever it occurs; a token counts as at `distance` from
  // `center` where |d - center| <= distance.

  // Id of the largest logit, the lowest among equals; -1 (kNoToken) where none is above -infinity.
  int32_t (*argmax)(const float* logits, int n);
  // out[i] = logits[i], -infinity where bit i % 32 of word i / 32 is clear.
  void (*mask)(const float* logits, int n, const uint32_t* allowed, float* out);
  // scores[i] = logits[i] / temperature + 0 (so that there is no -0), which may be in place;
  // returns their maximum, NaNs left out.
  float (*scale)(const float* logits, int n, float temperature, float* scores);
  void (*spread)(const float* scores, int n, Spread* result);
  void (*sum_weights)(const float* scores, int n, float max, WeightSums* result);
  void (*count_levels)(const float* scores, int n, float max, LevelCounts* result);
  void (*sum_levels)(const float* scores, int n, float max, float center, LevelSums* result);
  // Writes ids (ascending) and scores of the tokens at `distance`; returns how many.
  int (*collect)(const float* scores, int n, float max, float center, float distance, int32_t* ids,
                 float* values);
  // weights[i] = floor(exp(values[i] - max) * 2^40).
  void (*weigh)(const float* values, int n, float max, uint64_t* weights);
  // Id of the largest score + gumbel(id), over all n ids or over a list of them.
  int32_t (*gumbel_argmax)(const float* scores, int n, const DrawKey& key);
  int32_t (*gumbel_argmax_of)(const float* values, const int32_t* token_ids, int n,
                              const DrawKey& key);

  // The first k tokens in the order falling logit, then rising id, NaNs left out; returns how many.
  // REQUIRES: 0 < k <= 32.
  int (*top)(const float* logits, int n, int k, int32_t* ids, float* values);
  // How many tokens come before token `id` in that order; all that are not NaN where it is one.
  int (*num_before)(const float* logits, int n, int32_t id);
};

// REQUIRES: the machine runs `isa`.
const CpuOps& CpuOpsFor(CpuIsa isa);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_OPS_H_
