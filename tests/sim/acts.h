#ifndef QUIRE_TESTS_SIM_ACTS_H_
#define QUIRE_TESTS_SIM_ACTS_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "rapidcheck/detail/TestListenerAdapter.h"
#include "rapidcheck/state.h"
#include "tests/sim/check_catcher.h"

// Properties over lists of acts. A *world* has the system under test and a plain model of it; an
// act is a name and three numbers, which the world takes relative to what there is ("the a-th of
// the blocks that are held"; nothing happens where there is none). So every list of acts is a valid
// one, RapidCheck may leave out any of them, and what it prints can be pasted into a test.
//
// A world has
//   static constexpr int32_t kNumVariants;              configurations, the plainest first
//   static const std::vector<ActKind<World>>& Kinds();
//   explicit World(int32_t variant);
//   void Check();                                       after every act
//   void Finish();                                      at the end
// and throws Violation (by SIM_REQUIRE) where the system is not what the model says. A QUIRE_CHECK
// that fails is a violation too.
namespace quire {

struct Violation {
  std::string what;
};

// Throws a Violation unless the condition holds; what follows it says more.
#define SIM_REQUIRE(condition, ...)                                                              \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      throw ::quire::Violation{::absl::StrCat(#condition, " is false: ", ##__VA_ARGS__, " (at ", \
                                              __FILE__, ":", __LINE__, ")")};                    \
    }                                                                                            \
  } while (false)
// The same for equality; prints both sides.
#define SIM_REQUIRE_EQ(found, expected, ...)                                                       \
  do {                                                                                             \
    const auto& sim_found = (found);                                                               \
    const auto& sim_expected = (expected);                                                         \
    if (!(sim_found == sim_expected)) {                                                            \
      throw ::quire::Violation{::absl::StrCat(#found, " is ", sim_found, ", the model says ",      \
                                              sim_expected, " ", ##__VA_ARGS__, " (at ", __FILE__, \
                                              ":", __LINE__, ")")};                                \
    }                                                                                              \
  } while (false)

struct Act {
  const char* name = "";
  int32_t a = 0;
  int32_t b = 0;
  int32_t c = 0;
};

inline std::ostream& operator<<(std::ostream& out, const Act& act) {
  return out << "{\"" << act.name << "\", " << act.a << ", " << act.b << ", " << act.c << "},";
}

template <typename World>
struct ActKind {
  const char* name;
  int weight;
  void (World::*run)(const Act& act);
};

// The a-th of `items`, for any a. REQUIRES: there is one.
template <typename Items>
auto& PickFrom(Items& items, int32_t a) {
  return items[static_cast<size_t>(a) % std::size(items)];
}

// Runs `body`; "" or what it violated.
template <typename Body>
std::string ViolationIn(const Body& body) {
  try {
    return CheckCatcher::Run(body);
  } catch (const Violation& violation) {
    return violation.what;
  }
}

template <typename World>
std::string Perform(const Act& act, World* world) {
  for (const ActKind<World>& kind : World::Kinds()) {
    if (std::string_view(kind.name) != act.name) continue;
    return ViolationIn([&] {
      (world->*kind.run)(act);
      world->Check();
    });
  }
  return absl::StrCat("no act is called ", act.name);
}

// Plays a list of acts: for regressions. "" or what was violated.
template <typename World>
std::string Play(int32_t variant, const std::vector<Act>& acts) {
  World world(variant);
  for (size_t i = 0; i < acts.size(); ++i) {
    const std::string violation = Perform(acts[i], &world);
    if (!violation.empty()) return absl::StrCat("act ", i, ", ", acts[i].name, ": ", violation);
  }
  return ViolationIn([&] { world.Finish(); });
}

// RapidCheck wants a model that it can step without the system; ours needs no such thing.
struct NoState {};

template <typename World>
class ActCommand : public rc::state::Command<NoState, World> {
 public:
  explicit ActCommand(const Act& act) : act_(act) {}
  void run(const NoState& /*before*/, World& world) const override {
    const std::string violation = Perform(act_, &world);
    if (!violation.empty()) RC_FAIL(violation);
  }
  void show(std::ostream& out) const override { out << act_; }

 private:
  const Act act_;
};

// Any number of 16 bits, whatever RapidCheck's size; shrinks to the smallest that does.
inline rc::Gen<int32_t> GenNumber() {
  return [](rc::Random random, int /*size*/) {
    const auto drawn = static_cast<int32_t>(random.next() % (1 << 16));
    return rc::shrinkable::shrinkRecur(drawn, [](int32_t number) {
      return rc::seq::concat(rc::seq::range<int32_t>(0, std::min(number, 12)),
                             rc::shrink::towards<int32_t>(number, 0));
    });
  };
}

template <typename World>
auto GenAct() {
  using Command = rc::state::Command<NoState, World>;
  std::vector<const char*> names;  // each as often as it weighs
  for (const ActKind<World>& kind : World::Kinds()) {
    names.insert(names.end(), kind.weight, kind.name);
  }
  return rc::gen::map(
      rc::gen::tuple(rc::gen::elementOf(names), GenNumber(), GenNumber(), GenNumber()),
      [](const auto& drawn) {
        const auto& [name, a, b, c] = drawn;
        return std::shared_ptr<const Command>(
            std::make_shared<ActCommand<World>>(Act{name, a, b, c}));
      });
}

template <typename World>
rc::detail::Property PropertyOf() {
  return rc::detail::toProperty([] {
    const auto variant =
        *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int32_t>(0, World::kNumVariants))
             .as("variant");
    World world(variant);
    rc::state::check(NoState(), world, [gen = GenAct<World>()](const NoState&) { return gen; });
    const std::string violation = ViolationIn([&] { world.Finish(); });
    if (!violation.empty()) RC_FAIL("at the end: " + violation);
  });
}

// Plays random lists of acts for about `budget`, but at least one batch of them, each of its own
// seed. Prints the first seed; a failure is shrunken and prints RC_PARAMS to replay it with. With
// RC_PARAMS in the environment only that is played; QUIRE_PROPERTY_S is another budget.
template <typename World>
void CheckWorld(std::chrono::milliseconds budget, int max_acts) {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = absl::StrCat(test->test_suite_name(), "/", test->name());
  metadata.description = metadata.id;
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  const bool is_replay = std::getenv("RC_PARAMS") != nullptr;
  if (!is_replay) {
    params.maxSuccess = 50;
    params.maxSize = max_acts;
  }
  std::printf("first seed %llu\n", static_cast<unsigned long long>(params.seed));
  if (const char* const longer = std::getenv("QUIRE_PROPERTY_S")) {
    budget = std::chrono::seconds(std::atoi(longer));
  }
  const auto end = std::chrono::steady_clock::now() + budget;
  int64_t num_lists = 0;
  do {
    const rc::detail::TestResult result =
        rc::detail::checkProperty(PropertyOf<World>(), metadata, params);
    if (!result.template is<rc::detail::SuccessResult>()) {
      std::ostringstream text;
      rc::detail::printResultMessage(result, text);
      ADD_FAILURE() << text.str() << "\nreplay with RC_PARAMS=\"seed=" << params.seed
                    << " max_success=" << params.maxSuccess << " max_size=" << params.maxSize
                    << "\"";
      return;
    }
    num_lists += params.maxSuccess;
    ++params.seed;
  } while (!is_replay && std::chrono::steady_clock::now() < end);
  std::printf("%lld lists of acts\n", static_cast<long long>(num_lists));
}

// What RapidCheck finds wrong with a world that is wrong on purpose; silent. For tests of the
// above.
template <typename World>
rc::detail::TestResult FindViolation(uint64_t seed, int max_acts) {
  rc::detail::TestParams params;
  params.seed = seed;
  params.maxSize = max_acts;
  rc::detail::TestListenerAdapter silent;
  return rc::detail::checkProperty(PropertyOf<World>(), rc::detail::TestMetadata(), params, silent,
                                   {});
}

}  // namespace quire

#endif  // QUIRE_TESTS_SIM_ACTS_H_
