#include "server/cli/doctor/self_test.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"

#include "engine/engine.h"

namespace quire::cli {
namespace {

constexpr char kCheck[] = "self-test";
// Both by tests/golden/make/make_selftest.py, in float64. The likeliest token is ahead of the next
// one by 0.259 or more of the logits' standard deviation at each step; rounding activations to bf16
// moves no logit by more than 0.057 of it.
constexpr int32_t kPrompt[] = {15, 36, 2,  59, 30, 37, 47, 44, 31, 33,
                               23, 5,  30, 40, 15, 54, 12, 10, 8,  63};
constexpr int32_t kExpected[] = {39, 17, 59, 5, 13, 1, 24, 31, 10, 5, 18, 62, 23, 41, 17, 6};

// Collects one sequence.
class Collector : public TokenListener {
 public:
  void OnAccepted(int /*queue_position*/, int /*cached_tokens*/) override {}
  void OnRefused(const absl::Status& status) override { End(status); }
  void OnToken(const NewToken& token, const TokenScores& /*scores*/) override {
    const absl::MutexLock lock(&mutex_);
    tokens_.push_back(token.token_id);
  }
  void OnEnd(const EndedSequence& end) override {
    End(end.reason == EndReason::kLength
            ? absl::OkStatus()
            : absl::InternalError(absl::StrCat("ended with ", EndReasonName(end.reason))));
  }

  absl::StatusOr<std::vector<int32_t>> Wait() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&has_ended_));
    if (!status_.ok()) return status_;
    return tokens_;
  }

 private:
  void End(const absl::Status& status) {
    const absl::MutexLock lock(&mutex_);
    status_ = status;
    has_ended_ = true;
  }

  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::vector<int32_t>> Generate(const std::string& model_path, int num_threads) {
  EngineConfig config;
  config.model_path = model_path;
  config.num_threads = num_threads;
  // Small, so that the prompt takes two steps and sequence and prompt more than one block.
  config.block_size = 16;
  config.max_num_seqs = 1;
  config.max_num_batched_tokens = 16;
  config.max_model_len = 64;
  config.kv_cache_bytes = 1 << 20;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Load(config, nullptr);
  if (!engine.ok()) return engine.status();
  auto request = std::make_shared<Request>();
  request->prompt_token_ids.assign(std::begin(kPrompt), std::end(kPrompt));
  request->sampling.temperature = 0;
  request->max_tokens = static_cast<int32_t>(std::size(kExpected));
  auto collector = std::make_shared<Collector>();
  const absl::StatusOr<SequenceId> id = (*engine)->Submit(std::move(request), collector);
  if (!id.ok()) return id.status();
  return collector->Wait();
}

absl::StatusOr<std::vector<int32_t>> GenerateFrom(const std::string& model_bytes, int num_threads) {
  const int fd = memfd_create("quire-self-test", MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  const auto close_fd = absl::MakeCleanup([fd] { close(fd); });
  for (size_t at = 0; at < model_bytes.size();) {
    const ssize_t count = write(fd, model_bytes.data() + at, model_bytes.size() - at);
    if (count <= 0) return absl::ErrnoToStatus(errno, "writing to a file in memory");
    at += static_cast<size_t>(count);
  }
  return Generate(absl::StrCat("/proc/self/fd/", fd), num_threads);
}

}  // namespace

Finding SelfTestFinding(const std::string& model_bytes, int num_threads) {
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<std::vector<int32_t>> tokens = GenerateFrom(model_bytes, num_threads);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!tokens.ok()) {
    const ExitCode code = LoadExitCode(tokens.status());
    const bool is_outside = code == ExitCode::kResources || code == ExitCode::kUsage;
    return Problem(kCheck, absl::StrCat("did not run: ", tokens.status().message()),
                   is_outside ? "mend what cpu and memory say above" : "report it, with this line",
                   is_outside ? code : ExitCode::kInternal);
  }
  const auto [got, want] =
      std::mismatch(tokens->begin(), tokens->end(), std::begin(kExpected), std::end(kExpected));
  if (got == tokens->end() && want == std::end(kExpected)) {
    return Ok(kCheck, absl::StrFormat("%d tokens of a built-in model are as expected; %.2f s",
                                      tokens->size(), took.count()));
  }
  const auto text = [](const int32_t* begin, const int32_t* end) {
    return begin == end ? std::string("none") : absl::StrCat(*begin);
  };
  return Problem(
      kCheck,
      absl::StrCat("token ", want - std::begin(kExpected), " of ", std::size(kExpected), " is ",
                   text(tokens->data() + (got - tokens->begin()), tokens->data() + tokens->size()),
                   ", expected ", text(want, std::end(kExpected)),
                   ": this machine does not compute what it should"),
      "do not serve from it; QUIRE_CPU_ISA=avx2 quire doctor tells whether one instruction set is "
      "to blame; test the memory; then report it",
      ExitCode::kInternal);
}

}  // namespace quire::cli
