#include "server/raw_message.h"

#include <string>
#include <vector>

#include <grpcpp/support/slice.h>

#include "server/errors.h"
#include "server/wire_check.h"

namespace quire {

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, const ServerLimits& limits,
                          google::protobuf::Message* message) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) {
    return InvalidField("(request)", "there is no message, or its bytes cannot be read");
  }
  std::string flat;
  flat.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  const absl::Status status = CheckWire(*message->GetDescriptor(), flat, limits);
  if (!status.ok()) return status;
  if (message->ParseFromString(flat)) return absl::OkStatus();
  return InvalidField("(request)", "the bytes are no protobuf message");
}

grpc::ByteBuffer SerializeResponse(const google::protobuf::Message& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace quire
