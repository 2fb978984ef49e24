#ifndef QUIRE_SERVER_CLI_BENCH_TARGET_H_
#define QUIRE_SERVER_CLI_BENCH_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace quire::cli::bench {

// Generate `new_tokens` tokens, no less, greedily.
struct BenchRequest {
  std::vector<int32_t> prompt_ids;
  int32_t new_tokens = 0;
};

// Hears of one request, from any thread, one call after the other. It must return at once: the
// engine's own thread may wait for it.
class Listener {
 public:
  virtual ~Listener() = default;

  // So many tokens came, together.
  virtual void OnTokens(int32_t count) = 0;
  // Once, last. `error`: a reason such as QUEUE_FULL; empty where it ended well.
  virtual void OnEnd(const std::string& error) = 0;
};

struct TargetInfo {
  std::string kind;     // "engine" or "grpc"
  std::string model;    // its path, or the name that it is served under
  std::string backend;  // "cpu avx512bf16, 2 threads"
  int32_t vocab_size = 0;
  std::string numerics;      // "a8g32"
  int64_t weight_bytes = 0;  // this and the following 0: not known
  int64_t num_layer_weights = 0;
  int64_t num_head_weights = 0;
};

// What is measured: takes requests, tells when tokens come. One thread.
class Target {
 public:
  virtual ~Target() = default;

  virtual const TargetInfo& info() const = 0;
  // REQUIRES: ids below the vocabulary's size, new_tokens above 0. May call the listener before it
  // returns. The target must live until the listener heard OnEnd.
  virtual void Start(const BenchRequest& request, std::shared_ptr<Listener> listener) = 0;
  // Ends what was started, soon.
  virtual void CancelAll() = 0;
};

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_TARGET_H_
