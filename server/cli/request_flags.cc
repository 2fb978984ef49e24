#include "server/cli/request_flags.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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

// A list of token ids. A negative id becomes one that no vocabulary has, and the server says so.
Flag IdsFlag(const char* name, const char* help, google::protobuf::RepeatedField<uint32_t>* ids) {
  return {.name = name, .value = "IDS", .help = help, .set = [ids](const std::string& text) {
            absl::StatusOr<std::vector<int32_t>> parsed = ParseIds(text);
            if (!parsed.ok()) return parsed.status();
            for (int32_t id : *parsed) ids->Add(static_cast<uint32_t>(id));
            return absl::OkStatus();
          }};
}

Flag TextsFlag(const char* name, const char* help,
               google::protobuf::RepeatedPtrField<std::string>* texts) {
  return {.name = name,
          .value = "TEXT",
          .help = help,
          .set =
              [texts](const std::string& text) {
                *texts->Add() = text;
                return absl::OkStatus();
              },
          .repeats = true};
}

Flag LogitBiasFlag(GenerationParams* params) {
  return {.name = "--logit-bias",
          .value = "ID:X",
          .help = "Add X to the logits of tokens: 5:-100,7:2.5",
          .set = [params](const std::string& text) {
            for (const absl::string_view part : absl::StrSplit(text, ',')) {
              const std::pair<std::string, std::string> entry = absl::StrSplit(part, ':');
              int32_t id = 0;
              float bias = 0;
              if (!ParseValue(entry.first, &id).ok() || !ParseValue(entry.second, &bias).ok()) {
                return absl::InvalidArgumentError(
                    absl::StrCat("\"", part, "\" is not a token id and a number such as 5:-100"));
              }
              (*params->mutable_logit_bias())[static_cast<uint32_t>(id)] = bias;
            }
            return absl::OkStatus();
          }};
}

// Which tokens may be drawn, and how.
std::vector<Flag> SamplingFlags(GenerationParams* params) {
  using P = GenerationParams;
  return {
      FieldFlag("--temperature", "X", "0: always the most likely token", params,
                &P::set_temperature),
      FieldFlag("--top-k", "N", "Draw from the N most likely tokens; 0: off", params,
                &P::set_top_k),
      FieldFlag("--top-p", "X", "Draw from the smallest set with this probability", params,
                &P::set_top_p),
      FieldFlag("--min-p", "X", "Draw from tokens at least X times as likely as the best", params,
                &P::set_min_p),
      FieldFlag("--typical-p", "X", "Draw from the tokens of most typical surprise; 1: off", params,
                &P::set_typical_p),
      FieldFlag("--top-n-sigma", "X", "Draw from logits within X deviations of the best; 0: off",
                params, &P::set_top_n_sigma),
      FieldFlag("--xtc-probability", "X", "How often the most likely tokens are left out; 0: never",
                params, &P::set_xtc_probability),
      FieldFlag("--xtc-threshold", "X", "How likely those are at least", params,
                &P::set_xtc_threshold),
      FieldFlag("--presence-penalty", "X", "Against tokens that the answer has; 0: off", params,
                &P::set_presence_penalty),
      FieldFlag("--frequency-penalty", "X", "The same, for each time that it has them", params,
                &P::set_frequency_penalty),
      FieldFlag("--repetition-penalty", "X", "Against tokens of prompt and answer; 1: off", params,
                &P::set_repetition_penalty),
      LogitBiasFlag(params),
      IdsFlag("--allowed-token-ids", "Draw from these tokens only: 1,2,3",
              params->mutable_allowed_token_ids()),
      TextsFlag("--bad-words", "A word that the answer must not have; repeatable",
                params->mutable_bad_words()),
      FieldFlag("--seed", "N", "The same seed gives the same answer", params, &P::set_seed),
  };
}

// Where an answer ends, and what is shown of it.
std::vector<Flag> OutputFlags(GenerationParams* params) {
  using P = GenerationParams;
  return {
      MaxTokensFlag(params),
      FieldFlag("--min-tokens", "N", "No stop before so many tokens", params, &P::set_min_tokens),
      TextsFlag("--stop", "A text that ends the answer; repeatable", params->mutable_stop()),
      IdsFlag("--stop-token-ids", "Tokens that end the answer, beside the model's EOS: 1,2,3",
              params->mutable_stop_token_ids()),
      FieldFlag("--include-stop-str-in-output", "", "Show the stop text that ended the answer",
                params, &P::set_include_stop_str_in_output),
      FieldFlag("--ignore-eos", "", "Do not end at EOS", params, &P::set_ignore_eos),
      FieldFlag("--skip-special-tokens", "BOOL", "Leave special tokens out of the text", params,
                &P::set_skip_special_tokens),
      FieldFlag("--truncate-prompt-tokens", "N", "Keep only the last N tokens of the prompt",
                params, &P::set_truncate_prompt_tokens),
      FieldFlag("--n", "N", "So many answers", params, &P::set_n),
      FieldFlag("--logprobs", "N", "Log-probabilities, with those of the N likeliest tokens",
                params, &P::set_logprobs),
      FieldFlag("--prompt-logprobs", "N", "The same of the prompt's tokens", params,
                &P::set_prompt_logprobs),
      FieldFlag("--priority", "N", "-100 to 100, higher first", params, &P::set_priority),
      FieldFlag("--max-time-ms", "MS", "End the answer after this time, with what there is", params,
                &P::set_max_time_ms),
      FieldFlag("--max-queue-ms", "MS", "Wait for the first step at most this long", params,
                &P::set_max_queue_ms),
  };
}

}  // namespace

std::vector<Flag> RequestFlags(v1::GenerateRequest* request) {
  GenerationParams* params = request->mutable_params();
  const auto set_text = [](std::string* target) {
    return [target](const std::string& text) { return ParseValue(text, target); };
  };
  std::vector<Flag> flags = OutputFlags(params);
  for (Flag& flag : SamplingFlags(params)) flags.push_back(std::move(flag));
  flags.push_back({.name = "--request-id",
                   .value = "ID",
                   .help = "Names the request in logs and answers",
                   .set = set_text(request->mutable_request_id())});
  flags.push_back({.name = "--served-model",
                   .value = "NAME",
                   .help = "The API's `model`: which of a server's models answers",
                   .set = set_text(request->mutable_model())});
  return flags;
}

}  // namespace quire::cli
