#include "server/access_tokens.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire {
namespace {

using testing::HasSubstr;

// SHA-256 of "abc" and of kLongToken: FIPS 180-2, appendices B.1 and B.2; and of the empty text.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kLongToken[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
constexpr char kLong[] = "248D6A61D20638B8E5C026930C3E6039A33CE45964FF2167F6ECEDD419DB06C1";
constexpr char kEmpty[] = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";

std::string Entry(absl::string_view sha256, absl::string_view tenant, absl::string_view more = "") {
  return absl::StrCat(R"({"sha256": ")", sha256, R"(", "tenant": ")", tenant, "\"", more, "}");
}
std::string File(absl::string_view entries) {
  return absl::StrCat(R"({"tokens": [)", entries, "]}");
}

std::shared_ptr<const AccessTokens> Read(const std::string& json,
                                         const AccessTokens* before = nullptr) {
  auto tokens = AccessTokens::Parse(json, "tokens.json", before, 0);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  return tokens.ok() ? *tokens : nullptr;
}
std::string ErrorOf(const std::string& json) {
  return std::string(AccessTokens::Parse(json, "tokens.json", nullptr, 0).status().message());
}

TEST(AccessTokensTest, ATokenStandsForItsTenant) {
  const auto tokens = Read(File(absl::StrCat(
      Entry(kAbc, "search", R"(, "admin": true, "max_priority": 7)"), ",", Entry(kLong, "web"))));
  EXPECT_EQ(tokens->num_tokens(), 2u);
  const auto search = tokens->Find("abc");
  ASSERT_NE(search, nullptr);
  EXPECT_EQ(search->name, "search");
  EXPECT_TRUE(search->is_admin);
  EXPECT_EQ(search->max_priority, 7);
  const auto web = tokens->Find(kLongToken);
  ASSERT_NE(web, nullptr);
  EXPECT_EQ(web->name, "web");
  EXPECT_FALSE(web->is_admin);
  EXPECT_EQ(web->max_priority, 0);
  for (const char* unknown : {"", "abd", "ab", "abc ", kAbc}) {
    EXPECT_EQ(tokens->Find(unknown), nullptr) << unknown;
  }
}

TEST(AccessTokensTest, TokensOfOneTenantShareWhatItMayUse) {
  constexpr char kOne[] = R"(, "max_concurrent_requests": 1)";
  const auto tokens =
      Read(File(absl::StrCat(Entry(kAbc, "a", kOne), ",", Entry(kLong, "a", kOne))));
  EXPECT_TRUE(tokens->Find("abc")->quota->Enter("a", 0).ok());
  EXPECT_FALSE(tokens->Find(kLongToken)->quota->Enter("a", 0).ok());
}

TEST(AccessTokensTest, ANewFileKeepsWhatWasUsed) {
  const auto before = Read(File(Entry(kAbc, "a", R"(, "max_concurrent_requests": 2)")));
  EXPECT_TRUE(before->Find("abc")->quota->Enter("a", 0).ok());
  const auto after =
      Read(File(Entry(kLong, "a", R"(, "max_concurrent_requests": 1)")), before.get());
  EXPECT_EQ(after->Find("abc"), nullptr);
  EXPECT_FALSE(after->Find(kLongToken)->quota->Enter("a", 0).ok());
  before->Find("abc")->quota->Leave();
  EXPECT_TRUE(after->Find(kLongToken)->quota->Enter("a", 0).ok());
}

TEST(AccessTokensTest, AFileThatIsWrongChangesNothingAndSaysWhere) {
  const auto before = Read(File(Entry(kAbc, "a")));
  const std::string two =
      absl::StrCat(Entry(kAbc, "a", R"(, "max_concurrent_requests": 1)"), ",", Entry("12", "b"));
  EXPECT_FALSE(AccessTokens::Parse(File(two), "tokens.json", before.get(), 0).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(before->Find("abc")->quota->Enter("a", 0).ok());

  EXPECT_EQ(ErrorOf("[]"), R"(tokens.json: must be a JSON object with one key, "tokens", a list)");
  EXPECT_EQ(ErrorOf("{\"tokens\": [}"), "tokens.json: is no JSON, from byte 13 on");
  EXPECT_EQ(ErrorOf(File("")), "tokens.json: 0 tokens; expected 1 to 4096");
  EXPECT_EQ(ErrorOf(File("3")), "tokens.json: tokens[0] is not an object");
  EXPECT_THAT(ErrorOf(File(two)), HasSubstr("tokens[1]: sha256 must be"));
  EXPECT_THAT(ErrorOf(File(Entry(kAbc, "a b"))), HasSubstr("tokens[0]: tenant must be 1 to 64"));
  EXPECT_THAT(ErrorOf(File(Entry(kAbc, "a", R"(, "rate": 1)"))),
              HasSubstr("there is no key \"rate\""));
  EXPECT_THAT(ErrorOf(File(Entry(kAbc, "a", R"(, "tokens_per_minute": -1)"))),
              HasSubstr("tokens_per_minute is -1; expected 0"));
  EXPECT_THAT(ErrorOf(File(Entry(kAbc, "a", R"(, "max_priority": 101)"))),
              HasSubstr("max_priority is 101; expected -100 to 100"));
  EXPECT_THAT(ErrorOf(File(Entry(kAbc, "a", R"(, "admin": "yes")"))),
              HasSubstr("tokens[0]: admin is string; expected boolean"));
  EXPECT_THAT(ErrorOf(File(Entry(kAbc, "a", R"(, "tokens_per_minute": null)"))),
              HasSubstr("tokens_per_minute is null"));
  EXPECT_EQ(ErrorOf(File(Entry(kAbc, "a", R"(, "admin": false, "admin": true)"))),
            "tokens.json: has the key \"admin\" twice");
  EXPECT_EQ(ErrorOf(File(R"({"sha256": ["secret"], "tenant": "a"})")),
            "tokens.json: is nested deeper than 3");
  EXPECT_THAT(ErrorOf(File(R"({"sha256": "secret", "tenant": 7})")),
              testing::Not(HasSubstr("secret")));
  EXPECT_THAT(ErrorOf(File(Entry(kEmpty, "a"))), HasSubstr("is that of the empty text"));
  EXPECT_THAT(ErrorOf(File(absl::StrCat(Entry(kAbc, "a"), ",", Entry(kAbc, "b")))),
              HasSubstr("tokens[1] has the sha256 of an entry before it"));
  EXPECT_THAT(
      ErrorOf(File(absl::StrCat(Entry(kAbc, "a"), ",", Entry(kLong, "a", R"(, "admin": true)")))),
      HasSubstr("tokens[1] gives tenant a other rights"));
}

TEST(AccessTokensTest, AHugeFileIsReadInNoTime) {
  std::string entries = "{}";
  for (int i = 0; i < 1'000'000; ++i) entries += ",{}";
  EXPECT_EQ(ErrorOf(File(entries)), "tokens.json: 1000001 tokens; expected 1 to 4096");
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(ErrorOf(File(deep)), "tokens.json: is nested deeper than 3");
}

}  // namespace
}  // namespace quire
