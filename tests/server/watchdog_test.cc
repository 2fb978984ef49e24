#include "server/watchdog.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace quire {
namespace {

TEST(SilenceMeterTest, AddsUpTimeInWhichTheSignStaysTheSame) {
  SilenceMeter meter(/*max_gap=*/100);
  EXPECT_EQ(meter.Measure(1000, 7), 0);
  EXPECT_EQ(meter.Measure(1040, 7), 40);
  EXPECT_EQ(meter.Measure(1100, 7), 100);
  EXPECT_EQ(meter.Measure(1150, 8), 0);
  EXPECT_EQ(meter.Measure(1160, 8), 10);
}

TEST(SilenceMeterTest, ASuspendedProcessIsNotASilentOne) {
  SilenceMeter meter(/*max_gap=*/100);
  EXPECT_EQ(meter.Measure(1000, 7), 0);
  EXPECT_EQ(meter.Measure(9'000'000, 7), 100);
  EXPECT_EQ(meter.Measure(9'000'050, 7), 150);
}

constexpr absl::Duration kPatience = absl::Minutes(1);

TEST(WatchdogTest, SilenceIsToldThenItsEnd) {
  std::atomic<TimeUs> sign = 1;
  std::atomic<int> num_silences = 0;
  absl::Notification silent, alive_again;
  Watchdog::Hooks hooks;
  hooks.on_change = [&](bool alive) {
    if (alive && !alive_again.HasBeenNotified()) alive_again.Notify();
  };
  hooks.on_silence = [&](TimeUs silence) {
    EXPECT_GE(silence, 20'000);
    if (num_silences.fetch_add(1) == 0) silent.Notify();
  };
  hooks.on_fatal = [](TimeUs) { ADD_FAILURE() << "no minute has passed"; };
  Watchdog watchdog({.silent_ms = 20, .fatal_ms = 60'000}, hooks);
  watchdog.Watch([] { return TimeUs{1}; });
  ASSERT_TRUE(silent.WaitForNotificationWithTimeout(kPatience));
  // One that moves: a sign that differs in every look.
  watchdog.Watch([&] { return sign.fetch_add(1); });
  EXPECT_TRUE(alive_again.WaitForNotificationWithTimeout(kPatience));
}

TEST(WatchdogTest, ASilenceThatGoesOnIsToldOnceAndIsFatalOnce) {
  std::atomic<int> num_silences = 0;
  std::atomic<int> num_fatal = 0;
  absl::Notification fatal;
  std::atomic<int> num_looks_after = 0;
  absl::Notification looked_after;
  Watchdog::Hooks hooks;
  hooks.on_change = [](bool alive) { EXPECT_FALSE(alive) << "nothing has moved"; };
  hooks.on_silence = [&](TimeUs) { ++num_silences; };
  hooks.on_fatal = [&](TimeUs silence) {
    EXPECT_GE(silence, 100'000);
    EXPECT_EQ(num_silences.load(), 1);
    if (++num_fatal == 1) fatal.Notify();
  };
  Watchdog watchdog({.silent_ms = 20, .fatal_ms = 100}, hooks);
  watchdog.Watch([] { return TimeUs{7}; });
  ASSERT_TRUE(fatal.WaitForNotificationWithTimeout(kPatience));
  // Something else to look at, which has given no other sign: the silence goes on.
  watchdog.Watch([&] {
    if (++num_looks_after == 3) looked_after.Notify();
    return TimeUs{7};
  });
  ASSERT_TRUE(looked_after.WaitForNotificationWithTimeout(kPatience));
  watchdog.Watch(nullptr);
  EXPECT_EQ(num_silences.load(), 1);
  EXPECT_EQ(num_fatal.load(), 1);
}

TEST(WatchdogTest, WithoutAFatalLimitItGoesOnWatching) {
  absl::Notification silent, alive_again;
  Watchdog::Hooks hooks;
  hooks.on_change = [&](bool alive) {
    if (alive && !alive_again.HasBeenNotified()) alive_again.Notify();
  };
  hooks.on_silence = [&](TimeUs) {
    if (!silent.HasBeenNotified()) silent.Notify();
  };
  hooks.on_fatal = [](TimeUs) { ADD_FAILURE() << "fatal_ms is 0"; };
  std::atomic<TimeUs> sign = 1;
  Watchdog watchdog({.silent_ms = 10, .fatal_ms = 0}, hooks);
  watchdog.Watch([&] { return TimeUs{1}; });
  ASSERT_TRUE(silent.WaitForNotificationWithTimeout(kPatience));
  watchdog.Watch([&] { return sign.fetch_add(1); });
  EXPECT_TRUE(alive_again.WaitForNotificationWithTimeout(kPatience));
}

}  // namespace
}  // namespace quire
