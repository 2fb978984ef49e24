#ifndef QUIRE_TESTS_SIM_SHADOW_KV_H_
#define QUIRE_TESTS_SIM_SHADOW_KV_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/shadow_model.h"

namespace quire {

// What the device made of one planned sequence.
struct ExecutedSequence {
  SequenceId id = 0;
  int32_t first_position = 0;
  int32_t num_tokens = 0;
  uint64_t first_digest = 0;  // what its first and last row saw
  uint64_t last_digest = 0;
  std::vector<int32_t> drawn;  // [num_draws]
};

// ShadowKv is a device that runs plans with the model of shadow_model.h on a KV memory of its own.
// It knows nothing of what is right: it reads through block tables what is there.
//
// It is as asynchronous as a device may be. A step may read a slot at any moment from its launch to
// its end: what it sees of other sequences must be the same at both. A step's writes may land at
// any moment, too: with `writes_land_early` they clobber their slots at the launch, else nobody
// finds them there before the end. Rows of one sequence see those before them in any case: steps
// run in order.
//
// One thread. Launch and Retire alternate as Plan and Commit do.
class ShadowKv {
 public:
  ShadowKv(const SchedulerConfig& config, int32_t vocab_size, bool writes_land_early);

  // Takes a step over; the plan is not needed any more. "" or what is wrong with the plan.
  std::string Launch(const StepPlan& plan);
  // Runs the oldest step launched. Of sequences in `broken`, and of all if `step_fails`, garbage
  // is written. "" or what is wrong.
  std::string Retire(const std::set<SequenceId>& broken, bool step_fails,
                     std::vector<ExecutedSequence>* executed);
  // Free blocks lose what they hold.
  void PoisonFreeBlocks(const BlockPool& pool);

 private:
  struct Part {
    SequenceId id = 0;
    int32_t seq_slot = 0;
    int32_t first_position = 0;
    int32_t num_tokens = 0;
    int32_t num_written = 0;  // rows; a full hit's last one is not
    uint32_t first_choice = 0;
    int32_t num_draws = 0;
    std::shared_ptr<const Request> request;
    std::vector<int32_t> token_ids;
    std::vector<std::vector<BlockId>> block_tables;
    int32_t own_from = 0;         // from here on, its own rows in flight or copies fill the slots
    uint64_t seen_at_launch = 0;  // of the positions before
  };
  struct Copy {
    BlockId source = kNoBlock;
    BlockId target = kNoBlock;
    int32_t num_slots = 0;  // that the target's sequence needs
    uint64_t seen_at_launch = 0;
  };
  struct Step {
    uint64_t id = 0;
    std::vector<Part> parts;
    std::vector<Copy> copies;
  };

  std::string TakeParts(const StepPlan& plan, Step* step) const;
  std::string TakeCopies(const StepPlan& plan, Step* step) const;
  std::string CheckLimits(const StepPlan& plan) const;
  std::string MarkWrites(const Step& step);
  std::string RunPart(const Part& part, bool is_broken, ExecutedSequence* executed);
  // Of positions [first seen by `position`, end) of all groups.
  uint64_t Seen(const Part& part, int32_t position, int32_t end) const;
  uint64_t SeenOfCopy(const Copy& copy) const;

  ShadowSlot& SlotAt(BlockId block, int32_t position) {
    return slots_[static_cast<size_t>(block) * block_size_ + position % block_size_];
  }
  const ShadowSlot& SlotAt(BlockId block, int32_t position) const {
    return slots_[static_cast<size_t>(block) * block_size_ + position % block_size_];
  }
  // Never twice the same, and never what a row writes.
  ShadowSlot Poison() { return {MixBits(++num_poisons_), -1, -1}; }

  const SchedulerConfig config_;
  const int32_t block_size_;
  const int32_t vocab_size_;
  const bool writes_land_early_;
  std::vector<ShadowSlot> slots_;    // [num_blocks, block_size]
  std::vector<SequenceId> writers_;  // [num_blocks, block_size]: who writes it in flight; 0: nobody
  std::vector<bool> is_poisoned_;    // [num_blocks]
  std::vector<int32_t> last_token_;  // [max_num_seqs]
  std::deque<Step> launched_;
  uint64_t num_poisons_ = 0;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_SHADOW_KV_H_
