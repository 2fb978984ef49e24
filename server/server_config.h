#ifndef QUIRE_SERVER_SERVER_CONFIG_H_
#define QUIRE_SERVER_SERVER_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine_config.h"
#include "server/tls_files.h"

namespace quire {

// Limits on what clients may ask and hold. All are checked before anything of that size is
// allocated.
struct ServerLimits {
  int32_t max_message_bytes = 4 << 20;     // of one message from a client
  int64_t max_pending_bytes = 256 << 20;   // of all requests at once, as they were sent
  int32_t max_metadata_bytes = 8 << 10;    // of the headers of one call
  int32_t max_concurrent_requests = 1024;  // streams open at once, queued ones included
  int32_t max_requests_per_peer = 0;       // of them from one address; 0: no limit of its own
  int32_t max_output_tokens = 0;           // where max_tokens is unset; 0: as many as fit
  int32_t max_prompt_bytes = 1 << 20;      // of text, or of a whole conversation
  int32_t max_chat_messages = 4096;
  int32_t max_choices = 8;    // for which LoadModel makes room in the engine
  int32_t max_logprobs = 20;  // beside the token itself
  int32_t max_stop_token_ids = 64;
  int32_t max_stop_strings = 16;
  int32_t max_stop_string_bytes = 256;  // of a bad word too
  int32_t max_logit_bias = 1024;
  int32_t max_allowed_token_ids = 16 << 10;
  int32_t max_bad_words = 128;
  int32_t max_request_seconds = 3600;
  int64_t slow_reader_timeout_ms = 30'000;  // without a completed write; then SLOW_CONSUMER
};

// What an operator may set about a server.
struct ServerConfig {
  EngineConfig engine;
  // host:port; port 0: any free one, see Server::port().
  std::string listen = "127.0.0.1:50051";
  // Where /metrics and the pages for probes are, likewise, over IPv4; empty: nowhere.
  std::string metrics_listen;
  std::string served_model_name;  // empty: the last part of the model's path
  std::vector<std::string> model_aliases;
  ServerLimits limits;
  TlsFiles tls;               // of all gRPC listeners; read again when they change
  std::string access_tokens;  // file of tokens (access_tokens.h); empty: everybody may call
  // Tokens may come over a network in plaintext, because something in front of it encrypts.
  bool allow_plaintext_auth = false;
  // Where AdminService is, likewise; empty: nowhere. REQUIRES: on_drain.
  std::string admin_listen;
  bool reflection = true;  // never with access_tokens: it cannot ask for one
  // An engine that finishes no step for so long makes the server unhealthy and is reported, ...
  int64_t liveness_timeout_ms = 30'000;
  // ... for so long calls on_stuck (0: never), which is to end the process: nothing in it can.
  int64_t watchdog_timeout_ms = 120'000;
  std::function<void()> on_stuck;
  std::function<int64_t()> num_dropped_log_lines;  // for /metrics, any thread; null: none are
  std::function<void()> on_drain;  // AdminService wants it drained; must return at once
};

}  // namespace quire

#endif  // QUIRE_SERVER_SERVER_CONFIG_H_
