#ifndef QUIRE_ENGINE_WEIGHT_PLAN_H_
#define QUIRE_ENGINE_WEIGHT_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "engine/engine_config.h"
#include "engine/weights.h"
#include "kernels/numerics_mode.h"

namespace quire {

// How a model's weights are held and computed with; decided once, before they are loaded.
struct WeightPlan {
  NumericsMode numerics = NumericsMode::kBf16x2;
  WeightQuantization quantization = WeightQuantization::kNone;
  int64_t bytes = 0;  // as held
};

// What `config` asks for. Without --numerics: a8g32 where it asks to quantise; else `machine_mode`
// where that is bf16x32, for all weights; else a8g32 where any matrix is quantised, and bf16x2.
// `machine_mode`: Bf16ModeOfMachine. FAILED_PRECONDITION where options and weights contradict each
// other.
absl::StatusOr<WeightPlan> PlanWeights(const EngineConfig& config, const ModelWeights& weights,
                                       NumericsMode machine_mode);

// The type that a matrix is rounded to where its file's is not quantised; none: it stays bf16.
// Four bits are too few for the embedding and the head: they take eight.
enum class MatrixRole : uint8_t { kLayer, kVocabulary };
std::optional<DType> QuantizeTo(WeightQuantization quantization, MatrixRole role);

}  // namespace quire

#endif  // QUIRE_ENGINE_WEIGHT_PLAN_H_
