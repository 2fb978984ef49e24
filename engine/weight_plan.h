#ifndef QUIRE_ENGINE_WEIGHT_PLAN_H_
#define QUIRE_ENGINE_WEIGHT_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "engine/engine_config.h"
#include "engine/weights.h"
#include "kernels/cpu/isa.h"
#include "kernels/numerics_mode.h"

namespace quire {

// How a model's weights are held and computed with; decided once, before they are loaded.
struct WeightPlan {
  NumericsMode numerics = NumericsMode::kBf16x2;
  WeightQuantization quantization = WeightQuantization::kNone;
  int64_t bytes = 0;              // as held
  int64_t num_layer_weights = 0;  // elements
  int64_t num_head_weights = 0;
};

// What `config` asks for; without --numerics, what `isa` is best at: bf16x32 with AMX, else a8g32
// where any matrix is quantised or is to be, else bf16x2. Bytes do not depend on `isa`.
// FAILED_PRECONDITION where options and weights contradict each other.
absl::StatusOr<WeightPlan> PlanWeights(const EngineConfig& config, const ModelWeights& weights,
                                       CpuIsa isa);

// The type that a matrix is rounded to where its file's is not quantised; none: it stays bf16.
// Four bits are too few for the embedding and the head: they take eight.
enum class MatrixRole : uint8_t { kLayer, kVocabulary };
std::optional<DType> QuantizeTo(WeightQuantization quantization, MatrixRole role);

}  // namespace quire

#endif  // QUIRE_ENGINE_WEIGHT_PLAN_H_
