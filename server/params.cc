#include "server/params.h"

#include <algorithm>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"

#include "server/errors.h"
#include "server/field_rules.h"
#include "server/violations.h"

namespace quire {
namespace {

int64_t DrawSeed() {
  // 53 bits: every client's numbers can hold it.
  std::random_device device;
  return static_cast<int64_t>((uint64_t{device()} << 21) ^ device());
}

// Takes over what generation_config.json says, where a request may say it: its silence (NaN, -1) is
// out of every range.
template <typename T>
void TakeIfRight(T value, void (v1::GenerationParams::*set)(T), v1::GenerationParams& params) {
  v1::GenerationParams one;
  (one.*set)(value);
  Violations wrong;
  CheckFields(one, "", ServerLimits(), /*vocab_size=*/0, wrong);
  if (wrong.ok()) params.MergeFrom(one);
}

}  // namespace

v1::GenerationParams DefaultParams(const ModelInfo& info) {
  using P = v1::GenerationParams;
  P params;
  params.set_temperature(1);
  params.set_top_k(0);
  params.set_top_p(1);
  params.set_min_p(0);
  params.set_typical_p(1);
  params.set_top_n_sigma(0);
  params.set_xtc_probability(0);
  params.set_xtc_threshold(0.1f);
  params.set_presence_penalty(0);
  params.set_frequency_penalty(0);
  params.set_repetition_penalty(1);
  params.set_ignore_eos(false);
  params.set_skip_special_tokens(true);
  params.set_include_stop_str_in_output(false);
  params.set_min_tokens(0);
  params.set_n(1);
  params.set_priority(0);
  params.set_max_queue_ms(0);
  TakeIfRight(info.default_temperature, &P::set_temperature, params);
  TakeIfRight(info.default_top_k, &P::set_top_k, params);
  TakeIfRight(info.default_top_p, &P::set_top_p, params);
  TakeIfRight(info.default_min_p, &P::set_min_p, params);
  TakeIfRight(info.default_repetition_penalty, &P::set_repetition_penalty, params);
  return params;
}

v1::GenerationParams EffectiveParams(const v1::GenerationParams& asked, const ServingModel& model,
                                     const ServerLimits& limits) {
  v1::GenerationParams params = model.default_params;
  params.MergeFrom(asked);
  if (!params.has_seed()) params.set_seed(DrawSeed());
  if (params.max_time_ms() == 0) {
    const int64_t max_ms = int64_t{limits.max_request_seconds} * 1000;
    params.set_max_time_ms(
        static_cast<uint32_t>(std::min<int64_t>(max_ms, std::numeric_limits<uint32_t>::max())));
  }
  return params;
}

absl::Status ResolveMaxTokens(int64_t prompt_tokens, const ModelInfo& info,
                              const ServerLimits& limits, v1::GenerationParams& params) {
  // The last token is never fed back: it needs a place in the context, but none in the cache.
  const int64_t kv_capacity = int64_t{info.num_blocks} * info.block_size;
  const int64_t max_by_context = info.max_model_len - prompt_tokens;
  const int64_t max_by_cache = kv_capacity - prompt_tokens + 1;
  const int64_t min_tokens = params.min_tokens();
  const int64_t asked =
      params.has_max_tokens() ? params.max_tokens() : std::max<int64_t>(min_tokens, 1);
  const auto refuse = [&](absl::string_view reason, absl::string_view limit_name, int64_t limit) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason,
                     absl::StrCat("a prompt of ", prompt_tokens, " tokens and ",
                                  params.has_max_tokens() ? "max_tokens " : "at least ", asked,
                                  params.has_max_tokens() ? "" : " to generate", " exceed ",
                                  limit_name, " ", limit, "; shorten the prompt or ask for less"),
                     {{"limit", absl::StrCat(limit)},
                      {"prompt_tokens", absl::StrCat(prompt_tokens)},
                      {"max_tokens", absl::StrCat(asked)}});
  };
  if (asked > max_by_context) {
    return refuse("CONTEXT_LENGTH_EXCEEDED", "the context of", info.max_model_len);
  }
  if (asked > max_by_cache) {
    return refuse("REQUEST_EXCEEDS_KV_CAPACITY", "the KV cache of", kv_capacity);
  }
  if (!params.has_max_tokens()) {
    int64_t max_tokens = std::min(max_by_context, max_by_cache);
    if (limits.max_output_tokens > 0) {
      max_tokens = std::min<int64_t>(max_tokens, limits.max_output_tokens);
    }
    if (min_tokens > max_tokens) {
      absl::Status status = InvalidField(
          "params.min_tokens",
          absl::StrCat(min_tokens, " is more than the ", max_tokens,
                       " that this server gives where max_tokens is not set; set max_tokens"));
      AddMetadata(status, "value", absl::StrCat(min_tokens));
      AddMetadata(status, "limit", absl::StrCat(max_tokens));
      return status;
    }
    params.set_max_tokens(static_cast<uint32_t>(max_tokens));
  }
  return absl::OkStatus();
}

}  // namespace quire
