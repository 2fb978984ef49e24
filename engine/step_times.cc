#include "engine/step_times.h"

#include <algorithm>

namespace quire {

void StepTimes::Add(const std::array<TimeUs, kNumStepPhases>& took_us, TimeUs now) {
  for (size_t i = 0; i < kNumStepPhases; ++i) {
    const auto bucket = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), took_us[i]);
    ++phases[i].counts[static_cast<size_t>(bucket - kBoundsUs.begin())];
    phases[i].sum_us += took_us[i];
  }
  last_step_at = now;
}

}  // namespace quire
