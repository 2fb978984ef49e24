#ifndef QUIRE_TESTS_SIM_WORKLOAD_H_
#define QUIRE_TESTS_SIM_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/testing/request_trace.h"

namespace quire {

// A seeded source of everything that is random in a simulation.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : engine_(seed) {}
  uint64_t Bits() { return engine_(); }
  int32_t Pick(int32_t low, int32_t high) {  // both included
    return low + static_cast<int32_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int32_t percent) { return Pick(0, 99) < percent; }
  bool ChancePerMille(int32_t per_mille) { return Pick(0, 999) < per_mille; }
  // Mostly short, sometimes as long as `high`.
  int32_t LongTail(int32_t low, int32_t high) {
    return Chance(80) ? Pick(low, low + (high - low) / 8) : Pick(low, high);
  }

 private:
  std::mt19937_64 engine_;
};

// What a client does, beside asking.
struct SimArrival {
  TimeUs at = 0;
  std::shared_ptr<Request> request;
  TimeUs goes_away_after = kNever;  // since `at`
  EndReason goes_away_as = EndReason::kCancelled;
};

// Workload makes the requests of a scenario: when they come, what they share, how long they are.
// The kinds are those that real servers see: independent ones, system prompts, conversations
// (whose next turn holds the last one and its answer), trees of agents, bursts, traces.
//
// Owned by World, one thread.
class Workload {
 public:
  // `num_requests` in all. `contends`: long outputs at once, for memory to be short. `trace`:
  // empty, or requests that are replayed.
  Workload(const SchedulerConfig& config, int32_t vocab_size, int32_t num_requests, bool contends,
           const std::vector<TraceRequest>& trace, SimRandom* random);

  bool is_over() const { return num_left_ == 0; }
  // REQUIRES: !is_over(). `transcript`: tokens of a request that ended; empty: none did.
  SimArrival Next(TimeUs now, std::vector<int32_t> transcript);

 private:
  std::vector<int32_t> MakePrompt(std::vector<int32_t> transcript);
  std::vector<int32_t> PromptOf(const TraceRequest& request) const;
  void AppendRandom(std::vector<int32_t>* tokens, int32_t count);
  void AddOptions(TimeUs now, Request* request);
  void AddRules(Request* request);
  TimeUs NextGap();

  const SchedulerConfig config_;
  const int32_t vocab_size_;
  const bool contends_;
  const std::vector<TraceRequest>& trace_;
  SimRandom& random_;
  int32_t num_left_ = 0;
  size_t next_of_trace_ = 0;
  TimeUs last_arrival_ = 0;

  // The character of this scenario.
  int32_t longest_prompt_ = 0;
  int32_t longest_output_ = 0;
  TimeUs mean_gap_us_ = 0;
  int32_t burst_left_ = 0;
  bool bursts_ = false;
  bool converses_ = false;  // prompts continue what ended
  bool branches_ = false;   // prompts branch off from each other
  bool stops_early_ = false;
  int32_t impatient_percent_ = 0;
  std::vector<std::vector<int32_t>> families_;  // prefixes that requests share
};

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_WORKLOAD_H_
