#include "server/model_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/errors.h"
#include "server/prompt.h"
#include "server/validation.h"

namespace quire {
namespace {

constexpr size_t kMaxResponseBytes = 1 << 20;

absl::Status TooLarge(absl::string_view field) {
  return InvalidField(field, absl::StrCat("the answer would have more than ", kMaxResponseBytes,
                                          " bytes; send it in parts"));
}

template <class Response>
absl::StatusOr<Response> IfSmallEnough(Response response, absl::string_view field) {
  if (response.ByteSizeLong() > kMaxResponseBytes) return TooLarge(field);
  return response;
}

void FillLimits(const ServerCore& core, const ModelInfo& info, v1::ModelLimits* out) {
  const ServerLimits& limits = core.config().limits;
  const auto u = [](int32_t value) { return static_cast<uint32_t>(value); };
  out->set_max_model_len(u(info.max_model_len));
  out->set_max_output_tokens(u(limits.max_output_tokens));
  out->set_max_num_seqs(u(info.max_num_seqs));
  out->set_max_num_batched_tokens(u(info.max_num_batched_tokens));
  out->set_max_queued_requests(u(core.config().engine.max_queued_requests));
  out->set_max_concurrent_requests(u(limits.max_concurrent_requests));
  out->set_max_prompt_bytes(u(limits.max_prompt_bytes));
  out->set_max_chat_messages(u(limits.max_chat_messages));
  out->set_max_stop_token_ids(u(limits.max_stop_token_ids));
  out->set_max_request_seconds(u(limits.max_request_seconds));
  out->set_max_choices(u(limits.max_choices));
  out->set_max_logprobs(u(limits.max_logprobs));
  out->set_max_stop_strings(u(limits.max_stop_strings));
  out->set_max_stop_string_bytes(u(limits.max_stop_string_bytes));
  out->set_max_logit_bias(u(limits.max_logit_bias));
  out->set_max_allowed_token_ids(u(limits.max_allowed_token_ids));
  out->set_max_bad_words(u(limits.max_bad_words));
  out->set_max_message_bytes(u(limits.max_message_bytes));
  out->set_max_requests_per_peer(u(limits.max_requests_per_peer));
}

void AddFeatures(const ServerCore& core, const ServingModel& model,
                 v1::GetModelResponse& response) {
  if (model.text != nullptr) {
    response.add_features("text");
    response.add_features("stop_strings");
    response.add_features("bad_words");
    if (model.text->chat_template() != nullptr) response.add_features("chat");
  }
  if (core.config().engine.prefix_caching) response.add_features("prefix_caching");
  for (const char* feature :
       {"choices", "logprobs", "prompt_logprobs", "penalties", "logit_bias", "allowed_token_ids",
        "min_tokens", "typical_p", "top_n_sigma", "xtc", "truncate_prompt_tokens"}) {
    response.add_features(feature);
  }
}

}  // namespace

absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                              const ServingModel& model,
                                              const ServerLimits& limits) {
  if (absl::Status status = CheckTokenize(request, model, limits); !status.ok()) return status;
  EncodeOptions options;
  if (request.has_add_special_tokens()) options.add_special = request.add_special_tokens();
  if (request.has_parse_special_tokens()) options.parse_special = request.parse_special_tokens();
  const absl::StatusOr<std::vector<int32_t>> ids =
      model.text->tokenizer().Encode(request.text(), options);
  if (!ids.ok()) return InvalidField("text", ids.status().message());
  v1::TokenizeResponse response;
  response.mutable_token_ids()->Add(ids->begin(), ids->end());
  return IfSmallEnough(std::move(response), "text");
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                  const ServingModel& model,
                                                  const ServerLimits& limits) {
  if (absl::Status status = CheckDetokenize(request, model, limits); !status.ok()) return status;
  StreamDecoder decoder(model.text->tokenizer(),
                        !request.has_skip_special_tokens() || request.skip_special_tokens());
  std::string text;
  for (const uint32_t id : request.token_ids()) {
    // As in a stream: an id without a token (a padding row of the model) adds no text.
    decoder.Push(static_cast<int32_t>(id), text).IgnoreError();
    if (text.size() > kMaxResponseBytes) return TooLarge("token_ids");
  }
  decoder.Flush(text);
  v1::DetokenizeResponse response;
  response.set_text(std::move(text));
  return IfSmallEnough(std::move(response), "token_ids");
}

absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
    const v1::ApplyChatTemplateRequest& request, const ServingModel& model,
    const ServerLimits& limits) {
  if (absl::Status status = CheckApplyChatTemplate(request, model, limits); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::string> text = RenderChat(request.chat(), *model.text);
  if (!text.ok()) return text.status();
  if (text->size() > kMaxResponseBytes) return TooLarge("chat");
  const absl::StatusOr<std::vector<int32_t>> ids =
      model.text->tokenizer().Encode(*text, {.add_special = false});
  if (!ids.ok()) return InvalidField("chat", ids.status().message());
  v1::ApplyChatTemplateResponse response;
  response.set_text(*std::move(text));
  response.mutable_token_ids()->Add(ids->begin(), ids->end());
  return IfSmallEnough(std::move(response), "chat");
}

v1::ListModelsResponse ListModels(const ServingModel& model) {
  v1::ListModelsResponse response;
  v1::ModelName* name = response.add_models();
  name->set_name(model.name);
  name->mutable_aliases()->Add(model.aliases.begin(), model.aliases.end());
  return response;
}

absl::StatusOr<v1::GetModelResponse> GetModel(const v1::GetModelRequest& request,
                                              const ServingModel& model, const ServerCore& core) {
  const absl::Status status = CheckGetModel(request, model, core.config().limits);
  if (!status.ok()) return status;
  const ModelInfo& info = model.info;
  v1::GetModelResponse response;
  response.set_name(model.name);
  response.mutable_aliases()->Add(model.aliases.begin(), model.aliases.end());
  response.add_architectures(info.architecture);
  response.set_weight_format(info.weight_format);
  response.set_numerics_mode(info.numerics_mode);
  response.set_backend(info.backend);
  response.set_fingerprint(info.fingerprint);
  response.set_vocab_size(static_cast<uint32_t>(info.vocab_size));
  for (const int32_t id : info.eos_token_ids) {
    response.add_eos_token_ids(static_cast<uint32_t>(id));
  }
  if (info.bos_token_id >= 0) response.set_bos_token_id(static_cast<uint32_t>(info.bos_token_id));
  if (model.text != nullptr) {
    const int32_t pad_id = model.text->tokenizer().pad_id();
    if (pad_id >= 0) response.set_pad_token_id(static_cast<uint32_t>(pad_id));
  }
  AddFeatures(core, model, response);
  *response.mutable_default_params() = model.default_params;
  FillLimits(core, info, response.mutable_limits());
  v1::KvCacheInfo* kv_cache = response.mutable_kv_cache();
  kv_cache->set_block_size(static_cast<uint32_t>(info.block_size));
  kv_cache->set_num_blocks(static_cast<uint32_t>(info.num_blocks));
  kv_cache->set_capacity_tokens(static_cast<uint32_t>(info.block_size) *
                                static_cast<uint32_t>(info.num_blocks));
  kv_cache->set_bytes(static_cast<double>(info.kv_cache_bytes));
  response.set_instance_id(core.instance_id());
  response.set_version(QUIRE_VERSION);
  return response;
}

}  // namespace quire
