#ifndef QUIRE_ENGINE_INBOX_H_
#define QUIRE_ENGINE_INBOX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "engine/token_edits.h"
#include "engine/token_listener.h"
#include "scheduler/request.h"

namespace quire {

struct Submission {
  SequenceId id = 0;
  std::shared_ptr<const Request> request = nullptr;
  std::shared_ptr<TokenListener> listener = nullptr;
  std::vector<std::unique_ptr<TokenEdits>> edits = {};  // [num_choices], or empty: no rules
};

struct Ending {
  SequenceId id = 0;
  EndReason reason = EndReason::kCancelled;
};

// What reached the engine since it last looked.
struct InboxContent {
  std::vector<Submission> submissions;
  std::vector<Ending> endings;
  bool end_queued = false;
  bool stop = false;
};

// Inbox is the only door into the engine thread. Any thread puts in, the engine thread takes all
// out at once at the start of a step. Submissions are bounded. Endings are not refused: each comes
// from a caller that holds a sequence and ends it once or twice, so they are as many as what lives.
class Inbox {
 public:
  explicit Inbox(int max_submissions) : max_submissions_(max_submissions) {}

  // False: full.
  [[nodiscard]] bool Put(Submission submission) ABSL_LOCKS_EXCLUDED(mutex_);
  void Put(Ending ending) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndQueued() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a Take that waits, without content.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  // Moves everything into `*content` (cleared first); waits up to `timeout` while there is nothing.
  void Take(absl::Duration timeout, InboxContent* content) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool Filled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int max_submissions_;
  absl::Mutex mutex_;
  InboxContent content_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_INBOX_H_
