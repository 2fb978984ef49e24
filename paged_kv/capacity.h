#ifndef QUIRE_PAGED_KV_CAPACITY_H_
#define QUIRE_PAGED_KV_CAPACITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "paged_kv/kv_layout.h"

namespace quire {

// Memory arithmetic of the KV cache, exact, before anything is allocated.

// Bytes that one token adds while no window is full, without rounding to blocks.
int64_t KvBytesPerToken(const KvModel& model);

// Bytes for `num_seqs` sequences of `num_tokens` tokens each, without rounding to blocks.
int64_t KvBytes(const KvModel& model, int64_t num_tokens, int64_t num_seqs);

// Index of the first block that a query at `position` sees in a window of `window` tokens.
int32_t FirstVisibleBlock(int32_t window, int32_t position, int32_t block_size);

// Blocks that a sequence of `num_tokens` tokens holds at most, over all groups. A window group
// keeps what the rows of one step see: a step computes at most `max_chunk` of its tokens.
int64_t BlocksAtMost(absl::Span<const int32_t> group_windows, int32_t block_size,
                     int64_t num_tokens, int64_t max_chunk);
// The same for one group.
int64_t GroupBlocksAtMost(int32_t window, int32_t block_size, int64_t num_tokens,
                          int64_t max_chunk);

// The longest sequence that `num_blocks` can hold alone; `limit` when it is as long as that.
int64_t LongestSequence(absl::Span<const int32_t> group_windows, int32_t block_size,
                        int64_t num_blocks, int64_t max_chunk, int64_t limit);

// What a budget of `bytes` holds, and what would hold `num_seqs` sequences of `num_tokens`.
struct KvCapacity {
  int64_t num_blocks = 0;      // that fit in the bytes
  int64_t num_tokens = 0;      // slots of one sequence alone, all blocks its own
  int64_t blocks_per_seq = 0;  // for num_tokens
  int64_t seqs_that_fit = 0;   // sequences of that length at once
  int64_t bytes_needed = 0;    // for all of them, after rounding to blocks
  std::string advice;          // which flag to change; empty when all fit
};
KvCapacity PlanKvCapacity(const KvLayout& layout, int64_t bytes, int64_t num_tokens,
                          int64_t num_seqs, int64_t max_chunk);

// "4 GiB", "93.8 MiB": exact where it is a whole number of the unit, else one decimal.
std::string BytesText(int64_t bytes);

}  // namespace quire

#endif  // QUIRE_PAGED_KV_CAPACITY_H_
