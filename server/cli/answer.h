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

  // {request_id, model, choices[{index, text, finish_reason, token_ids}], usage, timings, params},
  // and prompt_token_ids where they were asked for.
  Json ToJson() const;

  // Text of the first choice so far.
  const std::string& text() const;
  const std::string& request_id() const { return accepted_.request_id(); }
  const v1::Finished& finished() const { return finished_; }

 private:
  struct Choice {
    std::string text;
    std::vector<uint32_t> token_ids;
    v1::ChoiceFinished end;
  };

  v1::Accepted accepted_;
  v1::Finished finished_;
  std::vector<uint32_t> prompt_token_ids_;
  std::map<uint32_t, Choice> choices_;  // by index
};

// One event as a line of protobuf JSON with the field names of the .proto files.
std::string ToJsonLine(const v1::GenerateResponse& event);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_ANSWER_H_
