#include "server/cli/request_flags.h"

namespace quire::cli {
namespace {

using v1::GenerationParams;

// A flag for a field with a setter of its own.
template <typename T, typename Message>
Flag FieldFlag(const char* name, const char* value, const char* help, Message* message,
               void (Message::*set)(T)) {
  return {
      .name = name, .value = value, .help = help, .set = [message, set](const std::string& text) {
        T parsed{};
        absl::Status status = ParseValue(text, &parsed);
        if (status.ok()) (message->*set)(parsed);
        return status;
      }};
}

Flag MaxTokensFlag(GenerationParams* params) {
  return {.name = "--max-tokens",
          .value = "N",
          .help = "Tokens to generate at most (default: as many as fit)",
          .set = [params](const std::string& text) {
            uint32_t max_tokens = 0;
            absl::Status status = SizeFlag("", "", "", &max_tokens).set(text);
            if (status.ok()) params->set_max_tokens(max_tokens);
            return status;
          }};
}

Flag StopTokenIdsFlag(GenerationParams* params) {
  return {.name = "--stop-token-ids",
          .value = "IDS",
          .help = "Tokens that end the answer, beside the model's EOS: 1,2,3",
          .set = [params](const std::string& text) {
            absl::StatusOr<std::vector<int32_t>> ids = ParseIds(text);
            if (!ids.ok()) return ids.status();
            for (int32_t id : *ids) params->add_stop_token_ids(static_cast<uint32_t>(id));
            return absl::OkStatus();
          }};
}

}  // namespace

std::vector<Flag> RequestFlags(v1::GenerateRequest* request) {
  GenerationParams* params = request->mutable_params();
  const auto set_text = [](std::string* target) {
    return [target](const std::string& text) { return ParseValue(text, target); };
  };
  return {
      MaxTokensFlag(params),
      FieldFlag("--temperature", "X", "0: always the most likely token", params,
                &GenerationParams::set_temperature),
      FieldFlag("--top-k", "N", "Draw from the N most likely tokens; 0: off", params,
                &GenerationParams::set_top_k),
      FieldFlag("--top-p", "X", "Draw from the smallest set with this probability", params,
                &GenerationParams::set_top_p),
      FieldFlag("--min-p", "X", "Draw from tokens at least X times as likely as the best", params,
                &GenerationParams::set_min_p),
      FieldFlag("--seed", "N", "The same seed gives the same answer", params,
                &GenerationParams::set_seed),
      StopTokenIdsFlag(params),
      FieldFlag("--ignore-eos", "", "Do not end at EOS", params, &GenerationParams::set_ignore_eos),
      FieldFlag("--skip-special-tokens", "BOOL", "Leave special tokens out of the text", params,
                &GenerationParams::set_skip_special_tokens),
      FieldFlag("--priority", "N", "-100 to 100, higher first", params,
                &GenerationParams::set_priority),
      FieldFlag("--max-time-ms", "MS", "End the answer after this time, with what there is", params,
                &GenerationParams::set_max_time_ms),
      FieldFlag("--max-queue-ms", "MS", "Wait for the first step at most this long", params,
                &GenerationParams::set_max_queue_ms),
      {.name = "--request-id",
       .value = "ID",
       .help = "Names the request in logs and answers",
       .set = set_text(request->mutable_request_id())},
      {.name = "--served-model",
       .value = "NAME",
       .help = "The API's `model`: which of a server's models answers",
       .set = set_text(request->mutable_model())},
  };
}

}  // namespace quire::cli
