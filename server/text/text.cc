#include "server/text/text.h"

#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace quire {
namespace {

QuireTextBytes Lend(absl::string_view text) { return {text.data(), text.size()}; }

// An empty text that is there, which differs from none at the ABI.
QuireTextBytes LendText(absl::string_view text) {
  return {text.data() == nullptr ? "" : text.data(), text.size()};
}

// Empty means "not given".
QuireTextBytes LendOptional(absl::string_view text) {
  return text.empty() ? QuireTextBytes{nullptr, 0} : Lend(text);
}

std::vector<QuireTextBytes> LendAll(const std::vector<absl::string_view>& texts) {
  std::vector<QuireTextBytes> lent;
  lent.reserve(texts.size());
  for (absl::string_view text : texts) lent.push_back(LendText(text));
  return lent;
}

int8_t Flag(const std::optional<bool>& flag) { return flag.has_value() ? int8_t{*flag} : -1; }

std::string TakeText(QuireTextBuffer buffer) {
  std::string text(static_cast<const char*>(buffer.data), buffer.size);
  quire_text_buffer_free(buffer);
  return text;
}

// Takes `message` over. REQUIRES: code != QUIRE_TEXT_OK.
absl::Status TakeError(QuireTextCode code, QuireTextBuffer message) {
  const std::string text = TakeText(message);
  switch (code) {
    case QUIRE_TEXT_NOT_FOUND:
      return absl::NotFoundError(text);
    case QUIRE_TEXT_UNSUPPORTED:
      return absl::UnimplementedError(text);
    case QUIRE_TEXT_RAISED:
      return absl::InvalidArgumentError(
          absl::StrCat("the chat template refuses the conversation: ", text));
    case QUIRE_TEXT_TEMPLATE_FAULT:
      return absl::FailedPreconditionError(text);
    case QUIRE_TEXT_EXHAUSTED:
      return absl::ResourceExhaustedError(text);
    case QUIRE_TEXT_INVALID:
      return absl::InvalidArgumentError(text);
    case QUIRE_TEXT_OK:
    case QUIRE_TEXT_INTERNAL:
      break;
  }
  return absl::InternalError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Open(const std::string& directory) {
  if (directory.empty()) return absl::InvalidArgumentError("the model's directory is empty");
  QuireTextTokenizer* handle = nullptr;
  QuireTextBuffer message = {};
  const QuireTextCode code = quire_text_tokenizer_open(Lend(directory), nullptr, &handle, &message);
  if (code != QUIRE_TEXT_OK) return TakeError(code, message);
  return std::unique_ptr<Tokenizer>(new Tokenizer(handle));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromVocab(const TextVocab& vocab) {
  const std::vector<QuireTextBytes> tokens = LendAll(vocab.tokens);
  const std::vector<QuireTextBytes> merges = LendAll(vocab.merges);
  QuireTextVocab lent = {};
  lent.model = Lend(vocab.model);
  lent.pre = Lend(vocab.pre);
  lent.tokens = tokens.data();
  lent.num_tokens = tokens.size();
  lent.token_types = vocab.token_types.data();
  lent.num_token_types = vocab.token_types.size();
  lent.merges = merges.data();
  lent.num_merges = merges.size();
  lent.scores = vocab.scores.data();
  lent.num_scores = vocab.scores.size();
  lent.chat_template = Lend(vocab.chat_template);
  lent.tool_template = Lend(vocab.tool_template);
  lent.charsmap = Lend(vocab.precompiled_charsmap);
  lent.bos_id = vocab.bos_id;
  lent.eos_id = vocab.eos_id;
  lent.unk_id = vocab.unk_id;
  lent.pad_id = vocab.pad_id;
  lent.add_bos = Flag(vocab.add_bos);
  lent.add_eos = Flag(vocab.add_eos);
  lent.add_space_prefix = Flag(vocab.add_space_prefix);
  lent.remove_extra_whitespaces = vocab.remove_extra_whitespaces;
  QuireTextTokenizer* handle = nullptr;
  QuireTextBuffer message = {};
  const QuireTextCode code = quire_text_tokenizer_open({nullptr, 0}, &lent, &handle, &message);
  if (code != QUIRE_TEXT_OK) return TakeError(code, message);
  return std::unique_ptr<Tokenizer>(new Tokenizer(handle));
}

Tokenizer::Tokenizer(QuireTextTokenizer* handle) : handle_(handle) {
  quire_text_tokenizer_view(handle_, &view_);
}

Tokenizer::~Tokenizer() { quire_text_tokenizer_free(handle_); }

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text,
                                                       const EncodeOptions& options) const {
  QuireTextBuffer buffer = {};
  QuireTextBuffer message = {};
  const QuireTextCode code = quire_text_tokenizer_encode(handle_, Lend(text), options.add_special,
                                                         options.parse_special, &buffer, &message);
  if (code != QUIRE_TEXT_OK) return TakeError(code, message);
  absl::Cleanup free_buffer = [buffer] { quire_text_buffer_free(buffer); };
  std::vector<int32_t> ids(buffer.size / sizeof(int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), buffer.data, buffer.size);
  return ids;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids,
                                              bool skip_special) const {
  StreamDecoder decoder(*this, skip_special);
  std::string text;
  for (int32_t id : ids) {
    if (absl::Status status = decoder.Push(id, text); !status.ok()) return status;
  }
  decoder.Flush(text);
  return text;
}

int32_t Tokenizer::FindToken(absl::string_view token) const {
  return static_cast<int32_t>(quire_text_tokenizer_find(handle_, Lend(token)));
}

absl::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (!HasToken(id)) return {};
  const uint32_t start = view_.starts[id];
  return {reinterpret_cast<const char*>(view_.bytes) + start, view_.starts[id + 1] - start};
}

absl::string_view Tokenizer::chat_template() const {
  return {view_.chat_template.data, view_.chat_template.size};
}

absl::string_view Tokenizer::tool_template() const {
  return {view_.tool_template.data, view_.tool_template.size};
}

absl::string_view Tokenizer::special_tokens_json() const {
  return {view_.special_tokens_json.data, view_.special_tokens_json.size};
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Compile(
    absl::string_view source, absl::string_view special_tokens_json,
    absl::string_view tool_source) {
  QuireTextTemplate* handle = nullptr;
  QuireTextBuffer message = {};
  const QuireTextCode code =
      quire_text_template_compile(Lend(source), Lend(special_tokens_json), &handle, &message);
  if (code != QUIRE_TEXT_OK) return TakeError(code, message);
  auto chat_template = std::unique_ptr<ChatTemplate>(new ChatTemplate(handle));
  if (tool_source.data() != nullptr) {
    absl::StatusOr<std::unique_ptr<ChatTemplate>> with_tools =
        Compile(tool_source, special_tokens_json);
    if (!with_tools.ok()) {
      return absl::Status(with_tools.status().code(),
                          absl::StrCat("for tools: ", with_tools.status().message()));
    }
    chat_template->with_tools_ = *std::move(with_tools);
  }
  return chat_template;
}

ChatTemplate::~ChatTemplate() { quire_text_template_free(handle_); }

absl::StatusOr<std::string> ChatTemplate::Render(const ChatRequest& request) const {
  if (with_tools_ != nullptr && !request.tools_json.empty()) return with_tools_->Render(request);
  std::string local_time;
  if (request.now.empty()) {
    local_time = absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::Now(), absl::LocalTimeZone());
  }
  QuireTextChat chat = {};
  chat.messages = Lend(request.messages_json);
  chat.tools = LendOptional(request.tools_json);
  chat.kwargs = LendOptional(request.kwargs_json);
  chat.now = Lend(request.now.empty() ? absl::string_view(local_time) : request.now);
  chat.add_generation_prompt = request.add_generation_prompt;
  chat.continue_final_message = request.continue_final_message;
  QuireTextBuffer text = {};
  QuireTextBuffer message = {};
  const QuireTextCode code = quire_text_template_render(handle_, &chat, &text, &message);
  if (code != QUIRE_TEXT_OK) return TakeError(code, message);
  return TakeText(text);
}

}  // namespace quire
