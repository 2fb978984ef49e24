#ifndef QUIRE_KERNELS_CPU_ATTENTION_PLAN_H_
#define QUIRE_KERNELS_CPU_ATTENTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/kv_block.h"

namespace quire {

struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;
  float scale = 0;  // 1 / sqrt(head_dim)
};

struct AttentionConfig {
  AttentionShape shape;
  int block_size = 0;  // multiple of 16 that divides 256
  int64_t block_bytes = 0;
  int window = 0;  // 0: all
  int max_num_tokens = 0;
  int max_num_seqs = 0;
};

// What a step asks of the layers of one KvGroup. Spans stay valid until the last Run of the step.
struct AttentionStep {
  absl::Span<const int32_t> positions;     // [num_tokens]
  absl::Span<const int32_t> query_starts;  // [num_seqs + 1], rows of each sequence
  absl::Span<const int32_t> block_tables;  // [num_seqs, max_blocks], -1: nothing visible there
  int max_blocks = 0;
};

// Some rows (token, q head) over some splits that they all find in the same blocks. Rows are those
// of one kv head, or, where a kv head has few, those of several, which lie side by side in a block.
struct AttentionTile {
  int32_t seq;          // whose block table is read: of several, any
  int32_t first_head;   // of the kv heads
  int32_t num_heads;    // all have the same rows
  int32_t first_row;    // index in the plan's tokens * group_size + head in group
  int32_t num_rows;     // num_heads * num_rows is at most kAttentionTileRows
  int32_t end;          // past the last token of these splits that any row sees
  int32_t first_split;  // of those that any row sees
  int32_t num_splits;
  bool starts;    // no tile has earlier splits of these rows
  bool finishes;  // no tile has later ones
  int64_t cost;
};

// Tiles that can be computed at once.
struct AttentionPhase {
  std::vector<AttentionTile> tiles;  // long ones first
  int num_long_tiles = 0;
  std::vector<int64_t> split_starts;  // [num_long_tiles + 1]: splits of long tiles before each
};

// AttentionPlan answers: which rows of a step are computed together, over which splits? It computes
// nothing (PagedAttention does), and no choice of it changes bits.
//
// Every row meets its splits in ascending order: those of the tiles of the shared phase, then those
// of the own phase. Most rows are in one tile, with rows of their own sequence. Sequences with one
// token in the step fill no tile, so where the block tables of some begin with the same blocks,
// tiles with a row of each have those splits: K and V are read once for all of them. Two sequences
// and one split are enough: measured, that is never slower (tests/bench/README.md).
//
// One per PagedAttention. The engine thread makes it; all threads may read it meanwhile. All memory
// is taken by the constructor.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionConfig& config, int num_threads);

  // REQUIRES: the step is within the config's limits. O(n log n) comparisons of block tables for n
  // sequences with one token.
  void Make(const AttentionStep& step);

  const AttentionPhase& shared_phase() const { return shared_; }
  const AttentionPhase& own_phase() const { return own_; }  // after all of the shared one

  // Token (row of the step) and q head of a tile's row.
  int TokenOf(const AttentionTile& tile, int row) const {
    return tokens_[(tile.first_row + row) / group_size_];
  }
  int HeadOf(const AttentionTile& tile, int kv_head, int row) const {
    return kv_head * group_size_ + (tile.first_row + row) % group_size_;
  }

  // Bounds that hold for every step: rows of tiles that start or finish elsewhere lie in
  // [0, max_shared_rows()).
  int max_shared_rows() const { return max_shared_rows_; }
  int max_long_tiles() const { return max_long_tiles_; }  // of a phase

 private:
  // A sequence with one token in the step.
  struct Decode {
    int32_t seq;
    int32_t num_splits;  // whole ones that it may share: it sees all of each
  };

  // Sequences whose block tables begin alike are neighbours.
  void SortDecodes();
  const int32_t* TableOf(const Decode& decode) const;
  int NumCommonSplits(const Decode& a, const Decode& b) const;
  void AddDecodes();
  // Adds decodes_[begin, end), which have the first num_splits splits in common.
  void AddGroup(int begin, int end, int num_splits);
  // Adds what tokens_[begin, end) see of the splits [first_split, end_split).
  void AddTiles(int seq, int begin, int end, int first_split, int end_split, AttentionPhase* phase);
  void FindLongTiles(AttentionPhase* phase) const;

  // Constant after construction.
  const AttentionConfig config_;
  const int group_size_;  // q heads per kv head
  const int blocks_per_split_;
  const int num_threads_;
  const int max_long_tiles_;
  const int max_shared_rows_;

  // Of the step.
  AttentionStep step_;
  std::vector<Decode> decodes_;
  std::vector<int32_t> tokens_;  // [num_tokens], those of decodes_ first
  AttentionPhase shared_;
  AttentionPhase own_;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_ATTENTION_PLAN_H_
