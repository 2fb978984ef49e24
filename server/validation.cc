#include "server/validation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/errors.h"
#include "server/field_rules.h"
#include "server/plain_name.h"
#include "server/violations.h"

namespace quire {
namespace {

using Params = v1::GenerationParams;

absl::Status CheckHasText(const ServingModel& model, absl::string_view what) {
  if (model.text != nullptr) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "TOKENIZER_MISSING",
                   absl::StrCat("the model has no tokenizer, which ", what,
                                " needs: send token_ids, and expect no text"));
}

// Ids that end a choice: those of the request, and EOS.
bool IsStop(uint32_t id, const Params& params, const ModelInfo& info) {
  const auto& asked = params.stop_token_ids();
  const auto& eos = info.eos_token_ids;
  return std::find(asked.begin(), asked.end(), id) != asked.end() ||
         (!params.ignore_eos() &&
          std::find(eos.begin(), eos.end(), static_cast<int32_t>(id)) != eos.end());
}

void CheckAllowed(const Params& params, const ServingModel& model, Violations& wrong) {
  const auto& allowed = params.allowed_token_ids();
  if (allowed.empty()) return;
  std::vector<uint32_t> sorted(allowed.begin(), allowed.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    wrong.Add("params.allowed_token_ids", absl::StrCat(*twice, " is there twice; once is enough"),
              {{"value", absl::StrCat(*twice)}});
  }
  if (params.min_tokens() == 0) return;
  for (const uint32_t id : allowed) {
    if (!IsStop(id, params, model.info)) return;
  }
  wrong.Add("params.min_tokens",
            absl::StrCat(params.min_tokens(), " tokens must come before a stop token, but ",
                         "allowed_token_ids has only stop tokens"),
            {{"value", absl::StrCat(params.min_tokens())}});
}

// What fields of the parameters mean to each other. REQUIRES: each of them is right.
void CheckContradictions(const Params& params, const ServingModel& model,
                         const ServerLimits& limits, Violations& wrong) {
  const int64_t max_ms = int64_t{limits.max_request_seconds} * 1000;
  if (params.max_time_ms() > max_ms) {
    wrong.Add("params.max_time_ms",
              absl::StrCat(params.max_time_ms(), " is more than ", max_ms,
                           ", this server's --max-request-seconds"),
              {{"value", absl::StrCat(params.max_time_ms())}, {"max", absl::StrCat(max_ms)}});
  }
  if (params.has_max_tokens() && params.min_tokens() > params.max_tokens()) {
    wrong.Add(
        "params.min_tokens",
        absl::StrCat(params.min_tokens(), " is more than max_tokens, ", params.max_tokens()),
        {{"value", absl::StrCat(params.min_tokens())}, {"max", absl::StrCat(params.max_tokens())}});
  }
  CheckAllowed(params, model, wrong);
  if (!params.stop().empty()) wrong.Add(CheckHasText(model, "params.stop"));
  if (!params.bad_words().empty()) wrong.Add(CheckHasText(model, "params.bad_words"));
}

size_t BytesOf(const v1::Chat& chat) {
  size_t num_bytes = chat.tools_json().size() + chat.template_args().ByteSizeLong();
  for (const v1::Message& message : chat.messages()) {
    num_bytes += message.role().size() + message.content().size() + message.name().size() +
                 message.tool_call_id().size() + message.tool_calls_json().size() +
                 message.reasoning_content().size();
  }
  return num_bytes;
}

// REQUIRES: each field is right.
void CheckChat(const v1::Chat& chat, const ServingModel& model, const ServerLimits& limits,
               Violations& wrong) {
  wrong.Add(CheckHasText(model, "chat"));
  if (model.text != nullptr && model.text->chat_template() == nullptr) {
    wrong.Add(MakeError(
        absl::StatusCode::kFailedPrecondition, "CHAT_TEMPLATE_MISSING",
        absl::StrCat(model.text->chat_template_error().message(), "; send the prompt as text")));
  }
  if (chat.continue_final_message() && chat.add_generation_prompt()) {
    wrong.Add("chat.continue_final_message",
              "goes on with the last message, add_generation_prompt begins a new one; set one");
  }
  const size_t num_bytes = BytesOf(chat);
  if (num_bytes > static_cast<size_t>(limits.max_prompt_bytes)) {
    wrong.Add("chat",
              absl::StrCat(num_bytes, " bytes; at most ", limits.max_prompt_bytes,
                           " are allowed (--max-prompt-bytes)"),
              {{"value", absl::StrCat(num_bytes)}, {"max", absl::StrCat(limits.max_prompt_bytes)}});
  }
}

// REQUIRES: each field is right.
void CheckPrompt(const v1::GenerateRequest& request, const ServingModel& model,
                 const ServerLimits& limits, Violations& wrong) {
  if (request.has_add_special_tokens() && request.prompt_case() != v1::GenerateRequest::kText) {
    wrong.Add("add_special_tokens", "is only allowed with the prompt `text`");
  }
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      wrong.Add(CheckHasText(model, "text"));
      break;
    case v1::GenerateRequest::kTokenIds:
      break;
    case v1::GenerateRequest::kChat:
      CheckChat(request.chat(), model, limits, wrong);
      break;
    case v1::GenerateRequest::PROMPT_NOT_SET:
      wrong.Add("prompt", "is not set; set one of text, token_ids, chat");
  }
}

// The model, and each field by its row.
template <class Request>
absl::Status CheckEach(const Request& request, const ServingModel& model,
                       const ServerLimits& limits) {
  if (absl::Status status = CheckModelName(request.model(), model); !status.ok()) return status;
  Violations wrong;
  CheckFields(request, "", limits, model.info.vocab_size, wrong);
  return wrong.status();
}

}  // namespace

absl::Status CheckModelName(absl::string_view name, const ServingModel& model) {
  const auto& aliases = model.aliases;
  if (name.empty() || name == model.name ||
      std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
    return absl::OkStatus();
  }
  if (static_cast<double>(name.size()) > kMaxModelNameBytes) {
    return InvalidField("model", absl::StrCat(name.size(), " bytes; must have 0 to ",
                                              static_cast<int>(kMaxModelNameBytes)));
  }
  return MakeError(absl::StatusCode::kNotFound, "MODEL_NOT_FOUND",
                   absl::StrCat("this server serves \"", model.name, "\"; there is no model \"",
                                name, "\" here"),
                   {{"model", std::string(name)}, {"served_model", model.name}});
}

absl::Status CheckRequestId(absl::string_view id, absl::string_view where) {
  if (IsPlainName(id, static_cast<size_t>(kMaxRequestIdBytes))) return absl::OkStatus();
  return InvalidField(where, absl::StrCat(id.size(), " bytes; must be 1 to ", kMaxRequestIdBytes,
                                          " of [A-Za-z0-9._-]"));
}

absl::Status CheckGenerate(const v1::GenerateRequest& request, const ServingModel& model,
                           const ServerLimits& limits) {
  if (absl::Status status = CheckModelName(request.model(), model); !status.ok()) return status;
  Violations wrong;
  if (!request.request_id().empty()) {
    wrong.Add(CheckRequestId(request.request_id(), "request_id"));
  }
  CheckFields(request, "", limits, model.info.vocab_size, wrong);
  const bool fields_are_right = wrong.ok();
  if (fields_are_right || request.prompt_case() == v1::GenerateRequest::PROMPT_NOT_SET) {
    CheckPrompt(request, model, limits, wrong);
  }
  if (fields_are_right) CheckContradictions(request.params(), model, limits, wrong);
  return wrong.status();
}

absl::Status ApplyRights(const Tenant* tenant, v1::GenerateRequest* request) {
  if (tenant == nullptr || request->params().priority() <= tenant->max_priority) {
    return absl::OkStatus();
  }
  const int32_t ceiling = tenant->max_priority;
  if (!request->params().has_priority()) {
    request->mutable_params()->set_priority(ceiling);
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kPermissionDenied, "PERMISSION_DENIED",
                   absl::StrCat("params.priority is ", request->params().priority(),
                                ", and tenant ", tenant->name, " may ask for at most ", ceiling),
                   {{"value", absl::StrCat(request->params().priority())},
                    {"limit", absl::StrCat(ceiling)},
                    {"tenant", tenant->name}});
}

absl::Status CheckWithoutModel(const google::protobuf::Message& request,
                               const ServerLimits& limits) {
  Violations wrong;
  CheckFields(request, "", limits, 0, wrong);
  return wrong.status();
}

absl::Status CheckTokenize(const v1::TokenizeRequest& request, const ServingModel& model,
                           const ServerLimits& limits) {
  const absl::Status status = CheckEach(request, model, limits);
  return status.ok() ? CheckHasText(model, "Tokenize") : status;
}

absl::Status CheckDetokenize(const v1::DetokenizeRequest& request, const ServingModel& model,
                             const ServerLimits& limits) {
  const absl::Status status = CheckEach(request, model, limits);
  return status.ok() ? CheckHasText(model, "Detokenize") : status;
}

absl::Status CheckApplyChatTemplate(const v1::ApplyChatTemplateRequest& request,
                                    const ServingModel& model, const ServerLimits& limits) {
  if (absl::Status status = CheckEach(request, model, limits); !status.ok()) return status;
  if (!request.has_chat()) return InvalidField("chat", "is not set; set a conversation");
  Violations wrong;
  CheckChat(request.chat(), model, limits, wrong);
  return wrong.status();
}

absl::Status CheckGetModel(const v1::GetModelRequest& request, const ServingModel& model,
                           const ServerLimits& limits) {
  return CheckEach(request, model, limits);
}

}  // namespace quire
