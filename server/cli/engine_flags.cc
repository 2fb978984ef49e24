#include "server/cli/engine_flags.h"

namespace quire::cli {
namespace {

constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kMaxCount = 1 << 20;

Flag BlockSizeFlag(int32_t* target) {
  return {.name = "--block-size",
          .value = "TOKENS",
          .help = "Tokens in a block of KV memory: 16, 32, 64, 128 or 256 (default: 32)",
          .set =
              [target](const std::string& text) {
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
              },
          .get = [target] { return FormatValue(absl::StrCat(*target)); }};
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
          .get =
              [target] {
                std::vector<std::string> texts;
                for (const GgufOverride& one : *target) texts.push_back(ToText(one));
                return texts;
              },
          .repeats = true};
}

std::vector<Flag> EngineFlags(EngineConfig* config) {
  return {
      OrAuto(SizeFlag("--threads", "N",
                      "Threads that compute (default: auto, the CPUs of this process)",
                      &config->num_threads, 1, kMaxThreads),
             &config->num_threads),
      ChoiceFlag(
          "--numerics", "MODE",
          "Arithmetic of products: bf16x2; bf16x32: what AMX computes; a8g32, a8g32x32: the same "
          "with activations in int8 for quantised weights, faster for one or two sequences at once "
          "(default: auto, bf16x32 with AMX, else a8g32 where weights are quantised, else bf16x2)",
          {Choice<std::optional<NumericsMode>>{"auto", std::nullopt},
           {"bf16x2", NumericsMode::kBf16x2},
           {"bf16x32", NumericsMode::kBf16x32},
           {"a8g32", NumericsMode::kA8g32},
           {"a8g32x32", NumericsMode::kA8g32x32}},
          &config->numerics),
      ChoiceFlag(
          "--quantize", "TYPE",
          "Round weights that are not quantised as they are loaded: none, int8, or int4 (the "
          "embedding and the head to int8), in groups of 32 (default: none)",
          {Choice<WeightQuantization>{"none", WeightQuantization::kNone},
           {"int8", WeightQuantization::kInt8},
           {"int4", WeightQuantization::kInt4}},
          &config->quantize),
      OrAuto(SizeFlag("--kv-cache,--kv-cache-bytes", "SIZE",
                      "Memory for keys and values, such as 4GiB (default: auto, a quarter of what "
                      "is left, at most 4GiB)",
                      &config->kv_cache_bytes, 1),
             &config->kv_cache_bytes),
      BlockSizeFlag(&config->block_size),
      OrAuto(SizeFlag("--max-model-len", "TOKENS",
                      "Prompt and answer together at most (default: auto, as the model says, as "
                      "far as the KV memory holds it)",
                      &config->max_model_len, 1),
             &config->max_model_len),
      SizeFlag("--max-num-seqs", "N", "Sequences that run at once (default: 64)",
               &config->max_num_seqs, 1, kMaxCount),
      SizeFlag("--max-num-batched-tokens", "N",
               "Tokens in one step; more than --max-num-seqs (default: 512)",
               &config->max_num_batched_tokens, 1, kMaxCount),
      SizeFlag("--max-queued-requests", "N", "Requests that wait at once (default: 512)",
               &config->max_queued_requests, 1, kMaxCount),
      OrAuto(SizeFlag("--max-queued-prefill-tokens", "N",
                      "Prompt tokens that wait at once (default: auto, what four KV pools hold)",
                      &config->max_queued_prefill_tokens, 1),
             &config->max_queued_prefill_tokens),
      DurationFlag("--target-itl", "MS",
                   "While answers are generated, prompts are computed in chunks that keep the time "
                   "between tokens below this (default: 100)",
                   1, &config->target_itl_ms, 1),
      ChoiceFlag("--admission", "MODE",
                 "optimistic: take memory as it is needed, preempt when it is out; reserve: take "
                 "all at admission, never preempt (default: optimistic)",
                 {Choice<AdmissionMode>{"optimistic", AdmissionMode::kOptimistic},
                  {"reserve", AdmissionMode::kReserve}},
                 &config->admission),
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
