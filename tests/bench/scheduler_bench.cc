// What does a step cost the scheduler: Plan and Commit, without any model? Google Benchmark; its
// flags apply: scheduler_bench --benchmark_filter=decode --benchmark_repetitions=5
//
// The time is the mean over steps; min_us and p50_us are what to look at where others use the
// machine too.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"

#include "kernels/check.h"
#include "scheduler/scheduler.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 32;
constexpr int32_t kShortest = 512;     // context of a sequence that decodes
constexpr int32_t kLongest = 4096;     // prompt and generated tokens
constexpr int32_t kDecodeSteps = 512;  // until a set of sequences is made anew
constexpr int32_t kMargin = 128;       // steps that decode while others are still prompts
constexpr int32_t kWaiting = 512;

enum class Waiters : uint8_t { kNone, kForSlot, kForBlocks, kForPrefix };

// What the scheduler is asked to do.
struct Scene {
  std::string name;
  std::vector<int32_t> windows = {0};
  Waiters waiters = Waiters::kNone;
  bool replaces = false;     // sequences end, new ones come with their prompts, and evict others
  bool knows_cost = false;   // the cost model limits chunks
  bool in_lockstep = false;  // all need their next block in the same step
  bool is_cold = false;      // the step in between, as a model would, leaves nothing in L1 and L2
};

SchedulerConfig ConfigOf(const Scene& scene, int32_t num_running) {
  const auto num_groups = static_cast<int32_t>(scene.windows.size());
  const bool has_chunks = scene.replaces || scene.waiters == Waiters::kForPrefix;
  SchedulerConfig config;
  config.block_size = kBlockSize;
  config.group_windows = scene.windows;
  // Evicts all the time, or has a block for whatever comes.
  config.num_blocks = num_running * num_groups * (scene.replaces ? 88 : kLongest / kBlockSize);
  config.max_num_seqs = num_running;
  config.max_num_batched_tokens = num_running + (has_chunks ? 2048 : 65'536);
  config.max_queued_requests = kWaiting + num_running;
  config.max_logit_rows = num_running;
  if (scene.waiters == Waiters::kForBlocks) {
    // Those who run have set aside the whole pool, but for the watermark of a hundredth.
    config.admission = AdmissionMode::kReserve;
    config.num_blocks += config.num_blocks / 99 + 1;
    config.max_num_seqs += 16;
    config.max_logit_rows += 16;
  }
  if (scene.waiters == Waiters::kForPrefix) {
    config.max_num_batched_tokens = config.max_num_seqs + 16 + 512;
    config.num_blocks *= 4;
    config.max_num_seqs += 16;
    config.max_logit_rows += 16;
  }
  if (scene.in_lockstep) config.max_num_batched_tokens = num_running * kLongest;
  if (scene.knows_cost) {
    config.us_per_step = 500;
    config.us_per_row = 20;
    config.us_per_attended = 0.002;
  }
  return config;
}

// A scheduler with sequences that decode, and what the scene has beside them.
class Load {
 public:
  Load(Scene scene, int32_t num_running) : scene_(std::move(scene)), num_running_(num_running) {
    Fill();
  }

  struct Times {
    double plan_us = 0;
    double commit_us = 0;
  };

  Times Step() {
    if (IsOver()) Fill();
    ++num_steps_;
    if (scene_.is_cold) ReadMemory();
    return TimedStep();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double MicrosBetween(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double, std::micro>(end - begin).count();
  }

  bool IsOver() const {
    if (scene_.waiters == Waiters::kForPrefix) return num_steps_ == 31;
    return !scene_.replaces && num_steps_ == kDecodeSteps;
  }

  // A new scheduler with the prompts computed.
  void Fill() {
    scheduler_ = std::make_unique<Scheduler>(ConfigOf(scene_, num_running_));
    random_.seed(1);
    num_steps_ = 0;
    for (int32_t i = 0; i < num_running_; ++i) AddDecoder();
    do {
      TimedStep();
    } while (!IsFull());
    AddWaiters();
  }

  // All run and decode; or the pool is full of what those have left who are gone.
  bool IsFull() const {
    const BlockPool& pool = scheduler_->pool();
    return scene_.replaces ? pool.num_free() < pool.num_blocks() / 50
                           : num_decoding_ == num_running_;
  }

  // Decodes for long enough; with a prompt that nobody else has.
  void AddDecoder() {
    const int32_t longest = scene_.replaces ? kLongest / 2 : kLongest - kDecodeSteps - kMargin;
    int32_t length = UpTo(kShortest, longest);
    if (scene_.in_lockstep) length -= length % kBlockSize;
    const int32_t room = kLongest - length;
    Add(length, scene_.replaces ? UpTo(kShortest / 4, room) : room + 1);
  }

  int32_t UpTo(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  void Add(int32_t length, int32_t max_tokens) {
    auto request = std::make_shared<Request>();
    request->prompt_token_ids.resize(length);
    for (int32_t& token : request->prompt_token_ids) token = static_cast<int32_t>(random_() >> 1);
    request->max_tokens = max_tokens;
    request->stop_token_ids = {0};
    Add(std::move(request));
  }
  void Add(std::shared_ptr<const Request> request) {
    QUIRE_CHECK(scheduler_->Add(next_id_++, std::move(request), now_).ok(), "accepted");
  }

  void AddWaiters() {
    switch (scene_.waiters) {
      case Waiters::kNone:
        return;
      case Waiters::kForSlot:
      case Waiters::kForBlocks:
        for (int32_t i = 0; i < kWaiting; ++i) Add(2048, 100);
        return;
      case Waiters::kForPrefix: {
        // One document that all ask about: the first computes it, the others wait for it.
        auto request = std::make_shared<Request>();
        for (int32_t i = 0; i < 16'384; ++i) request->prompt_token_ids.push_back(i);
        request->max_tokens = 100;
        for (int32_t i = 0; i < kWaiting; ++i) Add(request);
        return;
      }
    }
  }

  // As between two steps of a model: what the caches of the core held is gone.
  void ReadMemory() {
    elsewhere_.resize(size_t{8} << 20);
    uint64_t sum = 0;
    for (size_t i = 0; i < elsewhere_.size(); i += 64) sum += ++elsewhere_[i];
    benchmark::DoNotOptimize(sum);
  }

  Times TimedStep() {
    now_ += 10'000;
    const Clock::time_point start = Clock::now();
    const StepPlan& plan = scheduler_->Plan(now_);
    const Clock::time_point planned = Clock::now();
    QUIRE_CHECK(plan.num_tokens > 0, "something runs");
    results_.resize(plan.sequences.size());
    tokens_.resize(plan.sequences.size());
    num_decoding_ = 0;
    for (size_t i = 0; i < results_.size(); ++i) {
      const PlannedSequence& sequence = plan.sequences[i];
      tokens_[i] = static_cast<int32_t>(random_() >> 1) | 1;
      results_[i].token_ids = absl::MakeConstSpan(&tokens_[i], sequence.num_draws);
      num_decoding_ += sequence.num_draws;
    }
    const Clock::time_point drawn = Clock::now();
    const CommitResult& committed = scheduler_->Commit(plan.step_id, results_, now_);
    const Clock::time_point end = Clock::now();
    for (size_t i = 0; i < committed.ended.size(); ++i) AddDecoder();
    return {MicrosBetween(start, planned), MicrosBetween(drawn, end)};
  }

  const Scene scene_;
  const int32_t num_running_;
  std::unique_ptr<Scheduler> scheduler_;
  std::mt19937 random_;
  SequenceId next_id_ = 1;
  TimeUs now_ = 0;
  int32_t num_steps_ = 0;
  int32_t num_decoding_ = 0;  // drew in the last step
  std::vector<SequenceResult> results_;
  std::vector<int32_t> tokens_;
  std::vector<uint8_t> elsewhere_;
};

double Lowest(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void PlanAndCommit(benchmark::State& state, const Scene& scene, int32_t num_running) {
  Load load(scene, num_running);
  std::vector<double> steps_us, plans_us, commits_us;
  for (auto _ : state) {
    const Load::Times times = load.Step();
    plans_us.push_back(times.plan_us);
    commits_us.push_back(times.commit_us);
    steps_us.push_back(times.plan_us + times.commit_us);
    state.SetIterationTime(steps_us.back() / 1e6);
  }
  state.counters["min_us"] = Lowest(steps_us);
  state.counters["p50_us"] = Median(steps_us);
  state.counters["p50_ns_per_seq"] = Median(steps_us) * 1000 / num_running;
  state.counters["p50_plan_us"] = Median(plans_us);
  state.counters["p50_commit_us"] = Median(commits_us);
}

void RegisterAll() {
  const std::vector<Scene> scenes = {
      {.name = "decode"},
      {.name = "decode_cold", .is_cold = true},
      {.name = "full_and_window", .windows = {0, 1024}},
      {.name = "lockstep", .in_lockstep = true},
      {.name = "waiting_for_slots", .waiters = Waiters::kForSlot},
      {.name = "waiting_for_blocks", .waiters = Waiters::kForBlocks},
      {.name = "waiting_for_prefix", .waiters = Waiters::kForPrefix},
      {.name = "chunks", .replaces = true},
      {.name = "chunks_with_cost", .replaces = true, .knows_cost = true},
  };
  for (const Scene& scene : scenes) {
    for (const int32_t num_running : {16, 64, 256, 1024}) {
      if (scene.waiters == Waiters::kForPrefix && num_running > 64) continue;  // slow to fill
      const std::string name = scene.name + "/" + std::to_string(num_running);
      benchmark::RegisterBenchmark(name.c_str(), PlanAndCommit, scene, num_running)
          ->Unit(benchmark::kMicrosecond)
          ->UseManualTime()
          ->ComputeStatistics("min", Lowest);
    }
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  // As in a server: while a process has one thread only, shared_ptr counts without atomics.
  std::thread([] {}).join();
  quire::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
