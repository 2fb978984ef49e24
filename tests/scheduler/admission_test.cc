// Who may enter the queue, who leaves it, and in which order.
#include "gmock/gmock.h"

#include "tests/scheduler/scheduler_fixture.h"

namespace quire {
namespace {

using testing::StartsWith;
using AdmissionTest = SchedulerTest;

TEST_F(AdmissionTest, FullQueueRefusesWithTheNumbers) {
  config.max_queued_requests = 2;
  EXPECT_EQ(Add('a', 4), "");
  EXPECT_EQ(Add('b', 4), "");
  EXPECT_EQ(Add('c', 4), "QUEUE_FULL: 2 requests are waiting, the limit is 2");
  Step();
  EXPECT_EQ(Add('c', 4), "");
}

TEST_F(AdmissionTest, QueuedPrefillTokensAreBounded) {
  config.max_queued_prefill_tokens = 50;
  EXPECT_EQ(Add('a', 60), "") << "an empty queue takes any request that fits";
  EXPECT_EQ(Add('b', 1),
            "QUEUE_FULL: 60 prefill tokens are waiting, 1 more would exceed the limit of 50");
}

TEST_F(AdmissionTest, RequestPastTheModelLengthIsRefusedWithTheNumbers) {
  config.max_model_len = 32;
  EXPECT_EQ(Add('a', 30, 3),
            "CONTEXT_LENGTH_EXCEEDED: 30 prompt tokens and max_tokens 3 make 33, the limit is 32");
  EXPECT_EQ(Add('b', 30, 2), "");
}

TEST_F(AdmissionTest, RequestThatCannotFitAloneIsRefusedWithTheNumbers) {
  config.num_blocks = 8;  // 32 tokens
  EXPECT_EQ(Add('a', 30, 4),
            "REQUEST_EXCEEDS_KV_CAPACITY: 30 prompt tokens and max_tokens 4 need 9 KV blocks of 4 "
            "tokens, the pool has 8, enough for 32 tokens");
  EXPECT_EQ(Add('b', 30, 3), "") << "the last token drawn needs no slot";
  EXPECT_EQ(RunToEnd(), 3);
}

TEST_F(AdmissionTest, QueuePositionCountsThoseAhead) {
  Add('a', 4);
  EXPECT_EQ(last_added.queue_position, 0);
  Add('b', 4);
  EXPECT_EQ(last_added.queue_position, 1);
  Add('c', Ask{.prompt = Fresh(4), .priority = 1});
  EXPECT_EQ(last_added.queue_position, 0);
}

TEST_F(AdmissionTest, HigherPriorityIsServedFirst) {
  config.max_num_seqs = 1;
  config.max_num_batched_tokens = 8;
  Add('a', 4, 1);
  Add('b', Ask{.prompt = Fresh(4), .max_tokens = 1, .priority = -1});
  Add('c', Ask{.prompt = Fresh(4), .max_tokens = 1, .priority = 100});
  EXPECT_EQ(Step(), "c:+4@0 / c=length");
  EXPECT_EQ(Step(), "a:+4@0 / a=length");
  EXPECT_EQ(Step(), "b:+4@0 / b=length");
}

TEST_F(AdmissionTest, SmallRequestsPassABlockedLargeOneABoundedNumberOfTimes) {
  config.num_blocks = 8;
  config.max_overtakes = 2;
  config.prefix_caching = false;
  Add('a', 14, 19);  // 4 blocks now, 8 in the end
  EXPECT_EQ(Step(), "a:+14@0");
  Add('b', 20, 1);  // 5 blocks
  for (const char small : {'c', 'd', 'e'}) Add(small, 4, 1);
  EXPECT_EQ(Step(), "a:+1@14 c:+4@0 d:+4@0 / c=length d=length");
  EXPECT_EQ(Step(), "a:+1@15") << "b has been passed twice: e waits behind it";
  for (int i = 0; i < 16; ++i) EXPECT_THAT(Step(), StartsWith("a:+1@"));
  EXPECT_EQ(Step(), "b:+20@0 e:+4@0 / b=length e=length");
}

TEST_F(AdmissionTest, ReserveModeAdmitsOnlyWhatItCanHoldToTheEnd) {
  config.admission = AdmissionMode::kReserve;
  config.num_blocks = 8;
  Add('a', 4, 13);  // 16 positions: 4 blocks
  Add('b', 4, 13);
  Add('c', 4, 13);
  EXPECT_EQ(Step(), "a:+4@0 b:+4@0");
  RunToEnd();
  EXPECT_EQ(scheduler().Stats().num_preemptions, 0);
}

TEST_F(AdmissionTest, OptimisticModeAdmitsByTheTokensThereAre) {
  config.num_blocks = 8;
  for (const char name : {'a', 'b', 'c'}) Add(name, 4, 13);
  EXPECT_EQ(Step(), "a:+4@0 b:+4@0 c:+4@0");
}

TEST_F(AdmissionTest, BlocksOfRunningPromptsAreNotPromisedTwice) {
  config.num_blocks = 8;
  config.max_num_batched_tokens = 12;
  Add('a', 24, 1);  // 6 blocks, taken chunk by chunk
  Add('b', 12, 1);  // 3 blocks: free while a has 3, but claimed
  EXPECT_EQ(Step(), "a:+12@0");
  EXPECT_EQ(Step(), "a:+12@12 / a=length");
  EXPECT_EQ(Step(), "b:+12@0 / b=length");
  EXPECT_EQ(scheduler().Stats().num_preemptions, 0);
}

TEST_F(AdmissionTest, UntouchedBlocksAreWaitedFor) {
  config.num_blocks = 8;
  scheduler().SetTouchedBlocks(0);
  Add('a', 6, 4);
  EXPECT_EQ(Plan(), "");
  scheduler().SetTouchedBlocks(2);
  EXPECT_EQ(Step(), "a:+6@0");
  EXPECT_EQ(Step(), "a:+1@6");
  EXPECT_EQ(Step(), "a:+1@7");
  EXPECT_EQ(Plan(), "") << "not preempted: memory is on its way";
  scheduler().SetTouchedBlocks(8);
  EXPECT_EQ(Step(), "a:+1@8 / a=length");
  EXPECT_EQ(scheduler().Stats().num_preemptions, 0);
}

TEST_F(AdmissionTest, NewcomerAmongDecodersGetsItsTokenWithinItsChunksAndTwoSteps) {
  config.max_num_seqs = 32;
  config.max_num_batched_tokens = 64;
  config.num_blocks = 512;
  config.max_queued_requests = 64;
  for (SequenceId id = 0; id < 31; ++id) Add(static_cast<char>('a' + id), 4, 400);
  for (int i = 0; i < 4; ++i) Step();
  Add(static_cast<char>('a' + 31), 100, 4);  // 64 - 31 decoders: 4 chunks of at most 33
  int steps = 0;
  do {
    Step();
    ++steps;
  } while (last_commit.tokens.back().id != Id(static_cast<char>('a' + 31)));
  EXPECT_LE(steps, 4 + 2);
}

}  // namespace
}  // namespace quire
