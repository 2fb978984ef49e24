// `quire chat`: a conversation, or the answer to one question.

#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"

#include "server/cli/answer.h"
#include "server/cli/command.h"
#include "server/cli/endpoint.h"
#include "server/cli/log.h"
#include "server/cli/prompt_source.h"
#include "server/cli/report.h"
#include "server/cli/request_flags.h"
#include "server/cli/signal_watch.h"
#include "server/cli/terminal.h"

namespace quire::cli {
namespace {

struct Options {
  EndpointOptions endpoint;
  v1::GenerateRequest request;
  std::optional<std::string> question;
  std::string system;
  ChatOptions chat;
};

constexpr char kHelp[] =
    "/reset forgets the conversation, /quit or Ctrl-D ends, Ctrl-C stops an answer, a line that "
    "ends with \\ goes on in the next one";

// One conversation with one model.
//
// The thread of the SignalWatch calls OnInterrupt, everything else is one thread's.
class Conversation {
 public:
  Conversation(Client& client, Terminal& terminal, const Options& options)
      : client_(client),
        terminal_(terminal),
        options_(options),
        is_answering_(options.question.has_value()) {
    Reset();
  }

  // Asks, prints the answer as it comes, and remembers both. A question that failed is forgotten.
  ExitCode Ask(const std::string& question);
  // Asks what is typed until the end of the input. Returns how the last question went.
  ExitCode Talk();
  // Stops the answer that is coming, or tells the prompt.
  void OnInterrupt();

 private:
  void Reset();
  void Add(const char* role, const std::string& content);
  // False when the input is over.
  bool Turn(const std::string& line, ExitCode* code);
  void NoteSpeed(const v1::Finished& finished);

  Client& client_;
  Terminal& terminal_;
  const Options& options_;
  v1::GenerateRequest request_;     // with the messages so far
  std::atomic<bool> is_answering_;  // or about to
  std::atomic<bool> was_stopped_ = false;
};

void Conversation::Reset() {
  request_ = options_.request;
  if (!options_.system.empty()) Add("system", options_.system);
}

void Conversation::Add(const char* role, const std::string& content) {
  v1::Message* message = request_.mutable_chat()->add_messages();
  message->set_role(role);
  message->set_content(content);
}

void Conversation::OnInterrupt() {
  if (!is_answering_) return terminal_.Interrupt();
  was_stopped_ = true;
  client_.CancelAll();
}

ExitCode Conversation::Ask(const std::string& question) {
  Add("user", question);
  TextPrinter printer(request_);
  is_answering_ = true;
  auto failure = client_.Generate(request_, [&](const v1::GenerateResponse& event) {
    return printer.Print(event) && !was_stopped_;
  });
  is_answering_ = false;
  const Answer& answer = printer.answer();
  if (!answer.text().empty() && request_.params().n() <= 1) std::cout << '\n' << std::flush;
  if (was_stopped_.exchange(false) && failure) {
    // What was said so far stays said.
    if (answer.text().empty()) {
      request_.mutable_chat()->mutable_messages()->RemoveLast();
    } else {
      Add("assistant", answer.text());
    }
    if (terminal_.is_interactive()) terminal_.Note("[stopped]");
    return ExitCode::kInterrupted;
  }
  if (failure) {
    request_.mutable_chat()->mutable_messages()->RemoveLast();
    return Fail(
        ExitCodeOf(*failure),
        absl::StrCat(failure->reason, failure->reason.empty() ? "" : ": ", failure->message));
  }
  Add("assistant", answer.text());
  if (terminal_.is_interactive()) NoteSpeed(answer.finished());
  return ExitCode::kOk;
}

void Conversation::NoteSpeed(const v1::Finished& finished) {
  const v1::Timings& timings = finished.timings();
  const uint32_t tokens = finished.usage().completion_tokens();
  const double decode_ms = timings.total_ms() - timings.ttft_ms();
  std::string text =
      absl::StrFormat("[%d tokens, the first after %.0f ms", tokens, timings.ttft_ms());
  if (tokens > 1 && decode_ms > 0) {
    absl::StrAppendFormat(&text, ", then %.1f per second", (tokens - 1) * 1000 / decode_ms);
  }
  terminal_.Note(text + "]");
}

bool Conversation::Turn(const std::string& line, ExitCode* code) {
  if (line.find_first_not_of(" \t\r\n") == std::string::npos) return true;
  if (line == "/quit" || line == "/exit") return false;
  if (line == "/reset") {
    Reset();
    terminal_.Note("The conversation starts anew.");
  } else if (line == "/help") {
    terminal_.Note(kHelp);
  } else if (line.front() == '/') {
    terminal_.Note(absl::StrCat("There is no command ", line, "; /help lists them."));
  } else {
    *code = Ask(line);
  }
  return true;
}

ExitCode Conversation::Talk() {
  if (terminal_.is_interactive()) terminal_.Note(absl::StrCat("Ask something. ", kHelp, "."));
  ExitCode code = ExitCode::kOk;
  bool was_interrupted = false;
  std::string line;
  while (true) {
    switch (terminal_.ReadLine("you> ", &line)) {
      case Terminal::Input::kEnd:
        if (terminal_.is_interactive()) terminal_.Note("");
        return code;
      case Terminal::Input::kInterrupted:
        terminal_.Note("");
        if (was_interrupted || !terminal_.is_interactive()) return ExitCode::kInterrupted;
        was_interrupted = true;
        terminal_.Note("Ctrl-C again, or Ctrl-D, ends.");
        break;
      case Terminal::Input::kLine:
        was_interrupted = false;
        if (!Turn(line, &code)) return code;
        // An answer that was stopped is no failure of the conversation.
        if (terminal_.is_interactive()) code = ExitCode::kOk;
        terminal_.ClearInterrupts();
        break;
    }
  }
}

ExitCode Chat(Options& options) {
  absl::Status status = SetChatOptions(options.chat, options.request.mutable_chat());
  if (!status.ok()) return Fail(ExitCode::kUsage, status.message());
  LogAsCommand();
  InterruptHandler interrupts;
  Terminal terminal;
  if (!options.endpoint.engine.model_path.empty() && terminal.is_interactive()) {
    terminal.Note(absl::StrCat("Loading ", options.endpoint.engine.model_path, " ..."));
  }
  Endpoint endpoint;
  ExitCode code = ExitCode::kOk;
  if (auto failure = endpoint.Open(options.endpoint, &code)) return Fail(code, failure->message);
  Conversation talk(endpoint.client(), terminal, options);
  interrupts.Set([&] { talk.OnInterrupt(); });
  code = options.question ? talk.Ask(*options.question) : talk.Talk();
  interrupts.Set(nullptr);
  return code;
}

}  // namespace

Command ChatCommand() {
  auto options = std::make_shared<Options>();
  std::vector<Flag> flags = {
      MakeFlag("QUESTION", "", "Ask this, print the answer, end; without it: a conversation",
               &options->question),
      MakeFlag("--system", "TEXT", "What the model is told before the conversation",
               &options->system),
      MakeFlag("--tools", "FILE", "Functions that the model may call: JSON list, as OpenAI's",
               &options->chat.tools_file),
      MakeFlag("--template-args", "JSON", "Variables for the chat template: {\"name\": value}",
               &options->chat.template_args),
  };
  for (Flag& flag : RequestFlags(&options->request)) flags.push_back(std::move(flag));
  for (Flag& flag : EndpointFlags(&options->endpoint)) flags.push_back(std::move(flag));
  return {.name = "chat",
          .summary = "Talk to a model, or ask it one question",
          .examples = R"(In a conversation /help lists the commands; Ctrl-C stops an answer, not the
program. Of several answers (--n) the conversation goes on with the first.

Examples:
  quire chat
  quire chat "Why is the sky blue?" --temperature 0
  quire chat --model models/my-model --system "Answer in one sentence.")",
          .flags = std::move(flags),
          .run = [options] { return Chat(*options); }};
}

}  // namespace quire::cli
