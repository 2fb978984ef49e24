#include "server/cli/answer.h"

#include <iostream>

#include "absl/strings/strip.h"
#include <google/protobuf/util/json_util.h>

namespace quire::cli {
namespace {

std::string ToProtobufJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text : "{}";
}

Json ToJsonValue(const google::protobuf::Message& message) {
  return Json::parse(ToProtobufJson(message), nullptr, /*allow_exceptions=*/false);
}

Json ToJsonList(const std::vector<v1::TokenLogprob>& entries) {
  Json list = Json::array();
  for (const v1::TokenLogprob& entry : entries) list.push_back(ToJsonValue(entry));
  return list;
}

// FINISH_REASON_STOP -> "STOP"; null while there is none.
Json NameOf(v1::FinishReason reason) {
  if (reason == v1::FINISH_REASON_UNSPECIFIED) return nullptr;
  return std::string(absl::StripPrefix(v1::FinishReason_Name(reason), "FINISH_REASON_"));
}

}  // namespace

void Answer::Add(const v1::GenerateResponse& event) {
  switch (event.event_case()) {
    case v1::GenerateResponse::kAccepted:
      accepted_ = event.accepted();
      break;
    case v1::GenerateResponse::kPrompt:
      prompt_token_ids_.insert(prompt_token_ids_.end(), event.prompt().token_ids().begin(),
                               event.prompt().token_ids().end());
      prompt_logprobs_.insert(prompt_logprobs_.end(), event.prompt().logprobs().begin(),
                              event.prompt().logprobs().end());
      break;
    case v1::GenerateResponse::kDelta: {
      Choice& choice = choices_[event.delta().index()];
      choice.text += event.delta().text();
      choice.token_ids.insert(choice.token_ids.end(), event.delta().token_ids().begin(),
                              event.delta().token_ids().end());
      choice.logprobs.insert(choice.logprobs.end(), event.delta().logprobs().begin(),
                             event.delta().logprobs().end());
      break;
    }
    case v1::GenerateResponse::kChoiceFinished:
      choices_[event.choice_finished().index()].end = event.choice_finished();
      break;
    case v1::GenerateResponse::kFinished:
      finished_ = event.finished();
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;  // an event of a later version
  }
}

Json Answer::ToJson() const {
  Json choices = Json::array();
  for (const auto& [index, choice] : choices_) {
    Json shown = {{"index", index},
                  {"text", choice.text},
                  {"finish_reason", NameOf(choice.end.finish_reason())},
                  {"token_ids", choice.token_ids}};
    if (choice.end.has_token_id()) shown["matched_stop"] = {{"token_id", choice.end.token_id()}};
    if (choice.end.has_string()) shown["matched_stop"] = {{"string", choice.end.string()}};
    if (choice.end.has_cumulative_logprob()) {
      shown["logprobs"] = ToJsonList(choice.logprobs);
      shown["cumulative_logprob"] = choice.end.cumulative_logprob();
    }
    choices.push_back(std::move(shown));
  }
  Json params = ToJsonValue(accepted_.params());
  // Protobuf writes 64-bit numbers as strings.
  if (accepted_.params().has_seed()) params["seed"] = accepted_.params().seed();
  Json shown = {{"request_id", accepted_.request_id()},
                {"model", accepted_.model()},
                {"choices", std::move(choices)},
                {"usage", ToJsonValue(finished_.usage())},
                {"timings", ToJsonValue(finished_.timings())},
                {"params", std::move(params)}};
  if (!prompt_token_ids_.empty()) shown["prompt_token_ids"] = prompt_token_ids_;
  if (!prompt_logprobs_.empty()) shown["prompt_logprobs"] = ToJsonList(prompt_logprobs_);
  return shown;
}

const std::string& Answer::text(uint32_t index) const {
  static const std::string kNone;
  const auto found = choices_.find(index);
  return found == choices_.end() ? kNone : found->second.text;
}

bool TextPrinter::Print(const v1::GenerateResponse& event) {
  answer_.Add(event);
  if (!has_many_ && event.has_delta()) std::cout << event.delta().text() << std::flush;
  if (has_many_ && event.has_choice_finished()) {
    const uint32_t index = event.choice_finished().index();
    std::cout << "--- choice " << index << " ---\n" << answer_.text(index) << '\n' << std::flush;
  }
  return std::cout.good();
}

std::string ToJsonLine(const v1::GenerateResponse& event) { return ToProtobufJson(event); }

}  // namespace quire::cli
