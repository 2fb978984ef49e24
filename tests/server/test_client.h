#ifndef QUIRE_TESTS_SERVER_TEST_CLIENT_H_
#define QUIRE_TESTS_SERVER_TEST_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include <google/protobuf/message.h>

#include "quire/v1/generation.pb.h"

namespace quire {

// A status as a client sees it, its details unpacked. `code` is gRPC's number, which absl shares.
struct ClientStatus {
  int code = 0;
  std::string message;
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry;
  std::string retry_pushback_ms;  // of the trailer

  bool ok() const { return code == 0; }
  // "RESOURCE_EXHAUSTED/QUEUE_FULL"; "OK".
  std::string Summary() const;
};

struct CallOptions {
  std::map<std::string, std::string> metadata;
  int64_t timeout_ms = 60'000;  // a test that hangs fails
  bool gzip = false;            // sends the message compressed
};

// One server-streaming call. Messages come as bytes.
class ClientStream {
 public:
  virtual ~ClientStream() = default;
  // False: the stream is over.
  virtual bool Read(std::string* bytes) = 0;
  virtual void Cancel() = 0;
  // Call once, when Read said false.
  virtual ClientStatus Finish() = 0;
  virtual std::string InitialMetadata(const std::string& key) = 0;

  // False also for bytes that are no such message, which fails the test.
  bool ReadMessage(google::protobuf::Message* message);
};

// A stream read to its end.
struct Answer {
  std::vector<v1::GenerateResponse> events;
  ClientStatus status;

  std::string text() const;                 // all deltas joined
  std::vector<uint32_t> token_ids() const;  // likewise
  // One word an event: "accepted delta delta choice(STOP) finished OK".
  std::string Shape() const;
};

// A plain gRPC client on a connection of its own, which sends bytes as they are: tests can send
// what generated code would not. gRPC's headers stay out of the tests.
class TestClient {
 public:
  // `small_windows`: the connection holds some 64 KiB that the client has not read, not megabytes.
  explicit TestClient(int port, bool small_windows = false);
  ~TestClient();

  std::unique_ptr<ClientStream> OpenStream(const std::string& method, const std::string& request,
                                           const CallOptions& options = {});
  std::unique_ptr<ClientStream> Generate(const v1::GenerateRequest& request,
                                         const CallOptions& options = {});
  // Reads to the end.
  Answer GenerateAll(const v1::GenerateRequest& request, const CallOptions& options = {});
  static Answer ReadAll(ClientStream& stream);

  ClientStatus Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message* response, const CallOptions& options = {});
  ClientStatus CallRaw(const std::string& method, const std::string& request, std::string* response,
                       const CallOptions& options = {});

  // All services that reflection lists, in order.
  std::vector<std::string> ListServices();

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_TEST_CLIENT_H_
