#ifndef QUIRE_TESTS_FUZZ_MODEL_CONFIG_CHECKS_H_
#define QUIRE_TESTS_FUZZ_MODEL_CONFIG_CHECKS_H_

#include <cmath>
#include <string>

#include "engine/model_config.h"
#include "engine/rope.h"
#include "kernels/check.h"

namespace quire {

// What is true of every configuration that a reader has accepted.
inline void CheckReadConfig(const ModelConfig& config, const std::string& path) {
  QUIRE_CHECK(config.family != nullptr, "a configuration without a family");
  QUIRE_CHECK(CheckModelConfig(config, path).ok(), "accepted, but not by CheckModelConfig");
  QUIRE_CHECK(!ToText(config).empty(), "no text");
  const ModelShape shape = ShapeOf(config);
  QUIRE_CHECK(shape.num_heads % shape.num_kv_heads == 0, "heads do not share evenly");
  const RopeFrequencies rope = BuildRopeFrequencies(config, config.max_position_embeddings);
  QUIRE_CHECK(rope.inv_freq.size() * 2 == static_cast<size_t>(config.head_dim), "frequencies");
  for (const double frequency : rope.inv_freq) {
    QUIRE_CHECK(std::isfinite(frequency), "a frequency is not finite");
  }
  QUIRE_CHECK(std::isfinite(rope.scale), "the scale is not finite");
}

}  // namespace quire

#endif  // QUIRE_TESTS_FUZZ_MODEL_CONFIG_CHECKS_H_
