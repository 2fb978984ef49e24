#include "server/access_log.h"

#include "gtest/gtest.h"

namespace quire {
namespace {

TEST(AccessLogTest, RefusalsBeyondTheLimitOfAWindowAreCountedAndToldInTheNext) {
  AccessLog log;
  AccessLog::Clock::time_point now;
  int64_t num_untold = 0;
  for (int i = 0; i < AccessLog::kMaxRefusals; ++i) {
    EXPECT_TRUE(log.MayTellRefusal(now, &num_untold));
    EXPECT_EQ(num_untold, 0);
  }
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(log.MayTellRefusal(now, &num_untold));
  now += AccessLog::kWindow - std::chrono::milliseconds(1);
  EXPECT_FALSE(log.MayTellRefusal(now, &num_untold));
  now += std::chrono::milliseconds(1);
  EXPECT_TRUE(log.MayTellRefusal(now, &num_untold));
  EXPECT_EQ(num_untold, 8);
  num_untold = 0;
  EXPECT_TRUE(log.MayTellRefusal(now, &num_untold));
  EXPECT_EQ(num_untold, 0);
}

}  // namespace
}  // namespace quire
