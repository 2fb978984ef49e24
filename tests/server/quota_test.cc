#include "server/quota.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/errors.h"

namespace quire {
namespace {

constexpr TimeUs kSecond = 1'000'000;

// "" when it was let in, else which limit it was and after how many ms to try again.
std::string Try(Quota& quota, TimeUs now) {
  const absl::Status status = quota.Enter("search", now);
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "TENANT_QUOTA");
  EXPECT_EQ(MetadataOf(status)["tenant"], "search");
  return MetadataOf(status)["quota"] + " " + std::to_string(*RetryDelayMs(status));
}

TEST(TokenBucketTest, BeginsFullAndFillsToItsBurst) {
  TokenBucket bucket;
  bucket.SetRate(/*rate=*/2, /*burst=*/3, 0);
  EXPECT_EQ(bucket.WaitFor(3, 10 * kSecond), 0);
  bucket.Take(3, 10 * kSecond);
  EXPECT_EQ(bucket.WaitFor(1, 10 * kSecond), kSecond / 2);
  EXPECT_EQ(bucket.WaitFor(1, 10 * kSecond + kSecond / 4), kSecond / 4);
  EXPECT_EQ(bucket.WaitFor(3, 99 * kSecond), 0);
  bucket.Take(8, 99 * kSecond);  // in debt: 5
  EXPECT_EQ(bucket.WaitFor(1, 99 * kSecond), 3 * kSecond);
}

TEST(QuotaTest, WithoutLimitsEverybodyComesIn) {
  Quota quota;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Try(quota, 0), "");
}

TEST(QuotaTest, RequestsASecondAllowASecondsWorthAtOnce) {
  Quota quota;
  quota.SetLimits({.requests_per_second = 4}, 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Try(quota, 0), "");
  EXPECT_EQ(Try(quota, 0), "requests_per_second 250");
  EXPECT_EQ(Try(quota, kSecond / 4), "");
  EXPECT_EQ(Try(quota, kSecond / 4), "requests_per_second 250");
}

TEST(QuotaTest, LessThanOneRequestASecondStillLetsOneIn) {
  Quota quota;
  quota.SetLimits({.requests_per_second = 0.1}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  EXPECT_EQ(Try(quota, 4 * kSecond), "requests_per_second 6000");
  EXPECT_EQ(Try(quota, 10 * kSecond), "");
}

TEST(QuotaTest, TokensArePaidAfterwards) {
  Quota quota;
  quota.SetLimits({.tokens_per_minute = 600}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  quota.UseTokens(1600, 0);  // 1000 more than there were
  EXPECT_EQ(Try(quota, 0), "tokens_per_minute 100100");
  EXPECT_EQ(Try(quota, 60 * kSecond), "tokens_per_minute 40100");
  EXPECT_EQ(Try(quota, 101 * kSecond), "");
}

TEST(QuotaTest, ConcurrentRequestsLeaveARoomForOthers) {
  Quota quota;
  quota.SetLimits({.max_concurrent_requests = 2}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  EXPECT_EQ(Try(quota, 0), "");
  EXPECT_EQ(Try(quota, 0), "max_concurrent_requests 1000");
  quota.Leave();
  EXPECT_EQ(Try(quota, 0), "");
}

TEST(QuotaTest, ARefusalUsesNothing) {
  Quota quota;
  quota.SetLimits({.requests_per_second = 1, .max_concurrent_requests = 1}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Try(quota, 2 * kSecond), "max_concurrent_requests 1000");
  }
  quota.Leave();
  EXPECT_EQ(Try(quota, 2 * kSecond), "");
}

TEST(QuotaTest, NewLimitsCountWhatWasUsedAndWhatTheOldOnesGave) {
  Quota quota;
  quota.SetLimits({.tokens_per_minute = 600}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  quota.UseTokens(600 + 99, 0);  // 100 more than lets another one in
  quota.SetLimits({.tokens_per_minute = 6000, .max_concurrent_requests = 1}, kSecond);
  EXPECT_EQ(Try(quota, kSecond), "max_concurrent_requests 1000");
  quota.Leave();
  // The first second gave 10 tokens, and each one after it 100.
  EXPECT_EQ(Try(quota, kSecond), "tokens_per_minute 900");
  EXPECT_EQ(Try(quota, 2 * kSecond), "");
}

TEST(QuotaTest, NobodyIsToldToWaitForMoreThanADay) {
  Quota quota;
  quota.SetLimits({.requests_per_second = 1e-300}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  EXPECT_EQ(Try(quota, 0), "requests_per_second 86400000");
}

TEST(QuotaTest, WhatWasUsedWithoutALimitIsNoDebt) {
  Quota quota;
  quota.UseTokens(1'000'000, 0);
  quota.SetLimits({.tokens_per_minute = 60}, 0);
  EXPECT_EQ(Try(quota, 0), "");
  quota.UseTokens(61, 0);
  EXPECT_EQ(Try(quota, 0), "tokens_per_minute 2000");
}

}  // namespace
}  // namespace quire
