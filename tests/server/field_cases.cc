#include "tests/server/field_cases.h"

namespace quire {

ServerLimits LimitsOfCases() {
  ServerLimits limits;
  limits.max_message_bytes = 50;
  limits.max_prompt_bytes = kPromptBytes;
  limits.max_chat_messages = 3;
  limits.max_choices = 6;
  limits.max_logprobs = 11;
  limits.max_stop_token_ids = 5;
  limits.max_stop_strings = 4;
  limits.max_stop_string_bytes = 9;
  limits.max_logit_bias = 3;
  limits.max_allowed_token_ids = 7;
  limits.max_bad_words = 2;
  return limits;
}

std::string X(int count) { return std::string(static_cast<size_t>(count), 'x'); }
std::string Quoted(const std::string& field, const std::string& text) {
  return field + ": '" + text + "'";
}
std::string Params(const std::string& fields) { return "params { " + fields + " }"; }
std::string Chat(const std::string& fields) {
  return "chat { messages { role: 'u' } " + fields + " }";
}

namespace {

// `part` so many times, with "#" replaced by 0, 1, ...
std::string Times(int count, const std::string& part) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::string one = part;
    const size_t at = one.find('#');
    if (at != std::string::npos) one.replace(at, 1, std::to_string(i));
    text += one + " ";
  }
  return text;
}

std::string Message(const std::string& fields) {
  return "chat { messages { role: 'u' " + fields + " } }";
}

std::string Args(const std::string& value) {
  return Chat("template_args { fields { key: 'k' value { " + value + " } } }");
}

}  // namespace

std::map<std::string, FieldCase> FieldCases() {
  const auto number = [](const std::string& name, const std::string& inside,
                         const std::string& outside) {
    return FieldCase{"GenerateRequest", Params(name + ": " + inside),
                     Params(name + ": " + outside)};
  };
  const auto texts_of_message = [](const std::string& name) {
    return FieldCase{"GenerateRequest", Message(Quoted(name, X(kPromptBytes - 1))),
                     Message(Quoted(name, X(kPromptBytes + 1)))};
  };
  const auto model = [](const char* request) {
    return FieldCase{request, Quoted("model", X(4096)), Quoted("model", X(4097))};
  };
  const std::string int32_max = "2147483647", past_int32 = "2147483648";
  return {
      {"GenerateRequest.model", model("GenerateRequest")},
      {"GenerateRequest.request_id",
       {"GenerateRequest", Quoted("request_id", X(128)), Quoted("request_id", X(129))}},
      {"GenerateRequest.text",
       {"GenerateRequest", Quoted("text", X(kPromptBytes)), Quoted("text", X(kPromptBytes + 1))}},
      {"TokenIds.ids",
       {"GenerateRequest", "token_ids { " + Times(50, "ids: 299") + "}",
        "token_ids { " + Times(51, "ids: 299") + "}"}},
      {"Chat.messages",
       {"GenerateRequest", "chat { " + Times(3, "messages { role: 'u' }") + "}",
        "chat { " + Times(4, "messages { role: 'u' }") + "}"}},
      {"Chat.tools_json",
       {"GenerateRequest", Chat(Quoted("tools_json", X(kPromptBytes - 1))),
        Chat(Quoted("tools_json", X(kPromptBytes + 1)))}},
      {"Message.role",
       {"GenerateRequest", "chat { messages { " + Quoted("role", X(64)) + " } }",
        "chat { messages { " + Quoted("role", X(65)) + " } }"}},
      {"Message.content", texts_of_message("content")},
      {"Message.name", texts_of_message("name")},
      {"Message.tool_call_id", texts_of_message("tool_call_id")},
      {"Message.tool_calls_json", texts_of_message("tool_calls_json")},
      {"Message.reasoning_content", texts_of_message("reasoning_content")},

      {"GenerationParams.temperature", number("temperature", "100", "100.001")},
      {"GenerationParams.top_k", number("top_k", "0", "-1")},
      {"GenerationParams.top_p", number("top_p", "1", "1.001")},
      {"GenerationParams.min_p", number("min_p", "1", "1.001")},
      {"GenerationParams.max_tokens", number("max_tokens", int32_max, past_int32)},
      {"GenerationParams.stop_token_ids",
       {"GenerateRequest", Params(Times(5, "stop_token_ids: 299")),
        Params(Times(6, "stop_token_ids: 299"))}},
      {"GenerationParams.priority", number("priority", "-100", "-101")},
      {"GenerationParams.max_time_ms", number("max_time_ms", "3600000", "3600001")},
      {"GenerationParams.n", number("n", "6", "7")},
      {"GenerationParams.min_tokens", number("min_tokens", int32_max, past_int32)},
      {"GenerationParams.stop",
       {"GenerateRequest", Params(Times(4, Quoted("stop", X(9)))),
        Params(Times(5, Quoted("stop", X(9))))}},
      {"GenerationParams.truncate_prompt_tokens",
       number("truncate_prompt_tokens", int32_max, past_int32)},
      {"GenerationParams.presence_penalty", number("presence_penalty", "-2", "-2.001")},
      {"GenerationParams.frequency_penalty", number("frequency_penalty", "2", "2.001")},
      {"GenerationParams.repetition_penalty", number("repetition_penalty", "10", "10.001")},
      {"GenerationParams.logit_bias",
       {"GenerateRequest", Params(Times(3, "logit_bias { key: # value: 1 }")),
        Params(Times(4, "logit_bias { key: # value: 1 }"))}},
      {"GenerationParams.LogitBiasEntry.key",
       {"GenerateRequest", Params("logit_bias { key: 299 value: 1 }"),
        Params("logit_bias { key: 300 value: 1 }")}},
      {"GenerationParams.LogitBiasEntry.value",
       {"GenerateRequest", Params("logit_bias { key: 1 value: -100 }"),
        Params("logit_bias { key: 1 value: -100.001 }")}},
      {"GenerationParams.allowed_token_ids",
       {"GenerateRequest", Params(Times(7, "allowed_token_ids: #")),
        Params(Times(8, "allowed_token_ids: #"))}},
      {"GenerationParams.bad_words",
       {"GenerateRequest", Params(Times(2, Quoted("bad_words", X(9)))),
        Params(Times(2, Quoted("bad_words", X(10))))}},
      {"GenerationParams.typical_p", number("typical_p", "1e-30", "0")},
      {"GenerationParams.top_n_sigma", number("top_n_sigma", "100", "100.001")},
      {"GenerationParams.xtc_probability", number("xtc_probability", "1", "1.001")},
      {"GenerationParams.xtc_threshold", number("xtc_threshold", "0.5", "0.501")},
      {"GenerationParams.logprobs", number("logprobs", "11", "12")},
      {"GenerationParams.prompt_logprobs", number("prompt_logprobs", "11", "12")},

      {"AbortAnyRequest.request_ids",
       {"AbortAnyRequest", Times(1024, "request_ids: 'a'"), Times(1025, "request_ids: 'a'")}},
      {"SetLogLevelRequest.level", {"SetLogLevelRequest", "level: LOG_LEVEL_ERROR", "level: 6"}},
      {"AbortRequest.request_ids",
       {"AbortRequest", Times(1024, "request_ids: 'a'"), Times(1025, "request_ids: 'a'")}},

      {"TokenizeRequest.model", model("TokenizeRequest")},
      {"TokenizeRequest.text",
       {"TokenizeRequest", Quoted("text", X(kPromptBytes)), Quoted("text", X(kPromptBytes + 1))}},
      {"DetokenizeRequest.model", model("DetokenizeRequest")},
      {"DetokenizeRequest.token_ids",
       {"DetokenizeRequest", Times(50, "token_ids: 299"), Times(51, "token_ids: 299")}},
      {"ApplyChatTemplateRequest.model", model("ApplyChatTemplateRequest")},
      {"GetModelRequest.model", model("GetModelRequest")},

      {"google.protobuf.Struct.fields",
       {"GenerateRequest",
        Chat("template_args { " + Times(1024, "fields { key: '#' value { bool_value: true } }") +
             "}"),
        Chat("template_args { " + Times(1025, "fields { key: '#' value { bool_value: true } }") +
             "}")}},
      {"google.protobuf.Struct.FieldsEntry.key",
       {"GenerateRequest",
        Chat("template_args { fields { key: '" + X(256) + "' value { bool_value: true } } }"),
        Chat("template_args { fields { key: '" + X(257) + "' value { bool_value: true } } }")}},
      {"google.protobuf.Value.null_value",
       {"GenerateRequest", Args("null_value: NULL_VALUE"), Args("null_value: 1")}},
      {"google.protobuf.Value.number_value",
       {"GenerateRequest", Args("number_value: 1.7e308"), Args("number_value: inf")}},
      {"google.protobuf.Value.string_value",
       {"GenerateRequest", Args(Quoted("string_value", X(kPromptBytes - 100))),
        Args(Quoted("string_value", X(kPromptBytes + 1)))}},
      {"google.protobuf.ListValue.values",
       {"GenerateRequest", Args("list_value { " + Times(1024, "values { bool_value: true }") + "}"),
        Args("list_value { " + Times(1025, "values { bool_value: true }") + "}")}},
  };
}

const std::map<std::string, std::string>& UnboundedFields() {
  static const auto* const kUnbounded = new std::map<std::string, std::string>{
      {"GenerationParams.seed", "all 64 bits make a seed"},
      {"GenerationParams.max_queue_ms", "all 32 bits make a time; 0 is none"},
  };
  return *kUnbounded;
}

}  // namespace quire
