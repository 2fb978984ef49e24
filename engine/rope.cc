// The formulas are those of transformers/modeling_rope_utils.py (functions named below), which for
// yarn follows the paper https://arxiv.org/abs/2309.00071.
#include "engine/rope.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

std::vector<double> DefaultFrequencies(double theta, int head_dim) {
  std::vector<double> inv_freq(head_dim / 2);
  for (int i = 0; i < head_dim / 2; ++i) inv_freq[i] = std::pow(theta, -2.0 * i / head_dim);
  return inv_freq;
}

// _compute_dynamic_ntk_parameters.
double DynamicTheta(const ModelConfig& config, int max_model_len) {
  const double trained = config.max_position_embeddings;
  const double length = std::max<double>(max_model_len, trained);
  const double stretch = config.rope.factor * length / trained - (config.rope.factor - 1);
  return config.rope.theta *
         std::pow(stretch, static_cast<double>(config.head_dim) / (config.head_dim - 2));
}

// _compute_llama3_parameters: long wavelengths are stretched by `factor`, short ones stay, and
// those between are blended.
void StretchLlama3(const RopeConfig& rope, std::vector<double>& inv_freq) {
  for (double& frequency : inv_freq) {
    const double turns = rope.original_max_position * frequency / kTwoPi;  // over the old context
    const double blend = std::clamp(
        (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
    frequency *= blend + (1 - blend) / rope.factor;
  }
}

// _compute_yarn_parameters: the same idea, with the ramp over the index of the frequency.
void StretchYarn(const RopeConfig& rope, int head_dim, std::vector<double>& inv_freq) {
  // The (fractional) index of the frequency that makes so many turns over the old context.
  const auto index_of_turns = [&](double turns) {
    return head_dim * std::log(rope.original_max_position / (turns * kTwoPi)) /
           (2 * std::log(rope.theta));
  };
  double low = index_of_turns(rope.beta_fast);
  double high = index_of_turns(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] *= (1 - stretched) + stretched / rope.factor;
  }
}

}  // namespace

RopeFrequencies BuildRopeFrequencies(const ModelConfig& config, int max_model_len) {
  const RopeConfig& rope = config.rope;
  RopeFrequencies result;
  result.inv_freq = DefaultFrequencies(
      rope.kind == RopeKind::kDynamic ? DynamicTheta(config, max_model_len) : rope.theta,
      config.head_dim);
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:
      break;
    case RopeKind::kLinear:
      for (double& frequency : result.inv_freq) frequency /= rope.factor;
      break;
    case RopeKind::kLlama3:
      StretchLlama3(rope, result.inv_freq);
      break;
    case RopeKind::kYarn:
      StretchYarn(rope, config.head_dim, result.inv_freq);
      result.scale = rope.attention_factor;
      break;
  }
  return result;
}

}  // namespace quire
