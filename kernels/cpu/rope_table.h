#ifndef QUIRE_KERNELS_CPU_ROPE_TABLE_H_
#define QUIRE_KERNELS_CPU_ROPE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "kernels/cpu/thread_pool.h"

namespace quire {

// cos and sin of every position and frequency: angle = position * inv_freq[i] in double, times
// `scale` after cos and sin, rounded to fp32 once.
class RopeTable {
 public:
  // inv_freq: [head_dim / 2].
  RopeTable(absl::Span<const double> inv_freq, double scale, int max_positions, ThreadPool* pool);

  int max_positions() const { return max_positions_; }
  int half_dim() const { return half_dim_; }
  const float* Cos(int position) const { return RowOf(position); }              // [half_dim]
  const float* Sin(int position) const { return RowOf(position) + half_dim_; }  // [half_dim]

 private:
  const float* RowOf(int position) const {
    return table_.data() + static_cast<int64_t>(position) * 2 * half_dim_;
  }

  const int half_dim_;
  const int max_positions_;
  std::vector<float> table_;  // [max_positions, cos|sin, half_dim]
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ROPE_TABLE_H_
