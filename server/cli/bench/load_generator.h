#ifndef QUIRE_SERVER_CLI_BENCH_LOAD_GENERATOR_H_
#define QUIRE_SERVER_CLI_BENCH_LOAD_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "server/cli/bench/request_record.h"
#include "server/cli/bench/target.h"

namespace quire::cli::bench {

// How requests follow each other.
struct Load {
  // Closed loop: so many are in work, each that ends is followed by the next.
  int32_t concurrency = 0;
  // Open loop, where concurrency is 0: when each starts, in seconds from the beginning, rising,
  // whatever has become of those before.
  std::vector<double> arrivals_s = {};
  double max_seconds = 0;  // then what is in work is ended
};

struct LoadProgress {
  int64_t requests = 0;
  int64_t ended = 0;
  int64_t tokens = 0;
  double seconds = 0;
};

struct LoadResult {
  double begin_s = 0;
  double end_s = 0;                         // of the last request, or when they were cut
  int64_t requests = 0;                     // that were to be sent
  std::vector<RequestRecord> records = {};  // of those that were, in order
};

// Puts a target under load. One thread, but for Interrupt.
class LoadGenerator {
 public:
  explicit LoadGenerator(Target* target) : target_(target) {}

  // Returns when all requests have ended. `progress` is told a few times a second.
  LoadResult Run(const std::vector<BenchRequest>& requests, const Load& load,
                 const std::function<void(const LoadProgress&)>& progress);
  // Ends the Run in progress, and later ones at once. Any thread.
  void Interrupt() ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_interrupted() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Recorder;
  using Recorders = std::vector<std::shared_ptr<Recorder>>;

  // Starts those whose turn it is.
  void StartDue(const std::vector<BenchRequest>& requests, const Load& load, double begin_s,
                Recorders* started);
  // Until something ended, was interrupted, or it is `until_s`.
  void WaitForChange(double until_s) ABSL_LOCKS_EXCLUDED(mutex_);
  void CutOff() ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t num_running() ABSL_LOCKS_EXCLUDED(mutex_);

  Target* const target_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  int64_t num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_cut_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_changed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_LOAD_GENERATOR_H_
