#ifndef QUIRE_SERVER_CLI_BENCH_WORKLOAD_H_
#define QUIRE_SERVER_CLI_BENCH_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/cli/bench/length_files.h"
#include "server/cli/bench/target.h"

namespace quire::cli::bench {

struct WorkloadOptions {
  int32_t prompt_tokens = 128;  // of each prompt, the shared ones included
  int32_t new_tokens = 128;
  int32_t shared_tokens = 0;      // that all prompts of a point begin with
  std::string trace_file = "";    // lengths, and what is shared, come from it instead
  std::string prompts_file = "";  // or the tokens themselves
  uint64_t seed = 1;
};

// What is asked at each point of a sweep: random tokens, drawn from the seed. Each point has
// others, so that none finds what an earlier one left in the prefix cache; but for a file of
// prompts, which is what it is.
class Workload {
 public:
  // INVALID_ARGUMENT: options that contradict each other, or a file that is wrong.
  static absl::StatusOr<Workload> Open(const WorkloadOptions& options);

  // As many as the file has lines; 0: there is no file, and no end.
  int64_t num_lines() const { return static_cast<int64_t>(trace_.size() + prompts_.size()); }

  // The first `count` requests of a point. INVALID_ARGUMENT: more than there are lines, than fit in
  // memory, or a token that is not in the vocabulary.
  absl::StatusOr<std::vector<BenchRequest>> Requests(int point, int64_t count,
                                                     int32_t vocab_size) const;
  // Short ones, of tokens that no point has.
  std::vector<BenchRequest> WarmUps(int64_t count, int32_t vocab_size) const;
  // A request that computes what the prompts of that point share. REQUIRES: shared_tokens > 0.
  BenchRequest Priming(int point, int32_t vocab_size) const;

 private:
  explicit Workload(const WorkloadOptions& options) : options_(options) {}

  absl::StatusOr<std::vector<BenchRequest>> FromFile(int64_t count, int32_t vocab_size) const;
  BenchRequest Traced(int point, int64_t index, int32_t vocab_size) const;
  BenchRequest Drawn(int point, int64_t index, int32_t vocab_size) const;
  // Appends `count` tokens, the same for the same point, kind and index.
  enum class Tokens : uint64_t { kOwn, kShared, kTraceBlock };
  void Draw(int point, Tokens kind, int64_t index, int64_t count, int32_t vocab_size,
            std::vector<int32_t>* ids) const;

  WorkloadOptions options_;
  std::vector<TraceLine> trace_;
  std::vector<PromptLine> prompts_;
};

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_WORKLOAD_H_
