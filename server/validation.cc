#include "server/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "server/errors.h"

namespace quire {
namespace {

using Params = v1::GenerationParams;

constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxRoleBytes = 64;
constexpr double kMaxInt32 = std::numeric_limits<int32_t>::max();

// One row for each parameter that has a range. A value is right when it is in [low, high], or
// `zero_too` and it is 0; NaN never is.
struct Range {
  const char* field;
  bool (*is_set)(const Params&);
  double (*value)(const Params&);
  double low;
  double high;
  bool zero_too;
  const char* allowed;
};

#define QUIRE_PARAM(name)                                          \
  "params." #name, [](const Params& p) { return p.has_##name(); }, \
      [](const Params& p) { return static_cast<double>(p.name()); }

constexpr double kTiny = std::numeric_limits<double>::min();
constexpr Range kRanges[] = {
    {QUIRE_PARAM(temperature), 9.9e-7, 100, true, "0 (greedy) or in [0.000001, 100]"},
    {QUIRE_PARAM(top_k), 0, kMaxInt32, false, "0 (off) or more"},
    {QUIRE_PARAM(top_p), kTiny, 1, false, "in (0, 1]"},
    {QUIRE_PARAM(min_p), 0, 1, false, "in [0, 1]"},
    {QUIRE_PARAM(max_tokens), 1, kMaxInt32, false, "1 or more, or not set"},
    {QUIRE_PARAM(priority), -100, 100, false, "in [-100, 100]"},
};
#undef QUIRE_PARAM

// Gathers what is wrong: the first makes the message, all make the violations.
class Violations {
 public:
  void Add(const std::string& field, const std::string& what) {
    if (status_.ok()) {
      status_ = InvalidField(field, what);
    } else {
      AddViolation(status_, field, what);
    }
  }
  // Keeps what another check found, if it is the first.
  void Add(const absl::Status& status) {
    if (status.ok()) return;
    if (status_.ok()) {
      status_ = status;
      return;
    }
    for (const auto& [field, what] : ViolationsOf(status)) AddViolation(status_, field, what);
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

absl::Status CheckParams(const Params& params, const ServingModel& model,
                         const ServerLimits& limits) {
  Violations wrong;
  for (const Range& range : kRanges) {
    if (!range.is_set(params)) continue;
    const double value = range.value(params);
    const bool fits = (value >= range.low && value <= range.high) || (range.zero_too && value == 0);
    if (!fits) wrong.Add(range.field, absl::StrCat(value, " is not ", range.allowed));
  }
  const int64_t max_ms = int64_t{limits.max_request_seconds} * 1000;
  if (params.max_time_ms() > max_ms) {
    wrong.Add("params.max_time_ms", absl::StrCat(params.max_time_ms(), " is more than ", max_ms,
                                                 ", this server's --max-request-seconds"));
  }
  if (params.stop_token_ids_size() > limits.max_stop_token_ids) {
    wrong.Add("params.stop_token_ids", absl::StrCat(params.stop_token_ids_size(), " ids; at most ",
                                                    limits.max_stop_token_ids, " are allowed"));
  } else {
    wrong.Add(CheckTokenIds(params.stop_token_ids(), "params.stop_token_ids", model));
  }
  return wrong.status();
}

absl::Status CheckText(absl::string_view text, absl::string_view field, bool may_be_empty,
                       const ServerLimits& limits) {
  if (text.empty() && !may_be_empty) return InvalidField(field, "is empty; give a prompt");
  if (text.size() > static_cast<size_t>(limits.max_prompt_bytes)) {
    return InvalidField(field, absl::StrCat(text.size(), " bytes; at most ",
                                            limits.max_prompt_bytes, " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(const v1::GenerateRequest& request, const ServingModel& model,
                         const ServerLimits& limits) {
  if (request.has_add_special_tokens() && request.prompt_case() != v1::GenerateRequest::kText) {
    return InvalidField("add_special_tokens", "is only allowed with the prompt `text`");
  }
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText: {
      absl::Status status = CheckText(request.text(), "text", false, limits);
      return status.ok() ? CheckHasText(model) : status;
    }
    case v1::GenerateRequest::kTokenIds:
      if (request.token_ids().ids().empty()) {
        return InvalidField("token_ids.ids", "is empty; give a prompt of one token or more");
      }
      return CheckTokenIds(request.token_ids().ids(), "token_ids.ids", model);
    case v1::GenerateRequest::kChat:
      return CheckChat(request.chat(), model, limits);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "is not set; set one of text, token_ids, chat");
}

int64_t DrawSeed() {
  // 53 bits: every client's numbers can hold it.
  std::random_device device;
  return static_cast<int64_t>((uint64_t{device()} << 21) ^ device());
}

}  // namespace

absl::Status CheckModelName(absl::string_view name, const ServingModel& model) {
  const auto& aliases = model.aliases;
  if (name.empty() || name == model.name ||
      std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kNotFound, "MODEL_NOT_FOUND",
                   absl::StrCat("this server serves \"", model.name, "\"; there is no model \"",
                                name, "\" here"),
                   {{"model", std::string(name)}, {"served_model", model.name}});
}

absl::Status CheckRequestId(absl::string_view id, absl::string_view where) {
  bool fits = !id.empty() && id.size() <= kMaxRequestIdBytes;
  for (char c : id) fits = fits && (absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-');
  if (fits) return absl::OkStatus();
  return InvalidField(where, absl::StrCat(id.size(), " bytes; must be 1 to ", kMaxRequestIdBytes,
                                          " of [A-Za-z0-9._-]"));
}

absl::Status CheckGenerate(const v1::GenerateRequest& request, const ServingModel& model,
                           const ServerLimits& limits) {
  absl::Status status = CheckModelName(request.model(), model);
  if (!status.ok()) return status;
  Violations wrong;
  if (!request.request_id().empty()) {
    wrong.Add(CheckRequestId(request.request_id(), "request_id"));
  }
  wrong.Add(CheckParams(request.params(), model, limits));
  wrong.Add(CheckPrompt(request, model, limits));
  return wrong.status();
}

absl::Status CheckHasText(const ServingModel& model) {
  if (model.text != nullptr) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "TOKENIZER_MISSING",
                   "the model has no tokenizer: send token_ids, and expect no text");
}

absl::Status CheckChat(const v1::Chat& chat, const ServingModel& model,
                       const ServerLimits& limits) {
  absl::Status status = CheckHasText(model);
  if (!status.ok()) return status;
  if (model.text->chat_template() == nullptr) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "CHAT_TEMPLATE_MISSING",
        absl::StrCat(model.text->chat_template_error().message(), "; send the prompt as text"));
  }
  if (chat.messages().empty()) return InvalidField("chat.messages", "is empty");
  if (chat.messages_size() > limits.max_chat_messages) {
    return InvalidField("chat.messages", absl::StrCat(chat.messages_size(), " messages; at most ",
                                                      limits.max_chat_messages, " are allowed"));
  }
  size_t num_bytes = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::Message& message = chat.messages(i);
    if (message.role().empty() || message.role().size() > kMaxRoleBytes) {
      return InvalidField(absl::StrCat("chat.messages[", i, "].role"),
                          absl::StrCat(message.role().size(), " bytes; must be 1 to ",
                                       kMaxRoleBytes, ", such as \"user\""));
    }
    num_bytes += message.role().size() + message.content().size() + message.name().size();
  }
  num_bytes += chat.template_args().ByteSizeLong();
  if (num_bytes > static_cast<size_t>(limits.max_prompt_bytes)) {
    return InvalidField("chat", absl::StrCat(num_bytes, " bytes; at most ", limits.max_prompt_bytes,
                                             " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status CheckTokenIds(const google::protobuf::RepeatedField<uint32_t>& ids,
                           absl::string_view field, const ServingModel& model) {
  const auto vocab_size = static_cast<uint32_t>(model.info.vocab_size);
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocab_size) continue;
    return InvalidField(absl::StrCat(field, "[", i, "]"),
                        absl::StrCat(ids[i], " is not below the vocabulary's size, ", vocab_size));
  }
  return absl::OkStatus();
}

absl::Status CheckTokenize(const v1::TokenizeRequest& request, const ServingModel& model,
                           const ServerLimits& limits) {
  absl::Status status = CheckHasText(model);
  return status.ok() ? CheckText(request.text(), "text", true, limits) : status;
}

v1::GenerationParams DefaultParams(const ModelInfo& info) {
  const auto known = [](float value, float low, float high, float otherwise) {
    return value >= low && value <= high ? value : otherwise;  // NaN: otherwise
  };
  Params params;
  params.set_temperature(known(info.default_temperature, 0, 100, 1));
  params.set_top_k(std::max(info.default_top_k, 0));
  params.set_top_p(known(info.default_top_p, std::numeric_limits<float>::min(), 1, 1));
  params.set_min_p(known(info.default_min_p, 0, 1, 0));
  params.set_ignore_eos(false);
  params.set_skip_special_tokens(true);
  params.set_priority(0);
  params.set_max_queue_ms(0);
  return params;
}

v1::GenerationParams EffectiveParams(const v1::GenerationParams& asked, const ServingModel& model,
                                     const ServerLimits& limits) {
  Params params = model.default_params;
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
  const int64_t asked = params.has_max_tokens() ? params.max_tokens() : 1;
  const auto refuse = [&](absl::string_view reason, absl::string_view limit_name, int64_t limit) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason,
                     absl::StrCat("a prompt of ", prompt_tokens, " tokens and ",
                                  params.has_max_tokens() ? "max_tokens " : "at least ", asked,
                                  params.has_max_tokens() ? "" : " token", " exceed ", limit_name,
                                  " ", limit, "; shorten the prompt or lower max_tokens"),
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
    params.set_max_tokens(static_cast<uint32_t>(max_tokens));
  }
  return absl::OkStatus();
}

}  // namespace quire
