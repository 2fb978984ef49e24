#include "server/cli/engine_flags.h"

namespace quire::cli {
namespace {

constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kMaxCount = 1 << 20;

Flag AdmissionFlag(AdmissionMode* target) {
  return {.name = "--admission",
          .value = "MODE",
          .help =
              "optimistic: take memory as it is needed, preempt when it is out; reserve: take "
              "all at admission, never preempt (default: optimistic)",
          .set = [target](const std::string& text) {
            if (text != "optimistic" && text != "reserve") {
              return absl::InvalidArgumentError(
                  absl::StrCat("\"", text, "\" is not optimistic or reserve"));
            }
            *target = text == "reserve" ? AdmissionMode::kReserve : AdmissionMode::kOptimistic;
            return absl::OkStatus();
          }};
}

Flag BlockSizeFlag(int32_t* target) {
  return {.name = "--block-size",
          .value = "TOKENS",
          .help = "Tokens in a block of KV memory: 16, 32, 64, 128 or 256 (default: 32)",
          .set = [target](const std::string& text) {
            int32_t size = 0;
            absl::Status status = ParseValue(text, &size);
            if (!status.ok()) return status;
            // A power of two that divides the attention's splits of 256 tokens.
            if (size < 16 || size > 256 || (size & (size - 1)) != 0) {
              return absl::InvalidArgumentError(
                  absl::StrCat("\"", text, "\" is not 16, 32, 64, 128 or 256"));
            }
            *target = size;
            return absl::OkStatus();
          }};
}

}  // namespace

Flag OverrideFlag(std::vector<GgufOverride>* target) {
  return {.name = "--override-kv",
          .value = "KEY=TYPE:VALUE",
          .help =
              "Put a value into the metadata of a GGUF file; TYPE is int, float, bool or str; "
              "repeatable",
          .set =
              [target](const std::string& text) {
                absl::StatusOr<GgufOverride> parsed = ParseGgufOverride(text);
                if (!parsed.ok()) return parsed.status();
                target->push_back(*std::move(parsed));
                return absl::OkStatus();
              },
          .repeats = true};
}

std::vector<Flag> EngineFlags(EngineConfig* config) {
  return {
      SizeFlag("--threads", "N", "Threads that compute (default: the CPUs of this process)",
               &config->num_threads, 1, kMaxThreads),
      SizeFlag("--kv-cache-bytes,--kv-cache", "SIZE",
               "Memory for keys and values, such as 4GiB (default: a quarter of what is left, at "
               "most 4GiB)",
               &config->kv_cache_bytes, 1),
      BlockSizeFlag(&config->block_size),
      SizeFlag("--max-model-len", "TOKENS",
               "Prompt and answer together at most (default: as the model says, as far as the KV "
               "memory holds it)",
               &config->max_model_len, 1),
      SizeFlag("--max-num-seqs", "N", "Sequences that run at once (default: 64)",
               &config->max_num_seqs, 1, kMaxCount),
      SizeFlag("--max-num-batched-tokens", "N",
               "Tokens in one step; more than --max-num-seqs (default: 512)",
               &config->max_num_batched_tokens, 1, kMaxCount),
      SizeFlag("--max-queued-requests", "N", "Requests that wait at once (default: 512)",
               &config->max_queued_requests, 1, kMaxCount),
      SizeFlag("--max-queued-prefill-tokens", "N",
               "Prompt tokens that wait at once (default: what four KV pools hold)",
               &config->max_queued_prefill_tokens, 1),
      DurationFlag("--target-itl", "MS",
                   "While answers are generated, prompts are computed in chunks that keep the time "
                   "between tokens below this (default: 100)",
                   1, &config->target_itl_ms, 1),
      AdmissionFlag(&config->admission),
      OverrideFlag(&config->gguf_overrides),
      MakeFlag("--prefix-caching", "BOOL",
               "Keep computed prompts for requests that start alike (default: true)",
               &config->prefix_caching),
  };
}

absl::Status CheckEngineFlags(const EngineConfig& config) {
  if (config.max_num_batched_tokens <= config.max_num_seqs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-num-batched-tokens is ", config.max_num_batched_tokens,
                     " and --max-num-seqs is ", config.max_num_seqs,
                     "; the first must be larger, so that every sequence gets a token in "
                     "every step"));
  }
  return absl::OkStatus();
}

}  // namespace quire::cli
