#ifndef QUIRE_SCHEDULER_WATERMARK_H_
#define QUIRE_SCHEDULER_WATERMARK_H_

#include <algorithm>
#include <cstdint>

namespace quire {

// Watermark says how many blocks admission leaves free for running sequences to grow into. It
// rises with every step that had to preempt, and falls slowly while none has to: as much headroom
// as the load turns out to need. The constants are a first choice, not measured.
class Watermark {
 public:
  explicit Watermark(int32_t num_blocks)
      : lowest_(num_blocks / 100),
        highest_(num_blocks / 2),
        rise_(std::max(1, num_blocks / 32)),
        blocks_(lowest_) {}

  int32_t blocks() const { return blocks_; }
  void OnStep(bool preempted) {
    if (preempted) {
      blocks_ = std::min(highest_, blocks_ + rise_);
      quiet_steps_ = 0;
    } else if (++quiet_steps_ % kStepsPerFall == 0) {
      blocks_ -= (blocks_ - lowest_ + 7) / 8;
    }
  }

 private:
  static constexpr int32_t kStepsPerFall = 64;

  const int32_t lowest_;
  const int32_t highest_;
  const int32_t rise_;
  int32_t blocks_;
  int64_t quiet_steps_ = 0;
};

}  // namespace quire

#endif  // QUIRE_SCHEDULER_WATERMARK_H_
