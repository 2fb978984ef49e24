#include "server/engine_request.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "server/errors.h"
#include "server/params.h"
#include "server/prompt.h"

namespace quire {
namespace {

using Params = v1::GenerationParams;

SamplingParams SamplingOf(const Params& params) {
  SamplingParams sampling;
  sampling.temperature = params.temperature();
  sampling.top_n_sigma = params.top_n_sigma();
  sampling.min_p = params.min_p();
  sampling.top_k = params.top_k();
  sampling.typical_p = params.typical_p();
  sampling.top_p = params.top_p();
  sampling.xtc_probability = params.xtc_probability();
  sampling.xtc_threshold = params.xtc_threshold();
  sampling.repetition_penalty = params.repetition_penalty();
  sampling.frequency_penalty = params.frequency_penalty();
  sampling.presence_penalty = params.presence_penalty();
  sampling.seed = static_cast<uint64_t>(params.seed());
  return sampling;
}

// The tokens of a word as it is at the start of a text, and after a space. The second form counts
// only where it is a token of its own (" word" beside "word"), not where a space is one more token:
// the first form is found within that one. vLLM bans the same ones.
absl::Status AddBadWord(const std::string& word, const std::string& field,
                        const ServingModel& model, std::vector<std::vector<int32_t>>& out) {
  const Tokenizer& tokenizer = model.text->tokenizer();
  const std::string bare(absl::StripLeadingAsciiWhitespace(word));
  const EncodeOptions options = {.add_special = false};
  absl::StatusOr<std::vector<int32_t>> first = tokenizer.Encode(bare, options);
  absl::StatusOr<std::vector<int32_t>> spaced = tokenizer.Encode(absl::StrCat(" ", bare), options);
  if (!first.ok()) return InvalidField(field, first.status().message());
  if (!spaced.ok()) return InvalidField(field, spaced.status().message());
  if (first->empty()) return InvalidField(field, "comes to no tokens; leave it out");
  // A token that the model lacks, though its tokenizer has it, never comes.
  const auto may_come = [&model](const std::vector<int32_t>& ids) {
    return std::all_of(ids.begin(), ids.end(),
                       [&model](int32_t id) { return id < model.info.vocab_size; });
  };
  const bool is_other = spaced->size() == first->size() && spaced->front() != first->front();
  if (is_other && may_come(*spaced)) out.push_back(*std::move(spaced));
  if (may_come(*first)) out.push_back(*std::move(first));
  return absl::OkStatus();
}

absl::Status FillRules(const Params& params, const ServingModel& model, TokenRules& rules) {
  for (const auto& [token_id, bias] : params.logit_bias()) {
    rules.logit_bias.push_back({static_cast<int32_t>(token_id), bias});
  }
  std::sort(rules.logit_bias.begin(), rules.logit_bias.end(),
            [](const LogitBias& a, const LogitBias& b) { return a.token_id < b.token_id; });
  rules.allowed_token_ids.assign(params.allowed_token_ids().begin(),
                                 params.allowed_token_ids().end());
  rules.min_tokens = static_cast<int32_t>(params.min_tokens());
  for (int i = 0; i < params.bad_words_size(); ++i) {
    absl::Status status = AddBadWord(params.bad_words(i), absl::StrCat("params.bad_words[", i, "]"),
                                     model, rules.bad_words);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Each once.
std::vector<int32_t> StopTokens(const Params& params, const ModelInfo& info) {
  std::vector<int32_t> stops;
  const auto add = [&stops](int32_t id) {
    if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
  };
  for (const uint32_t id : params.stop_token_ids()) add(static_cast<int32_t>(id));
  if (!params.ignore_eos()) {
    for (const int32_t id : info.eos_token_ids) add(id);
  }
  return stops;
}

int32_t NumLogprobs(bool is_asked, uint32_t count, const ModelInfo& info) {
  return is_asked ? std::min(static_cast<int32_t>(count), info.vocab_size) : -1;
}

}  // namespace

absl::Status BuildEngineRequest(const v1::GenerateRequest& asked, const ServingModel& model,
                                const ServerLimits& limits, v1::GenerationParams& params,
                                Request& request) {
  absl::StatusOr<std::vector<int32_t>> prompt = TokenizePrompt(asked, model.text.get(), model.info);
  if (!prompt.ok()) return prompt.status();
  request.prompt_token_ids = *std::move(prompt);
  params = EffectiveParams(asked.params(), model, limits);
  absl::Status status = ResolveMaxTokens(static_cast<int64_t>(request.prompt_token_ids.size()),
                                         model.info, limits, params);
  if (status.ok()) status = FillRules(params, model, request.rules);
  if (!status.ok()) return status;
  request.num_choices = static_cast<int32_t>(params.n());
  request.sampling = SamplingOf(params);
  request.max_tokens = static_cast<int32_t>(params.max_tokens());
  request.stop_token_ids = StopTokens(params, model.info);
  request.priority = params.priority();
  request.num_logprobs = NumLogprobs(params.has_logprobs(), params.logprobs(), model.info);
  request.num_prompt_logprobs =
      NumLogprobs(params.has_prompt_logprobs(), params.prompt_logprobs(), model.info);
  return absl::OkStatus();
}

void SetTimes(const v1::GenerationParams& params, TimeUs arrived_at, Request& request) {
  request.time_limit = arrived_at + TimeUs{params.max_time_ms()} * 1000;
  if (params.max_queue_ms() > 0) {
    request.queue_deadline = arrived_at + TimeUs{params.max_queue_ms()} * 1000;
  }
}

std::unique_ptr<const TextRules> MakeTextRules(const v1::GenerationParams& params,
                                               const ServingModel& model, const Request& request) {
  const std::vector<std::string> stops(params.stop().begin(), params.stop().end());
  return std::make_unique<const TextRules>(
      TextRules{.tokenizer = model.text == nullptr ? nullptr : &model.text->tokenizer(),
                .skip_special = params.skip_special_tokens(),
                .stop_token_ids = request.stop_token_ids,
                .stop_strings = StopStrings(stops),
                .include_stop_string = params.include_stop_str_in_output(),
                .wants_logprobs = params.has_logprobs(),
                .min_tokens = request.rules.min_tokens});
}

}  // namespace quire
