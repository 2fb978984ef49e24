#ifndef QUIRE_SERVER_GENERATION_H_
#define QUIRE_SERVER_GENERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "engine/token_listener.h"
#include "quire/v1/generation.pb.h"
#include "server/admission.h"
#include "server/choice.h"
#include "server/prompt_events.h"
#include "server/request_record.h"
#include "server/server_config.h"
#include "server/serving_model.h"

namespace quire {

// Where a Generation writes: the transport's end of one stream. All calls come one at a time. No
// call may call back into the Generation before it returns.
class GenerationWriter {
 public:
  virtual ~GenerationWriter() = default;
  // Generation::OnWritten answers. The response may be changed as soon as this returns.
  virtual void Write(const v1::GenerateResponse& response) = 0;
  // The last response, then OK. Nothing is called after it but Cancel.
  virtual void WriteLast(const v1::GenerateResponse& response) = 0;
  // The end; a write may be outstanding. Nothing is called after it but Cancel.
  virtual void Finish(const absl::Status& status) = 0;
  // Throws away what the client does not read.
  virtual void Cancel() = 0;
};

class Generation;
class Metrics;

// Who keeps all generations (ServerCore). Outlives them.
class GenerationHost {
 public:
  virtual ~GenerationHost() = default;
  // From a listener's call: has generation->Pump() called soon, on a thread that may take its time.
  virtual void PumpSoon(std::shared_ptr<Generation> generation) = 0;
  // The status is settled; the id may be used again. Must not call the generation.
  virtual void OnFinished(const Generation& generation, const absl::Status& status) = 0;
  // What became of it, once: when the engine has told its end too, and before a client hears of an
  // end with OK. Must not call the generation.
  virtual void OnRecord(const RequestRecord& record) = 0;
  virtual Metrics& metrics() = 0;
  virtual bool refuses_new() const = 0;
};

// The life of one Generate call: turns what the engine tells of its choices into events in the
// API's order, keeps one write in flight, and makes sure of exactly one end, whatever happens in
// whichever order. It knows no gRPC; it does not tokenise on the threads that call it, but where
// Prepare and Pump run.
//
// Held by the engine (as listener) and by the host until OnClosed; what ends last, frees it. The
// transport's end (`writer`) may go away only after OnClosed.
//
// Threads: any. Two locks: the engine thread takes only the one of the inbox (and its tenant's
// quota's), for moments; `mu_` orders all calls of the writer.
class Generation final : public TokenListener, public std::enable_shared_from_this<Generation> {
 public:
  // `request` is checked (CheckGenerate), `origin` has an id. `deadline`: of the call, on the
  // engine's clock.
  Generation(CallOrigin origin, v1::GenerateRequest request, CallTicket ticket, TimeUs deadline,
             const ServingModel& model, const ServerLimits& limits, GenerationHost& host,
             GenerationWriter* writer);

  // Tokenises the prompt and submits it, unless it has ended. Call once.
  void Prepare();
  // Writes what there is to write, if no write is outstanding: what PumpSoon asks for.
  void Pump();

  // From the transport.
  void OnWritten(bool ok);
  void OnClientGone();
  void OnClosed();  // the writer is gone; nothing comes after this

  // Ends it with `reason`, now or as soon as it is submitted. The engine says when it is over.
  void End(EndReason reason);
  // Ends it at once where the client has not read for too long.
  void CheckProgress(TimeUs now);

  // TokenListener: the engine thread.
  void OnAccepted(int queue_position, int cached_tokens) override;
  void OnRefused(const absl::Status& status) override;
  void OnPromptLogprobs(int position, const RowLogprobs& logprobs) override;
  void OnToken(const NewToken& token, const TokenScores& scores) override;
  void OnEnd(const EndedSequence& end) override;

  const std::string& request_id() const { return origin_.request_id; }
  const CallOrigin& origin() const { return origin_; }

 private:
  // What the engine said and nobody has looked at yet.
  struct Inbox {
    bool accepted = false;
    int queue_position = 0;
    int cached_tokens = 0;
    absl::Status refused;
    LogprobList prompt_scores;
    std::vector<NewToken> tokens;
    std::vector<TimeUs> token_times;  // of tokens
    LogprobList scores;               // of tokens, where they are wanted
    TimeUs first_token_at = 0;
    std::vector<EndedSequence> ends;
  };
  // What of the engine's words is for the record.
  struct EngineEnds {
    bool is_accepted = false;
    bool is_refused = false;
    int32_t num_ended = 0;
    EndedSequence first;  // of choice 0
    int64_t num_preemptions = 0;
  };
  // How it ended for the client.
  struct Settled {
    absl::Status status = absl::OkStatus();
    v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;  // where it is OK
    int64_t completion_tokens = 0;
    TimeUs at = 0;
  };
  enum class Step { kNothing, kWrite, kWriteLast, kFinish };

  // Whether there is still somebody to compute for; ends it where it has to end otherwise.
  bool IsWanted();
  // What Pump needs of the request.
  void SetUp(std::shared_ptr<const Request> request);
  // Adds the numbers that the engine's refusals lack.
  void AddNumbers(absl::Status& status) const;
  void Wake();
  // Makes the next response, if it may be written now.
  void Advance();
  // These are called by whoever holds `building_`.
  void TakeInbox();
  void GiveToChoices();
  // A choice failed: the whole fails with it.
  void Fail(const EndedSequence& end);
  Step NextStep();
  int64_t num_completion_tokens() const;
  // A token of this choice was told at this time.
  void CountGap(uint32_t choice, TimeUs at);
  // Adds to metrics, and to what its tenant has used, what the choices have got since last time.
  void CountLocked(int64_t num_completion_tokens);
  void CountTokensLocked(int64_t num_completion_tokens);
  // Of its tenant, if there is one.
  void UseQuota(int64_t num_tokens) const;
  void FillAccepted(v1::Accepted* accepted) const;
  void FillFinished(v1::Finished* finished);
  // REQUIRES: mu_ is held, finished_ is false.
  void FinishLocked(absl::Status status, int64_t completion_tokens);
  void SettleLocked(Settled settled);
  void RecordIfOverLocked();
  void FinishNow(EndReason reason);
  void EndAll(SequenceId first_id, EndReason reason);

  // Constant after construction.
  const CallOrigin origin_;
  const v1::GenerateRequest request_;
  const CallTicket ticket_;  // pays for request_
  const TimeUs deadline_;
  const ServingModel& model_;
  const ServerLimits& limits_;
  GenerationHost& host_;
  Engine& engine_;
  const TimeUs arrived_at_;
  const bool stream_;

  // Set in Prepare, before Submit; constant after.
  v1::GenerationParams params_;
  std::shared_ptr<const Request> engine_request_;
  std::unique_ptr<const TextRules> text_rules_;

  int num_prompt_scores_ = 0;  // engine thread

  std::mutex inbox_mu_;
  Inbox inbox_;                             // guarded by inbox_mu_
  EngineEnds engine_ends_;                  // likewise
  std::atomic<bool> wake_pending_ = false;  // PumpSoon was called, Pump has not begun
  std::atomic<int32_t> num_tokens_ = 0;     // that the engine has told

  // Of whoever holds `building_`.
  std::vector<Choice> choices_;
  std::optional<PromptEvents> prompt_;
  Inbox seen_;  // what was taken from inbox_ last; tokens, scores and ends are scratch
  v1::GenerateResponse response_;
  absl::Status final_status_;
  bool accepted_told_ = false;
  size_t next_choice_ = 0;             // they take turns
  std::vector<TimeUs> last_token_at_;  // [num_choices], 0: it has none
  TimeUs told_end_at_ = 0;             // the time that Finished tells

  std::mutex mu_;
  GenerationWriter* writer_;               // guarded by mu_, as all below
  std::optional<SequenceId> sequence_id_;  // of the first choice
  std::optional<EndReason> end_wanted_;    // came before there was a sequence
  bool building_ = false;                  // a thread makes the next response
  bool build_again_ = false;               // another thread wanted to meanwhile
  bool writing_ = false;
  bool finished_ = false;
  int32_t num_ends_due_ = 0;        // that the engine will tell, unless it refuses
  std::optional<Settled> settled_;  // set with finished_, until it is recorded
  int64_t counted_tokens_ = 0;      // that metrics know of
  bool prompt_is_counted_ = false;  // likewise
  TimeUs waiting_since_ = 0;        // for the write in flight, or for the transport to close
};

}  // namespace quire

#endif  // QUIRE_SERVER_GENERATION_H_
