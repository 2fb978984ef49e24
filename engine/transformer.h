#ifndef QUIRE_ENGINE_TRANSFORMER_H_
#define QUIRE_ENGINE_TRANSFORMER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/engine_config.h"
#include "engine/model_files.h"
#include "engine/weights.h"
#include "kernels/backend.h"

namespace quire {

// In which order do a decoder's ops run? A Transformer holds handles to the weights that a backend
// has packed, and calls the backend's ops over them. It holds no memory of its own worth speaking
// of, no sequences and no values of a step: those are in the backend's step.
//
// The backend that packed the weights outlives it and is the only one to be passed to Forward.
// Immutable after Load.
class Transformer {
 public:
  // Checks the weights, asks the backend whether it supports the model, and packs them into it.
  // Matrices that are not quantised may become so. The files are not needed afterwards. Rope tables
  // cover positions [0, max_model_len).
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(const ModelFiles& files,
                                                           Backend& backend, int max_model_len,
                                                           WeightQuantization quantization);

  const ModelShape& shape() const { return shape_; }

  // One step, from token ids to drawn tokens. Called by Backend::Launch.
  void Forward(Backend& backend, const StepShape& step) const;

 private:
  struct Layer {
    Backend::QkvArgs qkv;
    MatrixId out;
    VectorId out_bias;
    Backend::MlpArgs mlp;
  };
  class Loader;

  Transformer() = default;

  // Constant after Load.
  ModelShape shape_;
  MatrixId embedding_;
  std::vector<Layer> layers_;
  VectorId final_norm_;
  MatrixId head_;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_TRANSFORMER_H_
