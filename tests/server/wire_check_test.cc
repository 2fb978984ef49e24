// Requests as bytes: what no generated code would write.
#include "server/wire_check.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "quire/v1/generation.pb.h"
#include "server/errors.h"

namespace quire {
namespace {

using testing::HasSubstr;

absl::Status Check(const std::string& bytes) {
  return CheckWire(*v1::GenerateRequest::descriptor(), bytes, ServerLimits());
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Tag(int field, int wire_type) {
  return Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}
std::string Part(int field, const std::string& value) {
  return Tag(field, 2) + Varint(value.size()) + value;
}

v1::GenerateRequest Everything() {
  v1::GenerateRequest request;
  request.set_model("m");
  request.set_request_id("id");
  v1::Message* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("größe \U0001F600");
  request.mutable_chat()->add_messages()->set_name("x");
  auto& fields = *request.mutable_chat()->mutable_template_args()->mutable_fields();
  fields["a"].set_number_value(1.5);
  fields["b"].mutable_list_value()->add_values()->set_bool_value(true);
  fields["c"].mutable_struct_value()->mutable_fields()->insert({"d", {}});
  v1::GenerationParams* params = request.mutable_params();
  params->set_temperature(0.5f);
  params->set_top_k(-3);
  params->set_seed(-1);
  params->add_stop_token_ids(7);
  params->add_stop_token_ids(300);
  request.set_stream(false);
  return request;
}

TEST(WireCheckTest, PassesWhatIsKnown) {
  EXPECT_TRUE(Check("").ok());
  EXPECT_TRUE(Check(Everything().SerializeAsString()).ok());
  // Repeated numbers may come one by one as well.
  EXPECT_TRUE(Check(Part(7, Tag(7, 0) + Varint(5) + Tag(7, 0) + Varint(6))).ok());
}

TEST(WireCheckTest, NamesUnknownFieldsWhereverTheyAre) {
  struct Case {
    std::string bytes;
    std::string message;
    std::string number;
    std::string path;
  };
  const std::string extra = Tag(99, 0) + Varint(1);
  const std::vector<Case> cases = {
      {extra, "quire.v1.GenerateRequest", "99", ""},
      {Part(7, extra), "quire.v1.GenerationParams", "99", "params"},
      {Part(5, Part(1, "") + Part(1, Part(77, "x"))), "quire.v1.Message", "77", "chat.messages[1]"},
      {Part(5, Part(3, Part(1, Part(2, extra)))), "google.protobuf.Value", "99",
       "chat.template_args.fields[0].value"},
      // Known, but of another type.
      {Tag(1, 0) + Varint(1), "quire.v1.GenerateRequest", "1", ""},
      {Part(7, Part(1, "abcd")), "quire.v1.GenerationParams", "1", "params"},
      // A group, which proto3 has not.
      {Tag(9, 3) + Tag(9, 4), "quire.v1.GenerateRequest", "9", ""},
  };
  for (const Case& one : cases) {
    const absl::Status status = Check(one.bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), "UNKNOWN_FIELD") << status;
    auto metadata = MetadataOf(status);
    EXPECT_EQ(metadata["message"], one.message);
    EXPECT_EQ(metadata["field_number"], one.number);
    EXPECT_EQ(metadata["path"], one.path);
  }
}

TEST(WireCheckTest, NamesTextThatIsNotUtf8) {
  for (const std::string bad : {"\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                "\xF8\x88\x80\x80\x80", "a\xE2\x82", "\xE0\x9F\x80"}) {
    const absl::Status status = Check(Part(5, Part(1, Part(2, "fine")) + Part(1, Part(2, bad))));
    EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
    ASSERT_EQ(ViolationsOf(status).size(), 1u);
    EXPECT_EQ(ViolationsOf(status)[0].first, "chat.messages[1].content");
  }
  EXPECT_TRUE(Check(Part(3, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEF\xBF\xBF")).ok());
}

TEST(WireCheckTest, RefusesBytesThatAreNoMessage) {
  for (const std::string& bad :
       {std::string("\xFF"), Tag(3, 2) + Varint(10) + "short", std::string("\x00\x00", 2),
        Tag(0, 0) + Varint(1), Part(7, "\x0D\x01"), Tag(8, 0)}) {
    EXPECT_EQ(ReasonOf(Check(bad)), "INVALID_FIELD") << Check(bad);
  }
}

TEST(WireCheckTest, NamesPackedNumbersThatAreCutOff) {
  const std::string whole = Varint(5) + Varint(300);
  EXPECT_TRUE(Check(Part(7, Part(7, whole))).ok());
  for (const std::string& bad :
       {whole.substr(0, 2), std::string("\x05\xD2"), std::string(11, '\x80') + "\x01"}) {
    const absl::Status status = Check(Part(7, Part(7, bad)));
    EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
    ASSERT_EQ(ViolationsOf(status).size(), 1u);
    EXPECT_EQ(ViolationsOf(status)[0].first, "params.stop_token_ids[0]");
    EXPECT_FALSE(v1::GenerateRequest().ParseFromString(Part(7, Part(7, bad))));
  }
}

TEST(WireCheckTest, BoundsDepthAndNumberOfMessages) {
  std::string deep;
  for (int i = 0; i < 300; ++i) deep = Part(6, Part(1, deep));  // a list in a list in a list
  EXPECT_THAT(std::string(Check(Part(5, Part(3, Part(1, Part(2, deep))))).message()),
              HasSubstr("levels"));
  std::string many;
  for (int i = 0; i < 4096; ++i) many += Part(1, "");
  EXPECT_TRUE(Check(Part(5, many)).ok()) << "as many as a conversation may have";
  for (int i = 0; i < 6000; ++i) many += Part(1, "");
  EXPECT_THAT(std::string(Check(Part(5, many)).message()), HasSubstr("messages"));
  std::string stops;
  for (int i = 0; i < 10'000; ++i) stops += Part(15, "");
  EXPECT_THAT(std::string(Check(Part(7, stops)).message()), HasSubstr("listed texts"));
}

TEST(WireCheckTest, WhatPassesParsesAndDamageIsNeverAccepted) {
  constexpr uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  const std::string good = Everything().SerializeAsString();
  int num_passed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (uint32_t i = random() % 4; i > 0 && !bytes.empty(); --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (!Check(bytes).ok()) continue;
    ++num_passed;
    v1::GenerateRequest request;
    ASSERT_TRUE(request.ParseFromString(bytes)) << "seed " << kSeed << " round " << round;
    ASSERT_TRUE(request.GetReflection()->GetUnknownFields(request).empty());
  }
  EXPECT_GT(num_passed, 100);
}

}  // namespace
}  // namespace quire
