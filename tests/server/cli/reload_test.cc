#include "server/cli/reload.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Settings {
  std::string level = "info";
  std::string listen = "here";
  std::vector<std::string> names = {};
  bool once = false;
};

std::vector<Flag> FlagsOver(Settings* settings) {
  Flag level = MakeFlag("--level", "L", "", &settings->level);
  level.reloads = true;
  Flag names = MakeFlag("--name", "N", "", &settings->names);
  names.repeats = true;
  Flag once = Switch("--once", "", &settings->once);
  once.sources = Sources::kCommandLine;
  return {level, MakeFlag("--listen,--address", "A", "", &settings->listen), names, once};
}

Reload::Changes Compare(Reload& reload, Settings next) { return reload.Compare(FlagsOver(&next)); }

class ReloadTest : public testing::Test {
 protected:
  Settings running_;
  Reload reload_{FlagsOver(&running_)};
};

TEST_F(ReloadTest, FindsNothingInTheSame) {
  const Reload::Changes changes = Compare(reload_, {});
  EXPECT_THAT(changes.reloaded, IsEmpty());
  EXPECT_THAT(changes.need_restart, IsEmpty());
}

TEST_F(ReloadTest, WhatReloadsIsRunningFromThenOn) {
  EXPECT_THAT(Compare(reload_, {.level = "debug"}).reloaded,
              ElementsAre("level from info to debug"));
  EXPECT_THAT(Compare(reload_, {.level = "debug"}).reloaded, IsEmpty());
  EXPECT_THAT(Compare(reload_, {}).reloaded, ElementsAre("level from debug to info"));
}

TEST_F(ReloadTest, WhatNeedsARestartIsNamedOnceForEachValue) {
  EXPECT_THAT(Compare(reload_, {.listen = "there", .names = {"a"}}).need_restart,
              ElementsAre("listen", "name"));
  EXPECT_THAT(Compare(reload_, {.listen = "there", .names = {"a"}}).need_restart, IsEmpty());
  EXPECT_THAT(Compare(reload_, {.listen = "elsewhere", .names = {"a"}}).need_restart,
              ElementsAre("listen"));
}

TEST_F(ReloadTest, ComingBackToWhatRunsNeedsNoRestart) {
  EXPECT_THAT(Compare(reload_, {.listen = "there"}).need_restart, ElementsAre("listen"));
  EXPECT_THAT(Compare(reload_, {}).need_restart, IsEmpty());
  EXPECT_THAT(Compare(reload_, {.listen = "there"}).need_restart, ElementsAre("listen"));
}

}  // namespace
}  // namespace quire::cli
