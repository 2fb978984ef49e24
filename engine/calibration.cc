#include "engine/calibration.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace quire {
namespace {

// A server waits for this before it serves: the least of two or three steps, so small that a small
// model on two slow cores is measured in a quarter of a second.
constexpr int kMaxRepetitions = 3;
constexpr int kMinRepetitions = 2;
constexpr double kEnoughUs = 60'000;
constexpr int kMaxRows = 32;
constexpr int kMaxContext = 1024;

// One step of `num_rows` rows of one sequence at positions [context, context + num_rows).
absl::StatusOr<double> MicrosecondsOf(Backend& backend, const Transformer& transformer,
                                      const KvSpec& spec, int num_rows, int context) {
  const size_t num_groups = spec.groups.size();
  const int num_blocks = (context + num_rows - 1) / spec.block_size + 1;
  const std::vector<int32_t> token_ids(num_rows, 0);
  const std::vector<int32_t> slots(num_groups * num_rows, -1);
  const std::vector<int32_t> query_starts = {0, num_rows};
  const std::vector<int32_t> block_tables(num_groups * num_blocks, 0);
  const std::vector<int32_t> logit_rows = {num_rows - 1};
  const std::vector<SampleRow> samples(1);
  std::vector<int32_t> positions(num_rows);
  for (int i = 0; i < num_rows; ++i) positions[i] = context + i;
  HostStep step;
  step.shape = {num_rows, 1, 1, 1};
  step.token_ids = token_ids;
  step.positions = positions;
  step.slots = slots;
  step.query_starts = query_starts;
  step.block_tables = block_tables;
  step.max_blocks = num_blocks;
  step.logit_rows = logit_rows;
  step.samples = samples;

  double best = std::numeric_limits<double>::infinity();
  double spent = 0;
  for (int i = 0; i < kMaxRepetitions; ++i) {
    if (i >= kMinRepetitions && spent > kEnoughUs) break;
    const auto start = std::chrono::steady_clock::now();
    const StepTicket ticket =
        backend.Launch(step, [&](const StepShape& shape) { transformer.Forward(backend, shape); });
    const absl::StatusOr<StepResult> result = backend.Collect(ticket);
    if (!result.ok()) return result.status();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
    spent += took.count();
  }
  return best;
}

}  // namespace

StepCosts CostsFrom(double one_us, double near_us, double far_us, int num_rows, int context) {
  StepCosts costs;
  costs.us_per_step = one_us;
  costs.us_per_row = std::max(0.0, near_us - one_us) / (num_rows - 1);
  costs.us_per_attended =
      std::max(0.0, far_us - near_us) / (static_cast<double>(num_rows) * context);
  return costs;
}

absl::StatusOr<StepCosts> MeasureStepCosts(Backend& backend, const Transformer& transformer,
                                           const KvSpec& spec, const StepLimits& limits) {
  // Positions [0, max_model_len) exist; a model too short to measure with costs next to nothing.
  const int num_rows = std::min({kMaxRows, limits.max_num_tokens, limits.max_model_len / 2});
  const int context = std::min(kMaxContext, limits.max_model_len - num_rows);
  if (num_rows < 2 || context <= num_rows) return StepCosts{};

  const absl::StatusOr<double> one = MicrosecondsOf(backend, transformer, spec, 1, 0);
  if (!one.ok()) return one.status();
  const absl::StatusOr<double> near = MicrosecondsOf(backend, transformer, spec, num_rows, 0);
  if (!near.ok()) return near.status();
  const absl::StatusOr<double> far = MicrosecondsOf(backend, transformer, spec, num_rows, context);
  if (!far.ok()) return far.status();
  return CostsFrom(*one, *near, *far, num_rows, context);
}

}  // namespace quire
