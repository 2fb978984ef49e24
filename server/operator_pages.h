#ifndef QUIRE_SERVER_OPERATOR_PAGES_H_
#define QUIRE_SERVER_OPERATOR_PAGES_H_

#include <optional>

#include "absl/strings/string_view.h"

#include "server/http_listener.h"

namespace quire {

class ServerCore;

// The pages of --metrics-listen: /metrics for Prometheus; /livez, /readyz and /startupz for probes,
// which answer 200 "ok", or 503 and why not. Nothing for another path. Any thread.
std::optional<HttpAnswer> MakeOperatorPage(const ServerCore& core, absl::string_view path);

}  // namespace quire

#endif  // QUIRE_SERVER_OPERATOR_PAGES_H_
