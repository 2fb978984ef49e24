// What does serving a model cost, and what do paging and batching bring? Drives an Engine in
// process, so nothing of transport or text is in the figures. Prints, asserts nothing.
//
//   engine_bench MODEL [paging|batching|prefill|latency ...]      (all, if none is named)

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"

#include "engine/engine.h"
#include "engine/machine_speed.h"
#include "engine/memory_plan.h"
#include "engine/model_config.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsBetween(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

// What two threads of the machine can do, measured now.
MachineSpeed MeasurePeak() { return MeasureMachine(2).value(); }

// Keeps when each token came.
class Stopwatch : public TokenListener {
 public:
  void OnAccepted(int, int) override {}
  void OnRefused(const absl::Status& status) override {
    std::fprintf(stderr, "refused: %s\n", status.ToString().c_str());
    absl::MutexLock lock(&mutex_);
    done_ = true;
  }
  void OnToken(const NewToken&, const TokenScores&) override {
    absl::MutexLock lock(&mutex_);
    times_.push_back(Clock::now());
  }
  void OnEnd(const EndedSequence&) override {
    absl::MutexLock lock(&mutex_);
    done_ = true;
  }

  void WaitForTokens(size_t count) {
    absl::MutexLock lock(&mutex_);
    wanted_ = count;
    mutex_.Await(absl::Condition(
        +[](Stopwatch* self) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return self->done_ || self->times_.size() >= self->wanted_;
        },
        this));
  }
  std::vector<Clock::time_point> Wait() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done_));
    return times_;
  }

 private:
  absl::Mutex mutex_;
  size_t wanted_ = 0;
  bool done_ = false;
  std::vector<Clock::time_point> times_;
};

class Bench {
 public:
  explicit Bench(std::string model_path) : model_path_(std::move(model_path)) {}

  void Paging();
  void Batching();
  void Prefill();
  void Latency();

 private:
  std::unique_ptr<Engine> Load(bool prefix_caching = false, int max_num_batched_tokens = 512) {
    EngineConfig config;
    config.model_path = model_path_;
    config.prefix_caching = prefix_caching;
    config.max_num_batched_tokens = max_num_batched_tokens;
    auto engine = Engine::Load(config, [](absl::string_view, double) {});
    if (!engine.ok()) {
      std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
      std::exit(3);
    }
    return *std::move(engine);
  }

  std::shared_ptr<Stopwatch> Start(Engine& engine, int prompt_tokens, int max_tokens) {
    auto request = std::make_shared<Request>();
    request->prompt_token_ids.resize(prompt_tokens);
    for (int32_t& token : request->prompt_token_ids) {
      token = static_cast<int32_t>(random_() % engine.info().vocab_size);
    }
    request->sampling.temperature = 0;
    request->max_tokens = max_tokens;
    auto watch = std::make_shared<Stopwatch>();
    const auto id = engine.Submit(request, watch);
    if (!id.ok()) std::fprintf(stderr, "%s\n", id.status().ToString().c_str());
    return watch;
  }

  std::string model_path_;
  std::mt19937 random_{1};
};

// A token with the KV cache, beside what computing its whole context again would take.
void Bench::Paging() {
  std::unique_ptr<Engine> engine = Load();
  const double weight_gb = engine->info().weight_bytes / 1e9;
  const double bandwidth = MeasurePeak().read_bytes_per_s / 1e9;
  std::printf(
      "context  ms/token  recomputed ms/token   (weights %.3f GB, memory %.1f GB/s: floor "
      "%.2f ms)\n",
      weight_gb, bandwidth, weight_gb / bandwidth * 1e3);
  for (const int context : {128, 1024, 4096}) {
    constexpr int kTokens = 64;
    const auto times = Start(*engine, context, kTokens)->Wait();
    if (times.size() < 2) continue;
    const double ms = SecondsBetween(times.front(), times.back()) / (times.size() - 1) * 1e3;
    const auto start = Clock::now();
    Start(*engine, context, 1)->Wait();
    const double recomputed = SecondsBetween(start, Clock::now()) * 1e3;
    std::printf("%7d  %8.2f  %18.2f", context, ms, recomputed);
    if (context == 128) std::printf("   %.0f %% of bandwidth", weight_gb / bandwidth / ms * 1e5);
    std::printf("\n");
  }
}

void Bench::Batching() {
  std::unique_ptr<Engine> engine = Load();
  double alone = 0;
  for (const int streams : {1, 2, 4, 8, 16, 32, 64}) {
    constexpr int kTokens = 128;
    std::vector<std::shared_ptr<Stopwatch>> watches;
    for (int i = 0; i < streams; ++i) watches.push_back(Start(*engine, 32, kTokens));
    Clock::time_point first = Clock::time_point::min(), last = Clock::time_point::min();
    for (auto& watch : watches) {
      const auto times = watch->Wait();
      first = std::max(first, times.front());  // all prompts are done
      last = std::max(last, times.back());
    }
    // From the last first token on, nearly all streams decode together.
    const double rate = streams * (kTokens - 1) / SecondsBetween(first, last);
    if (streams == 1) alone = rate;
    std::printf("%3d streams  %8.1f tokens/s  %5.2f x one\n", streams, rate, rate / alone);
  }
}

void Bench::Prefill() {
  std::unique_ptr<Engine> engine = Load();
  const NumericsMode mode = NumericsModeNamed(engine->info().numerics_mode).value();
  const double peak = MeasurePeak().operations_per_s[static_cast<size_t>(mode)] / 1e9;
  // Two operations per weight and token; the embedding is not multiplied, the head only for the
  // last token, so neither counts. Attention counts nothing here.
  const ModelConfig config = *ReadModelConfig(model_path_);
  const int vocab_matrices = config.tie_word_embeddings ? 1 : 2;
  const double matrix_params =
      static_cast<double>(PlanMemory(config, {.num_tokens = 1})->num_parameters) -
      static_cast<double>(vocab_matrices) * config.vocab_size * config.hidden_size;
  for (const int tokens : {64, 128, 256, 512}) {
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      const auto start = Clock::now();
      Start(*engine, tokens, 1)->Wait();
      best = std::min(best, SecondsBetween(start, Clock::now()));
    }
    const double gflops = 2 * matrix_params * tokens / best / 1e9;
    std::printf("prefill %4d tokens  %7.1f ms  %7.0f tokens/s  %6.0f GFLOP/s = %.0f %% of %.0f\n",
                tokens, best * 1e3, tokens / best, gflops, gflops / peak * 100, peak);
  }
}

// While 16 streams decode, a prompt of 4096 tokens arrives.
void Bench::Latency() {
  std::unique_ptr<Engine> engine = Load();
  constexpr int kStreams = 16, kTokens = 400;
  std::vector<std::shared_ptr<Stopwatch>> watches;
  for (int i = 0; i < kStreams; ++i) watches.push_back(Start(*engine, 16, kTokens));
  for (auto& watch : watches) watch->WaitForTokens(50);
  const auto arrival = Clock::now();
  const auto times = Start(*engine, 4096, 1)->Wait();
  const auto end = Clock::now();
  std::vector<double> before, during;
  for (auto& watch : watches) {
    const auto t = watch->Wait();
    for (size_t i = 1; i < t.size(); ++i) {
      const double gap_ms = SecondsBetween(t[i - 1], t[i]) * 1e3;
      if (t[i] <= arrival) before.push_back(gap_ms);
      if (t[i] > arrival && t[i] <= end) during.push_back(gap_ms);
    }
  }
  const auto percentile = [](std::vector<double> v, double p) {
    std::sort(v.begin(), v.end());
    return v.empty() ? 0.0 : v[static_cast<size_t>(p * (v.size() - 1))];
  };
  std::printf(
      "gaps of %d decoding streams: median %.1f ms before; while a prompt of 4096 is "
      "computed (%.2f s): median %.1f, p99 %.1f, max %.1f ms (target 100 + one step)\n",
      kStreams, percentile(before, .5), SecondsBetween(arrival, end), percentile(during, .5),
      percentile(during, .99), percentile(during, 1));
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: engine_bench MODEL [paging|batching|prefill|latency ...]\n");
    return 2;
  }
  const auto wanted = [&](const char* name) {
    if (argc == 2) return true;
    return std::any_of(argv + 2, argv + argc, [&](char* a) { return std::strcmp(a, name) == 0; });
  };
  quire::Bench bench(argv[1]);
  if (wanted("paging")) bench.Paging();
  if (wanted("batching")) bench.Batching();
  if (wanted("prefill")) bench.Prefill();
  if (wanted("latency")) bench.Latency();
  return 0;
}
