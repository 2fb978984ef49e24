#include "tests/server/test_client.h"

#include <chrono>
#include <mutex>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/sync_stream.h>

namespace quire {
namespace {

using grpc::ByteBuffer;

ByteBuffer ToBuffer(const std::string& bytes) {
  grpc::Slice slice(bytes);
  return ByteBuffer(&slice, 1);
}

std::string ToBytes(const ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

void Apply(const CallOptions& options, grpc::ClientContext& context) {
  for (const auto& [key, value] : options.metadata) context.AddMetadata(key, value);
  if (options.gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(options.timeout_ms));
}

ClientStatus Unpack(const grpc::Status& status, const grpc::ClientContext& context) {
  ClientStatus unpacked;
  unpacked.code = status.error_code();
  unpacked.message = status.error_message();
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  if (!status.error_details().empty()) {
    EXPECT_EQ(details.code(), unpacked.code);
    EXPECT_EQ(details.message(), unpacked.message);
  }
  for (const auto& any : details.details()) {
    EXPECT_TRUE(any.UnpackTo(&unpacked.info) || any.UnpackTo(&unpacked.bad_request) ||
                any.UnpackTo(&unpacked.retry));
  }
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find("grpc-retry-pushback-ms");
  if (it != trailers.end()) {
    unpacked.retry_pushback_ms = std::string(it->second.data(), it->second.size());
  }
  return unpacked;
}

class ByteStream final : public ClientStream {
 public:
  ByteStream(grpc::ChannelInterface* channel, std::string method, const std::string& request,
             const CallOptions& options)
      : method_(std::move(method)),
        rpc_(method_.c_str(), grpc::internal::RpcMethod::SERVER_STREAMING) {
    Apply(options, context_);
    reader_.reset(grpc::internal::ClientReaderFactory<ByteBuffer>::Create(channel, rpc_, &context_,
                                                                          ToBuffer(request)));
  }
  ~ByteStream() override {
    if (finished_) return;
    context_.TryCancel();
    std::string unread;
    while (Read(&unread)) {
    }
    reader_->Finish().error_code();
  }

  bool Read(std::string* bytes) override {
    has_initial_metadata_ = true;
    ByteBuffer buffer;
    if (!reader_->Read(&buffer)) return false;
    *bytes = ToBytes(buffer);
    return true;
  }
  void Cancel() override { context_.TryCancel(); }
  ClientStatus Finish() override {
    finished_ = true;
    const grpc::Status status = reader_->Finish();
    return Unpack(status, context_);
  }
  std::string InitialMetadata(const std::string& key) override {
    if (!has_initial_metadata_) reader_->WaitForInitialMetadata();
    has_initial_metadata_ = true;
    const auto& metadata = context_.GetServerInitialMetadata();
    const auto it = metadata.find(key);
    return it == metadata.end() ? "" : std::string(it->second.data(), it->second.size());
  }

 private:
  const std::string method_;
  const grpc::internal::RpcMethod rpc_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<ByteBuffer>> reader_;
  bool has_initial_metadata_ = false;
  bool finished_ = false;
};

}  // namespace

std::string ClientStatus::Summary() const {
  const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
  return info.reason().empty() ? name : absl::StrCat(name, "/", info.reason());
}

bool ClientStream::ReadMessage(google::protobuf::Message* message) {
  std::string bytes;
  if (!Read(&bytes)) return false;
  EXPECT_LE(bytes.size(), 1u << 20) << "no message of the server may exceed 1 MiB";
  const bool parsed = message->ParseFromString(bytes);
  EXPECT_TRUE(parsed);
  return parsed;
}

std::string Answer::text() const {
  std::string joined;
  for (const auto& event : events) joined += event.delta().text();
  return joined;
}

std::vector<uint32_t> Answer::token_ids() const {
  std::vector<uint32_t> joined;
  for (const auto& event : events) {
    if (event.has_delta()) {
      EXPECT_EQ(event.delta().token_offset(), joined.size());
    }
    joined.insert(joined.end(), event.delta().token_ids().begin(), event.delta().token_ids().end());
  }
  return joined;
}

std::string Answer::Shape() const {
  std::string shape;
  for (const auto& event : events) {
    if (event.has_accepted()) shape += "accepted ";
    if (event.has_prompt()) shape += "prompt ";
    if (event.has_delta()) shape += "delta ";
    if (event.has_choice_finished()) {
      const std::string reason = v1::FinishReason_Name(event.choice_finished().finish_reason());
      absl::StrAppend(&shape, "choice(", reason.substr(sizeof("FINISH_REASON_") - 1), ") ");
    }
    if (event.has_finished()) shape += "finished ";
  }
  return shape + status.Summary();
}

struct TestClient::Connection {
  std::shared_ptr<grpc::Channel> channel;
};

TestClient::TestClient(int port, bool small_windows) : connection_(new Connection) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  if (small_windows) {
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  }
  connection_->channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                                   grpc::InsecureChannelCredentials(), arguments);
}

TestClient::~TestClient() = default;

std::unique_ptr<ClientStream> TestClient::OpenStream(const std::string& method,
                                                     const std::string& request,
                                                     const CallOptions& options) {
  return std::make_unique<ByteStream>(connection_->channel.get(), method, request, options);
}

std::unique_ptr<ClientStream> TestClient::Generate(const v1::GenerateRequest& request,
                                                   const CallOptions& options) {
  return OpenStream("/quire.v1.GenerationService/Generate", request.SerializeAsString(), options);
}

Answer TestClient::GenerateAll(const v1::GenerateRequest& request, const CallOptions& options) {
  return ReadAll(*Generate(request, options));
}

Answer TestClient::ReadAll(ClientStream& stream) {
  Answer answer;
  v1::GenerateResponse event;
  while (stream.ReadMessage(&event)) answer.events.push_back(event);
  answer.status = stream.Finish();
  return answer;
}

ClientStatus TestClient::Call(const std::string& method, const google::protobuf::Message& request,
                              google::protobuf::Message* response, const CallOptions& options) {
  std::string bytes;
  const ClientStatus status = CallRaw(method, request.SerializeAsString(), &bytes, options);
  EXPECT_LE(bytes.size(), 1u << 20) << "no message of the server may exceed 1 MiB";
  if (status.ok()) {
    EXPECT_TRUE(response->ParseFromString(bytes));
  }
  return status;
}

ClientStatus TestClient::CallRaw(const std::string& method, const std::string& request,
                                 std::string* response, const CallOptions& options) {
  grpc::ClientContext context;
  Apply(options, context);
  const grpc::internal::RpcMethod rpc(method.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  ByteBuffer out;
  const grpc::Status status = grpc::internal::BlockingUnaryCall(connection_->channel.get(), rpc,
                                                                &context, ToBuffer(request), &out);
  if (status.ok()) *response = ToBytes(out);
  return Unpack(status, context);
}

std::vector<std::string> TestClient::ListServices() {
  grpc::ClientContext context;
  Apply({}, context);
  const grpc::internal::RpcMethod rpc(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING);
  std::unique_ptr<grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
          connection_->channel.get(), rpc, &context));
  stream->Write(ToBuffer(std::string("\x3a\x00", 2)));  // list_services (7): ""
  ByteBuffer buffer;
  EXPECT_TRUE(stream->Read(&buffer));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  // Names are the printable runs of the answer that have a dot in them.
  std::set<std::string> names;
  std::string run;
  for (const char c : ToBytes(buffer) + '\0') {
    if (c >= '.' && c <= 'z') {
      run += c;
    } else {
      if (run.find('.') != std::string::npos) names.insert(run);
      run.clear();
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace quire
