#ifndef QUIRE_ENGINE_CALIBRATION_H_
#define QUIRE_ENGINE_CALIBRATION_H_

#include "absl/status/statusor.h"

#include "engine/transformer.h"
#include "kernels/backend.h"

namespace quire {

// What steps cost on this machine with this model, so that the scheduler can keep a step with
// decoding sequences under its target: a step takes about
//   us_per_step + rows * us_per_row + (sum over rows of the tokens attended to) * us_per_attended.
struct StepCosts {
  double us_per_step = 0;      // reading the weights: a step of one row
  double us_per_row = 0;       // each further row
  double us_per_attended = 0;  // each key that a row attends to, over all layers
};

// From microseconds of three steps: one row; `num_rows` rows at the start; `num_rows` rows after
// `context` keys more. Noise that would make a cost negative counts as none.
StepCosts CostsFrom(double one_us, double near_us, double far_us, int num_rows, int context);

// Runs a few steps that write nothing (all slots -1) over block 0, which must be touched.
// Takes the least of a few repetitions: noise only ever adds.
absl::StatusOr<StepCosts> MeasureStepCosts(Backend& backend, const Transformer& transformer,
                                           const KvSpec& spec, const StepLimits& limits);

}  // namespace quire

#endif  // QUIRE_ENGINE_CALIBRATION_H_
