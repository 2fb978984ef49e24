#ifndef QUIRE_SERVER_CLI_BENCH_REQUEST_RECORD_H_
#define QUIRE_SERVER_CLI_BENCH_REQUEST_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli::bench {

// Tokens that came together.
struct Delivery {
  double at_s = 0;
  int32_t count = 0;
};

// What became of one request. Times are MonotonicSeconds.
struct RequestRecord {
  enum class End {
    kDone,    // all its tokens came
    kFailed,  // refused or broken off
    kCut,     // we ended it: Ctrl-C, or the time was over
  };

  int32_t prompt_tokens = 0;
  int32_t new_tokens = 0;  // that were asked for
  // When it was meant to start: at a rate, a late start is waiting time too, else a target that
  // holds up the load would look fast.
  double due_s = 0;
  std::vector<Delivery> deliveries;
  double end_s = 0;
  End end = End::kCut;
  std::string error;  // of a failed one: QUEUE_FULL
};

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_REQUEST_RECORD_H_
