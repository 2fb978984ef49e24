#include "tests/sim/workload.h"

#include <algorithm>
#include <cmath>

#include "tests/sim/shadow_model.h"

namespace quire {
namespace {

constexpr int32_t kTraceSpeedUp = 20;  // of timestamps, so that a small pool sees a load

}  // namespace

Workload::Workload(const SchedulerConfig& config, int32_t vocab_size, int32_t num_requests,
                   bool contends, const std::vector<TraceRequest>& trace, SimRandom* random)
    : config_(config),
      vocab_size_(vocab_size),
      contends_(contends),
      trace_(trace),
      random_(*random),
      num_left_(num_requests) {
  longest_prompt_ = random_.Pick(4, 40);
  longest_output_ = random_.Chance(50) ? 60 : 16;
  mean_gap_us_ = random_.Chance(25) ? random_.Pick(0, 20'000) : random_.Pick(0, 2'000);
  bursts_ = random_.Chance(30);
  converses_ = random_.Chance(40);
  branches_ = random_.Chance(30);
  stops_early_ = random_.Chance(50);
  impatient_percent_ = random_.Chance(30) ? 30 : 3;
  const int32_t num_families = random_.Pick(1, 4);
  for (int32_t i = 0; i < num_families; ++i) {
    AppendRandom(&families_.emplace_back(), random_.Pick(1, 30));
  }
  if (contends_) {
    longest_output_ = 60;
    mean_gap_us_ = random_.Pick(0, 500);
    impatient_percent_ = 3;
    stops_early_ = false;
  }
  if (!trace_.empty()) {
    next_of_trace_ = random_.Bits() % trace_.size();
  }
}

void Workload::AppendRandom(std::vector<int32_t>* tokens, int32_t count) {
  for (int32_t i = 0; i < count; ++i) tokens->push_back(random_.Pick(0, vocab_size_ - 1));
}

TimeUs Workload::NextGap() {
  if (bursts_) {
    if (burst_left_-- > 0) return 0;
    burst_left_ = random_.Pick(1, 12);
    return random_.Pick(0, 100) * mean_gap_us_ / 10;
  }
  // Poisson arrivals.
  const double u = random_.Pick(1, 1'000'000) / 1e6;
  return static_cast<TimeUs>(-std::log(u) * static_cast<double>(mean_gap_us_));
}

// A block of 512 tokens becomes one of block_size tokens, which its id determines.
std::vector<int32_t> Workload::PromptOf(const TraceRequest& request) const {
  std::vector<int32_t> prompt;
  const int32_t scale = std::max(1, kTraceBlockTokens / config_.block_size);
  const int32_t length = std::max(1, request.input_length / scale);
  for (int32_t i = 0; i < length; ++i) {
    const auto block = static_cast<size_t>(i / config_.block_size);
    const int32_t id = block < request.hash_ids.size() ? request.hash_ids[block] : -1;
    const uint64_t bits =
        MixBits(static_cast<uint64_t>(id) * 131 + static_cast<uint64_t>(i % config_.block_size));
    prompt.push_back(static_cast<int32_t>(bits % static_cast<uint64_t>(vocab_size_)));
  }
  return prompt;
}

std::vector<int32_t> Workload::MakePrompt(std::vector<int32_t> transcript) {
  std::vector<int32_t> prompt;
  if (converses_ && !transcript.empty() && random_.Chance(60)) {
    prompt = std::move(transcript);
    if (prompt.size() > 60) prompt.resize(60);
  } else if (random_.Chance(80)) {
    prompt = families_[random_.Pick(0, static_cast<int32_t>(families_.size()) - 1)];
    if (random_.Chance(40)) prompt.resize(random_.Pick(1, static_cast<int32_t>(prompt.size())));
  }
  if (prompt.empty() || random_.Chance(70)) {
    AppendRandom(&prompt, random_.LongTail(1, longest_prompt_));
  }
  if (branches_ && random_.Chance(50)) {
    families_[random_.Pick(0, static_cast<int32_t>(families_.size()) - 1)] = prompt;
  }
  return prompt;
}

SimArrival Workload::Next(TimeUs now, std::vector<int32_t> transcript) {
  --num_left_;
  SimArrival arrival;
  arrival.request = std::make_shared<Request>();
  Request& request = *arrival.request;
  if (!trace_.empty()) {
    const TraceRequest& traced = trace_[next_of_trace_];
    next_of_trace_ = (next_of_trace_ + 1) % trace_.size();
    const TraceRequest& next = trace_[next_of_trace_];
    request.prompt_token_ids = PromptOf(traced);
    request.max_tokens = std::max(1, traced.output_length * config_.block_size / kTraceBlockTokens);
    arrival.at = std::max(now, last_arrival_);
    const int64_t gap_ms = std::max<int64_t>(0, next.timestamp_ms - traced.timestamp_ms);
    last_arrival_ = arrival.at + gap_ms * 1000 / kTraceSpeedUp;
  } else {
    request.prompt_token_ids = MakePrompt(std::move(transcript));
    request.max_tokens = random_.Chance(8) ? 0 : random_.LongTail(1, longest_output_);
    if (contends_) request.max_tokens = random_.Pick(10, longest_output_);
    last_arrival_ = std::max(now, last_arrival_) + NextGap();
    arrival.at = last_arrival_;
    AddOptions(arrival.at, &request);
  }
  request.sampling.seed = random_.Chance(50) ? 0 : random_.Bits() % 4;
  AddRules(&request);
  if (random_.Chance(impatient_percent_)) {
    arrival.goes_away_after = random_.LongTail(0, 400'000);
    const EndReason ways[] = {EndReason::kCancelled, EndReason::kAborted, EndReason::kSlowConsumer};
    arrival.goes_away_as = ways[random_.Pick(0, 2)];
  }
  return arrival;
}

void Workload::AddOptions(TimeUs now, Request* request) {
  if (random_.Chance(30)) request->priority = random_.Pick(-2, 2);
  if (random_.Chance(10)) request->cache_salt = "tenant";
  if (random_.Chance(8)) request->deadline = now + random_.Pick(0, 200'000);
  if (random_.Chance(8)) request->time_limit = now + random_.Pick(0, 200'000);
  if (random_.Chance(8)) request->queue_deadline = now + random_.Pick(0, 50'000);
}

void Workload::AddRules(Request* request) {
  if (random_.Chance(25)) request->num_choices = random_.Pick(2, 5);
  if (random_.Chance(10)) request->logits = static_cast<LogitsWanted>(random_.Pick(1, 2));
  if (random_.Chance(6)) request->num_prompt_logprobs = 0;
  const int32_t stops_percent = stops_early_ ? 60 : contends_ ? 30 : 10;
  if (request->max_tokens == 0 || !random_.Chance(stops_percent)) return;
  // A token that it is going to draw, so that it does stop: known beforehand, like everything.
  const ShadowTruth truth(*request, 0, config_.group_windows, vocab_size_);
  const auto num_prompt = static_cast<int32_t>(request->prompt_token_ids.size());
  request->stop_token_ids = {truth.tokens[num_prompt + random_.Pick(0, request->max_tokens - 1)]};
}

}  // namespace quire
