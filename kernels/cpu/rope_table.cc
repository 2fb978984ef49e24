#include "kernels/cpu/rope_table.h"

#include <algorithm>

#include "kernels/cpu/sincos.h"

namespace quire {

RopeTable::RopeTable(absl::Span<const double> inv_freq, double scale, int max_positions,
                     ThreadPool* pool)
    : half_dim_(static_cast<int>(inv_freq.size())),
      max_positions_(max_positions),
      table_(static_cast<int64_t>(max_positions) * 2 * half_dim_) {
  constexpr int kPositionsPerChunk = 256;
  const int num_chunks = (max_positions + kPositionsPerChunk - 1) / kPositionsPerChunk;
  pool->Run(num_chunks, [&](int chunk, int) {
    const int begin = chunk * kPositionsPerChunk;
    const int end = std::min(max_positions, begin + kPositionsPerChunk);
    for (int position = begin; position < end; ++position) {
      float* row = table_.data() + static_cast<int64_t>(position) * 2 * half_dim_;
      for (int i = 0; i < half_dim_; ++i) {
        const SinCos value = SinCosOf(position * inv_freq[i]);
        row[i] = static_cast<float>(value.cos * scale);
        row[half_dim_ + i] = static_cast<float>(value.sin * scale);
      }
    }
  });
}

}  // namespace quire
