#ifndef QUIRE_TESTS_TESTING_FAKE_BACKEND_H_
#define QUIRE_TESTS_TESTING_FAKE_BACKEND_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace quire {

// A device without arithmetic: packs nothing, computes nothing, draws the token
// (position of the drawn token) % vocab_size. `on_step` runs inside Launch, on the engine thread,
// and decides the step's fate: a test can look at the step there, block it, or fail it.
class FakeBackend : public Backend {
 public:
  // Called with each step and its result before it is collected; may change the result's arrays.
  struct Answer {
    std::vector<int32_t> sampled;
    std::vector<uint8_t> seq_finite;
  };
  using OnStep = std::function<absl::Status(const HostStep&, Answer*)>;

  explicit FakeBackend(OnStep on_step) : on_step_(std::move(on_step)) {}

  std::string Describe() const override { return "fake"; }
  std::string NumericsName() const override { return "none"; }
  absl::Status Supports(const ModelShape&) const override { return absl::OkStatus(); }
  absl::StatusOr<MatrixId> PackMatrix(absl::Span<const MatrixPart>) override { return MatrixId{0}; }
  absl::StatusOr<MatrixId> PackGateUp(const MatrixPart&, const MatrixPart&) override {
    return MatrixId{0};
  }
  absl::StatusOr<VectorId> PackVector(absl::Span<const MatrixPart>) override { return VectorId{0}; }
  absl::StatusOr<RopeId> MakeRope(absl::Span<const double>, double, int) override {
    return RopeId{0};
  }
  absl::Status Reserve(const ModelShape& shape, const StepLimits&) override {
    vocab_size_ = shape.vocab_size;
    return absl::OkStatus();
  }
  absl::Status AllocateKv(const KvSpec&) override { return absl::OkStatus(); }
  void TouchKv(int, int) override {}
  int64_t WeightBytes() const override { return 0; }

  StepTicket Launch(const HostStep& step, const Forward& forward) override {
    forward(step.shape);
    answer_.sampled.clear();
    for (const SampleRow& row : step.samples) {
      answer_.sampled.push_back(row.position % vocab_size_);
    }
    answer_.seq_finite.assign(step.shape.num_seqs, 1);
    logits_.assign(step.logit_taps.size() * vocab_size_, 0.0f);
    status_ = on_step_(step, &answer_);
    return StepTicket{};
  }
  absl::StatusOr<StepResult> Collect(StepTicket) override {
    if (!status_.ok()) return status_;
    return StepResult{answer_.sampled, answer_.seq_finite, logits_};
  }

  void CopyBlocks() override {}
  void Embed(MatrixId) override {}
  void NormQkvRopeAppend(const QkvArgs&) override {}
  void Attend(int) override {}
  void OutProjAdd(MatrixId, VectorId) override {}
  void NormMlpAdd(const MlpArgs&) override {}
  void LogitsOfRows(VectorId, MatrixId) override {}
  void Sample() override {}
  void Logprobs() override {}

 private:
  const OnStep on_step_;
  int vocab_size_ = 1;
  Answer answer_;
  std::vector<float> logits_;
  absl::Status status_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_FAKE_BACKEND_H_
