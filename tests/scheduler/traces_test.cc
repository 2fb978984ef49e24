// How many real requests fit at once, paged against contiguous reservation.
#include <algorithm>
#include <cstdio>

#include "tests/scheduler/scheduler_fixture.h"
#include "tests/testing/request_trace.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

struct TraceName {
  const char* name;
  std::string path;
};

class TracesTest : public SchedulerTest, public testing::WithParamInterface<TraceName> {};

TEST_P(TracesTest, PagedMemoryHoldsSeveralTimesTheSequencesOfContiguousReservation) {
  std::vector<TraceRequest> trace = ReadTrace(GetParam().path);
  if (trace.empty()) GTEST_SKIP() << GetParam().path << " is not here";
  trace.resize(std::min<size_t>(trace.size(), 400));

  constexpr int32_t kMaxModelLen = 131'072;
  constexpr int32_t kContiguous = 8;  // sequences, each with kMaxModelLen slots of its own
  config.block_size = 32;
  config.num_blocks = kContiguous * kMaxModelLen / config.block_size;
  config.max_model_len = kMaxModelLen;
  config.max_num_seqs = 400;
  config.max_num_batched_tokens = 65'536;
  config.max_logit_rows = 400;
  config.max_queued_requests = 400;
  config.admission = AdmissionMode::kReserve;  // every one of them can run to its end
  config.prefix_caching = false;
  SequenceId id = 0;
  for (const TraceRequest& traced : trace) {
    auto request = std::make_shared<Request>();
    request->prompt_token_ids.assign(traced.input_length, 1);
    request->max_tokens = std::max(1, traced.output_length);
    if (traced.input_length + request->max_tokens > kMaxModelLen) continue;
    ASSERT_TRUE(scheduler().Add(++id, request, now).ok());
  }
  int32_t most_at_once = 0;
  int64_t most_wasted = 0;
  for (int step = 0; step < 40 && scheduler().HasWork(); ++step) {
    const StepPlan& plan = scheduler().Plan(now);
    for (const PlannedSequence& planned : plan.sequences) {
      for (const std::vector<int32_t>& table : planned.block_tables) {
        const int64_t slots = static_cast<int64_t>(table.size()) * config.block_size;
        most_wasted = std::max(most_wasted, slots - planned.first_position - planned.num_tokens);
      }
    }
    const int32_t drawn = 0;
    std::vector<SequenceResult> results(plan.sequences.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (plan.sequences[i].num_draws > 0) results[i].token_ids = absl::MakeConstSpan(&drawn, 1);
    }
    scheduler().Commit(plan.step_id, results, now);
    most_at_once = std::max(most_at_once, scheduler().Stats().num_running);
  }
  std::printf("%s: %d sequences at once, contiguous reservation of %d tokens holds %d\n",
              GetParam().name, most_at_once, kMaxModelLen, kContiguous);
  EXPECT_GE(most_at_once, 4 * kContiguous);
  EXPECT_LE(most_wasted, config.block_size - 1) << "slots per sequence";
}

INSTANTIATE_TEST_SUITE_P(
    Traces, TracesTest,
    testing::Values(
        TraceName{"OwnSample", OwnGoldenPath("traces/lengths.jsonl")},
        TraceName{"Conversation", ThirdPartyGoldenPath("../traces/conversation_trace.jsonl")},
        TraceName{"Synthetic", ThirdPartyGoldenPath("../traces/synthetic_trace.jsonl")}),
    [](const testing::TestParamInfo<TraceName>& trace) { return std::string(trace.param.name); });

}  // namespace
}  // namespace quire
