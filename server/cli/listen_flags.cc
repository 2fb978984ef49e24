#include "server/cli/listen_flags.h"

namespace quire::cli {

Flag ListenFlag(ServerConfig* config) {
  return MakeFlag("--listen", "HOST:PORT",
                  "Where to listen; port 0: any free one (default: 127.0.0.1:50051)",
                  &config->listen);
}

Flag MetricsListenFlag(ServerConfig* config) {
  return MakeFlag("--metrics-listen", "HOST:PORT",
                  "Where /metrics, /livez, /readyz and /startupz are, over IPv4; \"\": nowhere "
                  "(default: 127.0.0.1:9400)",
                  &config->metrics_listen);
}

}  // namespace quire::cli
