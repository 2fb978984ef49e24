#include "server/field_rules.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <google/protobuf/reflection.h>

namespace quire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using L = ServerLimits;

constexpr double kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr double kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr double kMaxDouble = std::numeric_limits<double>::max();

constexpr FieldRule Any(absl::string_view field, const char* why) {
  return {.field = field, .note = why};
}
constexpr FieldRule Number(absl::string_view field, Bound min, Bound max, const char* note = "") {
  return {.field = field, .kind = FieldKind::kNumber, .min = min, .max = max, .note = note};
}
constexpr FieldRule Above(absl::string_view field, Bound low, Bound max) {
  FieldRule rule = Number(field, low, max);
  rule.open_low = true;
  return rule;
}
constexpr FieldRule ZeroOr(absl::string_view field, Bound min, Bound max) {
  FieldRule rule = Number(field, min, max);
  rule.zero_too = true;
  return rule;
}
constexpr FieldRule TokenId(absl::string_view field) {
  return {.field = field, .kind = FieldKind::kTokenId};
}
constexpr FieldRule TokenIds(absl::string_view field, Bound min_count, Bound max_count,
                             const char* note = "") {
  return {.field = field,
          .kind = FieldKind::kTokenId,
          .min_count = min_count,
          .max_count = max_count,
          .note = note};
}
constexpr FieldRule Text(absl::string_view field, Bound min, Bound max, const char* note = "") {
  return {.field = field, .kind = FieldKind::kText, .min = min, .max = max, .note = note};
}
constexpr FieldRule Texts(absl::string_view field, Bound max_bytes, Bound max_count,
                          const char* note = "") {
  FieldRule rule = Text(field, 1.0, max_bytes, note);
  rule.max_count = max_count;
  return rule;
}
constexpr FieldRule Sub(absl::string_view field) {
  return {.field = field, .kind = FieldKind::kMessage};
}
constexpr FieldRule Subs(absl::string_view field, Bound min_count, Bound max_count,
                         const char* note = "") {
  FieldRule rule = Sub(field);
  rule.min_count = min_count;
  rule.max_count = max_count;
  rule.note = note;
  return rule;
}

constexpr char kBool[] = "true and false are both right";

constexpr FieldRule kRules[] = {
    Text("GenerateRequest.model", 0.0, kMaxModelNameBytes),
    Text("GenerateRequest.request_id", 0.0, kMaxRequestIdBytes),
    Text("GenerateRequest.text", 1.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Sub("GenerateRequest.token_ids"),
    Sub("GenerateRequest.chat"),
    Any("GenerateRequest.add_special_tokens", kBool),
    Sub("GenerateRequest.params"),
    Any("GenerateRequest.stream", kBool),
    Any("GenerateRequest.return_prompt_token_ids", kBool),

    TokenIds("TokenIds.ids", 1.0, &L::max_message_bytes),

    Subs("Chat.messages", 1.0, &L::max_chat_messages, "--max-chat-messages"),
    Any("Chat.add_generation_prompt", kBool),
    Sub("Chat.template_args"),
    Text("Chat.tools_json", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Any("Chat.continue_final_message", kBool),

    Text("Message.role", 1.0, 64.0, "such as \"user\""),
    Text("Message.content", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Text("Message.name", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Text("Message.tool_call_id", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Text("Message.tool_calls_json", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Text("Message.reasoning_content", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),

    ZeroOr("GenerationParams.temperature", 1e-6, 100.0),
    Number("GenerationParams.top_k", 0.0, kMaxInt32),
    Above("GenerationParams.top_p", 0.0, 1.0),
    Number("GenerationParams.min_p", 0.0, 1.0),
    Any("GenerationParams.seed", "every number is a seed"),
    Number("GenerationParams.max_tokens", 1.0, kMaxInt32),
    TokenIds("GenerationParams.stop_token_ids", 0.0, &L::max_stop_token_ids,
             "--max-stop-token-ids"),
    Any("GenerationParams.ignore_eos", kBool),
    Any("GenerationParams.skip_special_tokens", kBool),
    Number("GenerationParams.priority", -100.0, 100.0),
    Number("GenerationParams.max_time_ms", 0.0, kMaxUint32),  // and max_request_seconds
    Any("GenerationParams.max_queue_ms", "every number is a time, and 0 is none"),
    Number("GenerationParams.n", 1.0, &L::max_choices, "--max-choices"),
    Number("GenerationParams.min_tokens", 0.0, kMaxInt32),
    Texts("GenerationParams.stop", &L::max_stop_string_bytes, &L::max_stop_strings,
          "--max-stop-strings, --max-stop-string-bytes"),
    Any("GenerationParams.include_stop_str_in_output", kBool),
    Number("GenerationParams.truncate_prompt_tokens", 1.0, kMaxInt32),
    Number("GenerationParams.presence_penalty", -2.0, 2.0),
    Number("GenerationParams.frequency_penalty", -2.0, 2.0),
    Above("GenerationParams.repetition_penalty", 0.0, 10.0),
    Subs("GenerationParams.logit_bias", 0.0, &L::max_logit_bias, "--max-logit-bias"),
    TokenId("GenerationParams.LogitBiasEntry.key"),
    Number("GenerationParams.LogitBiasEntry.value", -100.0, 100.0),
    TokenIds("GenerationParams.allowed_token_ids", 0.0, &L::max_allowed_token_ids,
             "--max-allowed-token-ids"),
    Texts("GenerationParams.bad_words", &L::max_stop_string_bytes, &L::max_bad_words,
          "--max-bad-words, --max-stop-string-bytes"),
    Above("GenerationParams.typical_p", 0.0, 1.0),
    Number("GenerationParams.top_n_sigma", 0.0, 100.0),
    Number("GenerationParams.xtc_probability", 0.0, 1.0),
    Above("GenerationParams.xtc_threshold", 0.0, 0.5),
    Number("GenerationParams.logprobs", 0.0, &L::max_logprobs, "--max-logprobs"),
    Number("GenerationParams.prompt_logprobs", 0.0, &L::max_logprobs, "--max-logprobs"),

    Texts("AbortRequest.request_ids", kMaxRequestIdBytes, 1024.0),
    Texts("AbortAnyRequest.request_ids", kMaxRequestIdBytes, 1024.0),
    {.field = "SetLogLevelRequest.level", .kind = FieldKind::kEnum},

    Text("TokenizeRequest.model", 0.0, kMaxModelNameBytes),
    Text("TokenizeRequest.text", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Any("TokenizeRequest.add_special_tokens", kBool),
    Any("TokenizeRequest.parse_special_tokens", kBool),

    Text("DetokenizeRequest.model", 0.0, kMaxModelNameBytes),
    TokenIds("DetokenizeRequest.token_ids", 0.0, &L::max_message_bytes),
    Any("DetokenizeRequest.skip_special_tokens", kBool),

    Text("ApplyChatTemplateRequest.model", 0.0, kMaxModelNameBytes),
    Sub("ApplyChatTemplateRequest.chat"),

    Text("GetModelRequest.model", 0.0, kMaxModelNameBytes),

    // template_args. As a whole they count among the bytes of the conversation.
    Subs("google.protobuf.Struct.fields", 0.0, 1024.0),
    Text("google.protobuf.Struct.FieldsEntry.key", 1.0, 256.0),
    Sub("google.protobuf.Struct.FieldsEntry.value"),
    {.field = "google.protobuf.Value.null_value", .kind = FieldKind::kEnum},
    Number("google.protobuf.Value.number_value", -kMaxDouble, kMaxDouble, "JSON has only these"),
    Text("google.protobuf.Value.string_value", 0.0, &L::max_prompt_bytes, "--max-prompt-bytes"),
    Any("google.protobuf.Value.bool_value", kBool),
    Sub("google.protobuf.Value.struct_value"),
    Sub("google.protobuf.Value.list_value"),
    Subs("google.protobuf.ListValue.values", 0.0, 1024.0),
};

// Bounds are doubles; most of them are counts.
std::string NumberText(double value) {
  const bool is_whole = std::abs(value) < 1e15 && value == std::floor(value);
  return is_whole ? absl::StrCat(static_cast<int64_t>(value)) : absl::StrCat(value);
}

ErrorMetadata Numbers(double value, double min, double max) {
  return {{"value", NumberText(value)}, {"min", NumberText(min)}, {"max", NumberText(max)}};
}

std::string NoteOf(const FieldRule& rule) {
  return *rule.note == '\0' ? "" : absl::StrCat(" (", rule.note, ")");
}

// "0 or in [1e-06, 100]", "in (0, 1]".
std::string RangeText(const FieldRule& rule, double min, double max) {
  std::string text = rule.zero_too ? "0 or in " : "in ";
  if (max >= kMaxDouble) return "finite" + NoteOf(rule);
  absl::StrAppend(&text, rule.open_low ? "(" : "[", NumberText(min), ", ", NumberText(max), "]",
                  NoteOf(rule));
  return text;
}

class FieldChecker {
 public:
  FieldChecker(const ServerLimits& limits, int32_t vocab_size, Violations& wrong)
      : limits_(limits), vocab_size_(vocab_size), wrong_(wrong) {}

  // False: something is wrong, and was added.
  bool Check(const Message& message, const std::string& path) {
    const Descriptor& type = *message.GetDescriptor();
    const Reflection& reflection = *message.GetReflection();
    bool is_right = true;
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const FieldRule* rule = RuleOf(field);
      if (rule == nullptr) {
        wrong_.Add(field.full_name(), "has no rule");
        return false;
      }
      if (rule->kind == FieldKind::kAny) continue;
      if (field.has_presence() && !reflection.HasField(message, &field)) continue;
      const std::string at = path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
      const bool fits = field.is_repeated() ? CheckRepeated(message, reflection, field, *rule, at)
                                            : CheckOne(message, reflection, field, *rule, at);
      is_right = is_right && fits;
    }
    return is_right;
  }

 private:
  bool Wrong(const std::string& at, absl::string_view what, const ErrorMetadata& numbers = {}) {
    wrong_.Add(at, what, numbers);
    return false;
  }

  bool CheckRepeated(const Message& message, const Reflection& reflection,
                     const FieldDescriptor& field, const FieldRule& rule, const std::string& at) {
    const int count = reflection.FieldSize(message, &field);
    const double min = rule.min_count.In(limits_), max = rule.max_count.In(limits_);
    if (count < min) {
      return Wrong(at, absl::StrCat("is empty; give ", NumberText(min), " or more"),
                   Numbers(count, min, max));
    }
    if (count > max) {
      const char* const what = field.message_type() == nullptr ? " entries" : " messages";
      return Wrong(
          at,
          absl::StrCat(count, what, "; at most ", NumberText(max), " are allowed", NoteOf(rule)),
          Numbers(count, min, max));
    }
    if (rule.kind == FieldKind::kTokenId) {
      const auto ids = reflection.GetRepeatedFieldRef<uint32_t>(message, &field);
      for (int i = 0; i < ids.size(); ++i) {
        if (!IsToken(ids.Get(i))) return CheckToken(ids.Get(i), absl::StrCat(at, "[", i, "]"));
      }
      return true;
    }
    for (int i = 0; i < count; ++i) {
      if (rule.kind == FieldKind::kText) {
        std::string scratch;
        const std::string& text =
            reflection.GetRepeatedStringReference(message, &field, i, &scratch);
        if (!CheckText(text, rule, at, i)) return false;
      } else {
        const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
        if (!Check(entry,
                   absl::StrCat(at, "[", field.is_map() ? KeyOf(entry) : absl::StrCat(i), "]"))) {
          return false;
        }
      }
    }
    return true;
  }

  static std::string KeyOf(const Message& entry) {
    const FieldDescriptor& key = *entry.GetDescriptor()->map_key();
    const Reflection& reflection = *entry.GetReflection();
    if (key.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return reflection.GetString(entry, &key).substr(0, 64);
    }
    return absl::StrCat(reflection.GetUInt32(entry, &key));
  }

  bool CheckOne(const Message& message, const Reflection& reflection, const FieldDescriptor& field,
                const FieldRule& rule, const std::string& at) {
    switch (rule.kind) {
      case FieldKind::kAny:
        return true;
      case FieldKind::kNumber:
        return CheckNumber(ValueOf(message, reflection, field), rule, at,
                           field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT);
      case FieldKind::kTokenId:
        return CheckToken(reflection.GetUInt32(message, &field), at);
      case FieldKind::kEnum: {
        const int value = reflection.GetEnumValue(message, &field);
        if (field.enum_type()->FindValueByNumber(value) != nullptr) return true;
        return Wrong(at, absl::StrCat(value, " is no value of ", field.enum_type()->full_name()),
                     {{"value", absl::StrCat(value)}});
      }
      case FieldKind::kText: {
        std::string scratch;
        return CheckText(reflection.GetStringReference(message, &field, &scratch), rule, at, -1);
      }
      case FieldKind::kMessage:
        return Check(reflection.GetMessage(message, &field), at);
    }
    return true;
  }

  static double ValueOf(const Message& message, const Reflection& reflection,
                        const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_FLOAT:
        return reflection.GetFloat(message, &field);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection.GetDouble(message, &field);
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.GetInt32(message, &field);
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection.GetUInt32(message, &field);
      default:
        return std::numeric_limits<double>::quiet_NaN();  // a row of the wrong kind
    }
  }

  bool CheckNumber(double value, const FieldRule& rule, const std::string& at, bool is_float) {
    const double low = rule.min.In(limits_), max = rule.max.In(limits_);
    const double min = is_float ? static_cast<double>(static_cast<float>(low)) : low;
    const bool in_range = value <= max && (rule.open_low ? value > min : value >= min);
    if (in_range || (rule.zero_too && value == 0)) return true;
    return Wrong(at, absl::StrCat(NumberText(value), " is not ", RangeText(rule, low, max)),
                 Numbers(value, low, max));
  }

  bool IsToken(uint32_t id) const { return id < static_cast<uint32_t>(vocab_size_); }

  bool CheckToken(uint32_t id, const std::string& at) {
    if (IsToken(id)) return true;
    return Wrong(at, absl::StrCat(id, " is not below the vocabulary's size, ", vocab_size_),
                 {{"value", absl::StrCat(id)}, {"vocab_size", absl::StrCat(vocab_size_)}});
  }

  // `index` < 0: not of a list.
  bool CheckText(const std::string& text, const FieldRule& rule, const std::string& at, int index) {
    const double min = rule.min.In(limits_), max = rule.max.In(limits_);
    const auto size = static_cast<double>(text.size());
    if (size >= min && size <= max) return true;
    const std::string most = NumberText(max);
    const std::string what =
        text.empty()
            ? absl::StrCat("is empty; must have 1 to ", most, " bytes")
            : absl::StrCat(text.size(), " bytes; must have ", NumberText(min), " to ", most);
    return Wrong(index < 0 ? at : absl::StrCat(at, "[", index, "]"), what + NoteOf(rule),
                 Numbers(size, min, max));
  }

  const ServerLimits& limits_;
  const int32_t vocab_size_;
  Violations& wrong_;
};

}  // namespace

absl::Span<const FieldRule> FieldRules() { return kRules; }

const FieldRule* RuleOf(const FieldDescriptor& field) {
  static const auto* const kByName = [] {
    auto* by_name = new absl::flat_hash_map<absl::string_view, const FieldRule*>;
    for (const FieldRule& rule : kRules) by_name->emplace(rule.field, &rule);
    return by_name;
  }();
  const auto it = kByName->find(absl::StripPrefix(field.full_name(), "quire.v1."));
  return it == kByName->end() ? nullptr : it->second;
}

void CheckFields(const Message& message, absl::string_view path, const ServerLimits& limits,
                 int32_t vocab_size, Violations& wrong) {
  FieldChecker(limits, vocab_size, wrong).Check(message, std::string(path));
}

}  // namespace quire
