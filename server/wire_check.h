#ifndef QUIRE_SERVER_WIRE_CHECK_H_
#define QUIRE_SERVER_WIRE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include <google/protobuf/descriptor.h>

#include "server/server_config.h"

namespace quire {

// Do these bytes hold only what `type` defines? Walks the wire format, before anything is parsed or
// allocated, through all messages inside. INVALID_ARGUMENT UNKNOWN_FIELD names the message and the
// number of a field that is not known (or is known with another wire type); INVALID_FIELD the path
// of a string that is not UTF-8, or where the bytes are no message at all, or more messages and
// listed strings than the limits can ever allow. O(bytes).
absl::Status CheckWire(const google::protobuf::Descriptor& type, absl::string_view bytes,
                       const ServerLimits& limits);

}  // namespace quire

#endif  // QUIRE_SERVER_WIRE_CHECK_H_
