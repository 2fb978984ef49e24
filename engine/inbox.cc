#include "engine/inbox.h"

#include <utility>

namespace quire {

bool Inbox::Put(Submission submission) {
  absl::MutexLock lock(&mutex_);
  if (content_.stop || static_cast<int>(content_.submissions.size()) >= max_submissions_) {
    return false;
  }
  content_.submissions.push_back(std::move(submission));
  return true;
}

void Inbox::Put(Ending ending) {
  absl::MutexLock lock(&mutex_);
  if (!content_.stop) content_.endings.push_back(ending);  // stopping ends everything
}

void Inbox::EndQueued() {
  absl::MutexLock lock(&mutex_);
  content_.end_queued = true;
}

void Inbox::Stop() {
  absl::MutexLock lock(&mutex_);
  content_.stop = true;
}

void Inbox::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void Inbox::Take(absl::Duration timeout, InboxContent* content) {
  content->submissions.clear();
  content->endings.clear();
  content->end_queued = false;
  absl::MutexLock lock(&mutex_);
  if (!Filled() && timeout > absl::ZeroDuration()) {
    mutex_.AwaitWithTimeout(absl::Condition(this, &Inbox::Filled), timeout);
  }
  woken_ = false;
  // Swapped, so that both sides keep their capacity.
  std::swap(content->submissions, content_.submissions);
  std::swap(content->endings, content_.endings);
  content->end_queued = std::exchange(content_.end_queued, false);
  content->stop = content_.stop;  // stays: nothing is accepted any more
}

bool Inbox::Filled() const {
  return woken_ || content_.stop || content_.end_queued || !content_.submissions.empty() ||
         !content_.endings.empty();
}

}  // namespace quire
