#include "server/model_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "engine/gguf.h"
#include "server/text/gguf_vocab.h"

namespace quire {
namespace {

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& model_path,
                                                         absl::Span<const GgufOverride> overrides) {
  if (absl::Status status = CheckOverrides(model_path, overrides); !status.ok()) return status;
  if (!IsGgufFile(model_path)) return Tokenizer::Open(model_path);
  const absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(model_path, overrides);
  if (!file.ok()) return file.status();
  if (!(*file)->Has("tokenizer.ggml.tokens")) {
    return absl::NotFoundError(absl::StrCat(model_path, ": no key tokenizer.ggml.tokens"));
  }
  const absl::StatusOr<TextVocab> vocab = ReadGgufVocab(**file);
  if (!vocab.ok()) return vocab.status();
  return Tokenizer::FromVocab(*vocab);
}

}  // namespace

ModelText::ModelText(std::unique_ptr<Tokenizer> tokenizer,
                     std::unique_ptr<ChatTemplate> chat_template)
    : tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      chat_template_error_(absl::NotFoundError("the model has no chat template")) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const auto num_bytes = static_cast<int64_t>(tokenizer_->TokenBytes(id).size());
    max_token_bytes_ = std::max(max_token_bytes_, num_bytes);
  }
}

absl::StatusOr<std::unique_ptr<ModelText>> ModelText::Open(
    const std::string& model_path, absl::Span<const GgufOverride> overrides) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = OpenTokenizer(model_path, overrides);
  if (!tokenizer.ok()) return tokenizer.status();
  if (!(*tokenizer)->has_chat_template()) {
    return std::make_unique<ModelText>(*std::move(tokenizer), nullptr);
  }
  absl::StatusOr<std::unique_ptr<ChatTemplate>> chat_template =
      ChatTemplate::Compile((*tokenizer)->chat_template(), (*tokenizer)->special_tokens_json(),
                            (*tokenizer)->tool_template());
  const absl::Status compiled = chat_template.status();
  auto text = std::make_unique<ModelText>(*std::move(tokenizer),
                                          compiled.ok() ? *std::move(chat_template) : nullptr);
  if (!compiled.ok()) text->chat_template_error_ = compiled;
  return text;
}

}  // namespace quire
