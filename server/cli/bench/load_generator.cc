#include "server/cli/bench/load_generator.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include "absl/time/time.h"

#include "server/cli/bench/clock.h"

namespace quire::cli::bench {
namespace {

constexpr double kProgressSeconds = 0.2;

}  // namespace

// Writes one record. Only the target's calls touch it until the last of them has rung the bell.
class LoadGenerator::Recorder : public Listener {
 public:
  Recorder(LoadGenerator* owner, const BenchRequest& request, double due_s) : owner_(owner) {
    record_.prompt_tokens = static_cast<int32_t>(request.prompt_ids.size());
    record_.new_tokens = request.new_tokens;
    record_.due_s = due_s;
    record_.deliveries.reserve(request.new_tokens);
  }

  void OnTokens(int32_t count) override {
    record_.deliveries.push_back({MonotonicSeconds(), count});
    num_tokens_.fetch_add(count, std::memory_order_relaxed);
  }

  void OnEnd(const std::string& error) override {
    record_.end_s = MonotonicSeconds();
    absl::MutexLock lock(&owner_->mutex_);
    const bool is_done = error.empty() && num_tokens() == record_.new_tokens;
    if (is_done) {
      record_.end = RequestRecord::End::kDone;
    } else if (owner_->is_cut_) {
      record_.end = RequestRecord::End::kCut;
    } else {
      record_.end = RequestRecord::End::kFailed;
      record_.error = error.empty() ? "WRONG_TOKEN_COUNT" : error;
    }
    --owner_->num_running_;
    owner_->has_changed_ = true;
    owner_->changed_.Signal();
  }

  int64_t num_tokens() const { return num_tokens_.load(std::memory_order_relaxed); }
  RequestRecord Take() { return std::move(record_); }

 private:
  LoadGenerator* const owner_;
  RequestRecord record_;
  std::atomic<int64_t> num_tokens_ = 0;
};

void LoadGenerator::StartDue(const std::vector<BenchRequest>& requests, const Load& load,
                             double begin_s, Recorders* started) {
  while (started->size() < requests.size()) {
    const double now_s = MonotonicSeconds();
    double due_s = now_s;
    if (load.concurrency == 0) {
      due_s = begin_s + load.arrivals_s[started->size()];
      if (due_s > now_s) return;
    } else if (num_running() >= load.concurrency) {
      return;
    }
    const BenchRequest& request = requests[started->size()];
    started->push_back(std::make_shared<Recorder>(this, request, due_s));
    {
      absl::MutexLock lock(&mutex_);
      ++num_running_;
    }
    // It may end right here, so no lock is held.
    target_->Start(request, started->back());
  }
}

LoadResult LoadGenerator::Run(const std::vector<BenchRequest>& requests, const Load& load,
                              const std::function<void(const LoadProgress&)>& progress) {
  {
    absl::MutexLock lock(&mutex_);
    is_cut_ = false;
  }
  const double begin_s = MonotonicSeconds();
  double end_s = 0;
  Recorders started;
  const auto tell = [&](double now_s) {
    LoadProgress told{.requests = static_cast<int64_t>(requests.size()),
                      .ended = static_cast<int64_t>(started.size()) - num_running(),
                      .seconds = now_s - begin_s};
    for (const auto& recorder : started) told.tokens += recorder->num_tokens();
    progress(told);
  };
  double tell_at_s = begin_s;
  while (true) {
    const double now_s = MonotonicSeconds();
    if (is_interrupted() || now_s >= begin_s + load.max_seconds) {
      end_s = now_s;
      CutOff();
      break;
    }
    StartDue(requests, load, begin_s, &started);
    if (started.size() == requests.size() && num_running() == 0) break;
    if (now_s >= tell_at_s) {
      tell(now_s);
      tell_at_s = now_s + kProgressSeconds;
    }
    double until_s = std::min(tell_at_s, begin_s + load.max_seconds);
    if (load.concurrency == 0 && started.size() < requests.size()) {
      until_s = std::min(until_s, begin_s + load.arrivals_s[started.size()]);
    }
    WaitForChange(until_s);
  }
  LoadResult result;
  result.begin_s = begin_s;
  result.requests = static_cast<int64_t>(requests.size());
  for (const auto& recorder : started) {
    result.records.push_back(recorder->Take());
    if (end_s == 0) result.end_s = std::max(result.end_s, result.records.back().end_s);
  }
  if (end_s != 0) result.end_s = end_s;
  return result;
}

void LoadGenerator::WaitForChange(double until_s) {
  absl::MutexLock lock(&mutex_);
  while (!has_changed_ && !is_interrupted_) {
    const double left_s = until_s - MonotonicSeconds();
    if (left_s <= 0) break;
    changed_.WaitWithTimeout(&mutex_, absl::Seconds(left_s));
  }
  has_changed_ = false;
}

void LoadGenerator::CutOff() {
  {
    absl::MutexLock lock(&mutex_);
    is_cut_ = true;
  }
  target_->CancelAll();
  absl::MutexLock lock(&mutex_);
  while (num_running_ > 0) changed_.Wait(&mutex_);
}

int64_t LoadGenerator::num_running() {
  absl::MutexLock lock(&mutex_);
  return num_running_;
}

void LoadGenerator::Interrupt() {
  absl::MutexLock lock(&mutex_);
  is_interrupted_ = true;
  changed_.SignalAll();
}

bool LoadGenerator::is_interrupted() {
  absl::MutexLock lock(&mutex_);
  return is_interrupted_;
}

}  // namespace quire::cli::bench
