#include "engine/inbox.h"

#include <thread>

#include "gtest/gtest.h"

namespace quire {
namespace {

TEST(InboxTest, GivesEverythingAtOnceAndThenNothing) {
  Inbox inbox(4);
  ASSERT_TRUE(inbox.Put(Submission{.id = 1}));
  ASSERT_TRUE(inbox.Put(Submission{.id = 2}));
  inbox.Put(Ending{1, EndReason::kAborted});
  inbox.EndQueued();
  InboxContent content;
  inbox.Take(absl::InfiniteDuration(), &content);
  ASSERT_EQ(content.submissions.size(), 2u);
  EXPECT_EQ(content.submissions[1].id, 2u);
  ASSERT_EQ(content.endings.size(), 1u);
  EXPECT_EQ(content.endings[0].reason, EndReason::kAborted);
  EXPECT_TRUE(content.end_queued);
  inbox.Take(absl::ZeroDuration(), &content);
  EXPECT_TRUE(content.submissions.empty());
  EXPECT_TRUE(content.endings.empty());
  EXPECT_FALSE(content.end_queued);
}

TEST(InboxTest, RefusesMoreSubmissionsThanItHoldsButNeverAnEnding) {
  Inbox inbox(1);
  EXPECT_TRUE(inbox.Put(Submission{.id = 1}));
  EXPECT_FALSE(inbox.Put(Submission{.id = 2}));
  inbox.Put(Ending{1, EndReason::kCancelled});
  InboxContent content;
  inbox.Take(absl::ZeroDuration(), &content);
  EXPECT_EQ(content.submissions.size(), 1u);
  EXPECT_EQ(content.endings.size(), 1u);
  EXPECT_TRUE(inbox.Put(Submission{.id = 3})) << "taking makes room";
}

TEST(InboxTest, AcceptsNothingOnceStopped) {
  Inbox inbox(4);
  inbox.Stop();
  EXPECT_FALSE(inbox.Put(Submission{.id = 1}));
  InboxContent content;
  inbox.Take(absl::InfiniteDuration(), &content);
  EXPECT_TRUE(content.stop);
}

TEST(InboxTest, APutFromAnotherThreadEndsTheWait) {
  Inbox inbox(4);
  std::thread writer([&] { EXPECT_TRUE(inbox.Put(Submission{.id = 9})); });
  InboxContent content;
  inbox.Take(absl::InfiniteDuration(), &content);
  writer.join();
  ASSERT_EQ(content.submissions.size(), 1u);
  EXPECT_EQ(content.submissions[0].id, 9u);
}

TEST(InboxTest, AWakeEndsTheWaitWithoutContent) {
  Inbox inbox(4);
  std::thread waker([&] { inbox.Wake(); });
  InboxContent content;
  inbox.Take(absl::InfiniteDuration(), &content);
  waker.join();
  EXPECT_TRUE(content.submissions.empty());
}

}  // namespace
}  // namespace quire
