#include "server/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

#include "server/errors.h"

namespace quire {
namespace {

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(GrpcStatusTest, OkHasNoDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpcStatus(absl::OkStatus()).error_details(), "");
}

TEST(GrpcStatusTest, ReasonAndNumbersBecomeErrorInfo) {
  absl::Status status = MakeError(absl::StatusCode::kInvalidArgument, "CONTEXT_LENGTH_EXCEEDED",
                                  "5 > 4", {{"limit", "4"}});
  AddMetadata(status, "limit", "not this");
  AddMetadata(status, "prompt_tokens", "5");
  const grpc::Status seen = ToGrpcStatus(status);
  EXPECT_EQ(seen.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(seen.error_message(), "CONTEXT_LENGTH_EXCEEDED: 5 > 4");
  google::rpc::ErrorInfo info;
  ASSERT_EQ(DetailsOf(seen).details_size(), 1);
  ASSERT_TRUE(DetailsOf(seen).details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "CONTEXT_LENGTH_EXCEEDED");
  EXPECT_EQ(info.domain(), "quire");
  EXPECT_EQ(info.metadata().at("limit"), "4");
  EXPECT_EQ(info.metadata().at("prompt_tokens"), "5");
}

TEST(GrpcStatusTest, AStatusWithoutAReasonTakesItsCodesName) {
  EXPECT_EQ(ReasonOf(absl::InternalError("something: odd")), "INTERNAL");
  EXPECT_EQ(ReasonOf(absl::NotFoundError("")), "NOT_FOUND");
  EXPECT_EQ(ReasonOf(absl::InternalError("QUEUE_FULL")), "INTERNAL");
}

TEST(GrpcStatusTest, FieldsBecomeViolationsAndDelaysRetryInfo) {
  absl::Status status = InvalidField("params.top_p", "2 is not in (0, 1]");
  AddViolation(status, "params.top_k", "-1 is not 0 or more");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(DetailsOf(ToGrpcStatus(status)).details(1).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 2);
  google::rpc::RetryInfo retry;
  const auto full = MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "512 wait");
  ASSERT_TRUE(DetailsOf(ToGrpcStatus(full)).details(1).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
}

TEST(GrpcStatusTest, WhatIsLongIsCutBetweenCharacters) {
  absl::Status status = InvalidField("text", std::string(3000, 'x'));
  for (int i = 0; i < 40; ++i) {
    std::string long_text = "x";
    while (long_text.size() < 600) long_text += "é";
    AddViolation(status, absl::StrCat("params.field", i), long_text);
  }
  const grpc::Status seen = ToGrpcStatus(status);
  EXPECT_LE(seen.error_message().size(), 1024u);
  EXPECT_LE(seen.error_details().size(), 4096u);
  EXPECT_EQ(DetailsOf(seen).details_size(), 2);
}

}  // namespace
}  // namespace quire
