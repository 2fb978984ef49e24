#include "server/cli/limit_flags.h"

#include <limits>

#include "engine/token_listener.h"

namespace quire::cli {
namespace {

// The API has milliseconds in 32 bits.
constexpr int64_t kMaxRequestSeconds = std::numeric_limits<uint32_t>::max() / 1000;

}  // namespace

std::vector<Flag> LimitFlags(ServerLimits* limits) {
  return {
      SizeFlag("--max-concurrent-requests", "N", "Streams open at once (default: 1024)",
               &limits->max_concurrent_requests, 1),
      SizeFlag("--max-requests-per-peer", "N",
               "Of them from one IP address (a proxy is one); 0: no limit of its own (default: 0)",
               &limits->max_requests_per_peer),
      SizeFlag("--max-output-tokens", "N",
               "Answer length where a request sets none; 0: as many as fit (default: 0)",
               &limits->max_output_tokens),
      SizeFlag("--max-message-bytes", "SIZE", "A request at most, as it is sent (default: 4MiB)",
               &limits->max_message_bytes, 64 << 10, 64 << 20),
      SizeFlag("--max-prompt-bytes", "SIZE",
               "Text of a prompt, or all of a conversation, at most (default: 1MiB)",
               &limits->max_prompt_bytes, 1, 64 << 20),
      SizeFlag("--max-chat-messages", "N", "Messages of a conversation (default: 4096)",
               &limits->max_chat_messages, 1, 64 << 10),
      SizeFlag("--max-choices", "N", "Choices (n) of a request (default: 8)", &limits->max_choices,
               1, 128),
      SizeFlag("--max-logprobs", "N", "Likeliest tokens with log-probabilities (default: 20)",
               &limits->max_logprobs, 0, kMaxTopLogprobs),
      SizeFlag("--max-stop-token-ids", "N", "Stop tokens of a request (default: 64)",
               &limits->max_stop_token_ids, 0, 1024),
      SizeFlag("--max-stop-strings", "N", "Stop strings of a request (default: 16)",
               &limits->max_stop_strings, 0, 64),
      SizeFlag("--max-stop-string-bytes", "SIZE",
               "A stop string or a bad word at most (default: 256)", &limits->max_stop_string_bytes,
               1, 1024),
      SizeFlag("--max-logit-bias", "N", "Entries of logit_bias (default: 1024)",
               &limits->max_logit_bias, 0, 16 << 10),
      SizeFlag("--max-allowed-token-ids", "N", "Entries of allowed_token_ids (default: 16384)",
               &limits->max_allowed_token_ids, 0, 64 << 10),
      SizeFlag("--max-bad-words", "N", "Entries of bad_words (default: 128)",
               &limits->max_bad_words, 0, 256),
      SizeFlag("--max-request-seconds", "SECONDS", "Time of a request at most (default: 3600)",
               &limits->max_request_seconds, 1, kMaxRequestSeconds),
      DurationFlag("--slow-reader-timeout", "SECONDS",
                   "A client that reads nothing for this long is given up (default: 30)", 1000,
                   &limits->slow_reader_timeout_ms, 1),
  };
}

}  // namespace quire::cli
