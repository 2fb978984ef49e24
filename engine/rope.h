#ifndef QUIRE_ENGINE_ROPE_H_
#define QUIRE_ENGINE_ROPE_H_

#include <vector>

#include "absl/types/span.h"

#include "engine/model_config.h"

namespace quire {

// What a backend makes its table of cos and sin from.
struct RopeFrequencies {
  std::vector<double> inv_freq;  // [head_dim / 2]
  double scale = 1;              // on cos and sin
};

// The frequencies of `config`, in double. Kinds whose base depends on the length of the sequence
// (kDynamic) fix it by `max_model_len`, so that keys never depend on the future.
RopeFrequencies BuildRopeFrequencies(const ModelConfig& config, int max_model_len);

}  // namespace quire

#endif  // QUIRE_ENGINE_ROPE_H_
