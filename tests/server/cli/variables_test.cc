#include "server/cli/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/cli/nearest.h"

namespace quire::cli {
namespace {

TEST(QuireVariables, AreThoseWithThePrefix) {
  const char* const environment[] = {"PATH=/bin", "QUIRE_A=b=c", "QUIRE=x", "XQUIRE_A=1", nullptr};
  EXPECT_EQ(QuireVariables(environment), (Variables{{"QUIRE_A", "b=c"}}));
}

TEST(KnownVariables, AreTheFlagsOfAllCommands) {
  const std::set<std::string> known = KnownVariables({ServeCommand(), GenerateCommand()});
  for (const char* name : {"QUIRE_MODEL", "QUIRE_CONFIG", "QUIRE_KV_CACHE", "QUIRE_KV_CACHE_BYTES",
                           "QUIRE_TEMPERATURE", "QUIRE_CPU_ISA"}) {
    EXPECT_EQ(known.count(name), 1) << name;
  }
  // A server that ends at once because of its environment would be no server.
  for (const char* name : {"QUIRE_DRY_RUN", "QUIRE_PRINT_CONFIG", "QUIRE_TEST_DATA"}) {
    EXPECT_EQ(known.count(name), 0) << name;
  }
}

TEST(CheckVariables, LetsThroughWhatKubernetesSetsForAServiceOfThisName) {
  const Variables links = {
      {"QUIRE_SERVICE_HOST", "10.0.0.11"},
      {"QUIRE_SERVICE_PORT", "50051"},
      {"QUIRE_SERVICE_PORT_GRPC", "50051"},
      {"QUIRE_PORT", "tcp://10.0.0.11:50051"},
      {"QUIRE_PORT_50051_TCP", "tcp://10.0.0.11:50051"},
      {"QUIRE_PORT_50051_TCP_PROTO", "tcp"},
      {"QUIRE_PORT_50051_TCP_PORT", "50051"},
      {"QUIRE_PORT_50051_TCP_ADDR", "10.0.0.11"},
      {"QUIRE_METRICS_SERVICE_HOST", "10.0.0.12"},
      {"QUIRE_METRICS_PORT", "tcp://10.0.0.12:9400"},
      {"QUIRE_METRICS_PORT_9400_TCP_ADDR", "10.0.0.12"},
  };
  EXPECT_TRUE(CheckVariables(links, {"QUIRE_LISTEN"}).ok());
}

TEST(CheckVariables, RefusesWhatOnlyLooksLikeIt) {
  for (const Variables& variables :
       {Variables{{"QUIRE_PORT", "50051"}}, Variables{{"QUIRE_SERVICE_PORT", "grpc"}},
        Variables{{"QUIRE_SERVICE", "x"}}, Variables{{"QUIRE_PORT_X_TCP", "tcp://x"}},
        Variables{{"QUIRE_", ""}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckVariables(variables, {"QUIRE_LISTEN"})))
        << variables.begin()->first;
  }
}

TEST(EditDistance, CountsWhatMustBeChanged) {
  const struct {
    const char *a, *b;
    size_t distance;
  } cases[] = {{"", "", 0},       {"", "abc", 3},  {"kitten", "sitting", 3},
               {"abc", "abc", 0}, {"ab", "ba", 2}, {"flaw", "lawn", 2}};
  for (const auto& [a, b, distance] : cases) {
    EXPECT_EQ(EditDistance(a, b), distance) << a << " " << b;
    EXPECT_EQ(EditDistance(b, a), distance) << b << " " << a;
  }
}

TEST(Nearest, IsTheFirstOfTheClosest) {
  EXPECT_EQ(Nearest("lisen", {"model", "listen", "listed"}), "listen");
  EXPECT_EQ(Nearest("x", {"b", "a"}), "b");
}

}  // namespace
}  // namespace quire::cli
