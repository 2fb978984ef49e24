#ifndef QUIRE_SERVER_CLI_ANSWER_H_
#define QUIRE_SERVER_CLI_ANSWER_H_

#include <map>
#include <string>
#include <vector>

#include "quire/v1/generation.pb.h"
#include "server/cli/report.h"

namespace quire::cli {

// The events of one generation put together: what `quire generate --json` prints.
class Answer {
 public:
  void Add(const v1::GenerateResponse& event);

  // {request_id, model, choices[{index, text, finish_reason, token_ids}], usage, timings, params};
  // where they were asked for, choices have logprobs and cumulative_logprob, and the whole
  // prompt_token_ids and prompt_logprobs.
  Json ToJson() const;

  // Text of a choice so far.
  const std::string& text(uint32_t index = 0) const;
  const std::string& request_id() const { return accepted_.request_id(); }
  const v1::Finished& finished() const { return finished_; }

 private:
  struct Choice {
    std::string text;
    std::vector<uint32_t> token_ids;
    std::vector<v1::TokenLogprob> logprobs;  // of token_ids, or none
    v1::ChoiceFinished end;
  };

  v1::Accepted accepted_;
  v1::Finished finished_;
  std::vector<uint32_t> prompt_token_ids_;
  std::vector<v1::TokenLogprob> prompt_logprobs_;
  std::map<uint32_t, Choice> choices_;  // by index
};

// Shows the text of a generation on stdout: one choice as it comes, several one after the other as
// they are done, each under a heading.
class TextPrinter {
 public:
  explicit TextPrinter(const v1::GenerateRequest& request) : has_many_(request.params().n() > 1) {}

  // False: nobody reads on.
  bool Print(const v1::GenerateResponse& event);
  const Answer& answer() const { return answer_; }

 private:
  const bool has_many_;
  Answer answer_;
};

// One event as a line of protobuf JSON with the field names of the .proto files.
std::string ToJsonLine(const v1::GenerateResponse& event);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_ANSWER_H_
