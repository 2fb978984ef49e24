#include "server/text/gguf_vocab.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace quire {
namespace {

// Reads keys of one file into fields; a key that is not there leaves its field as it is. The first
// error stays, and what follows is not read.
class VocabReader {
 public:
  explicit VocabReader(const GgufFile& file) : file_(file) {}

  template <typename T>
  void Read(absl::string_view key, absl::StatusOr<T> (GgufFile::*get)(absl::string_view) const,
            T& field) {
    if (!status_.ok() || !file_.Has(key)) return;
    absl::StatusOr<T> value = (file_.*get)(key);
    status_ = value.status();
    if (value.ok()) field = *std::move(value);
  }

  void ReadInt32s(absl::string_view key, std::vector<int32_t>& field) {
    std::vector<int64_t> wide;
    Read(key, &GgufFile::GetInts, wide);
    field.reserve(wide.size());
    for (int64_t value : wide) field.push_back(Narrow(key, value));
  }

  // Bytes, which a file stores as an array of signed or unsigned numbers.
  void ReadBytes(absl::string_view key, std::string& field) {
    std::vector<int64_t> wide;
    Read(key, &GgufFile::GetInts, wide);
    field.reserve(wide.size());
    for (int64_t value : wide) field.push_back(static_cast<char>(value));
  }

  void ReadFlag(absl::string_view key, std::optional<bool>& field) {
    bool flag = false;
    Read(key, &GgufFile::GetBool, flag);
    if (status_.ok() && file_.Has(key)) field = flag;
  }

  void ReadInt32(absl::string_view key, int32_t& field) {
    int64_t wide = field;
    Read(key, &GgufFile::GetInt, wide);
    field = Narrow(key, wide);
  }

  const absl::Status& status() const { return status_; }

 private:
  int32_t Narrow(absl::string_view key, int64_t value) {
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      status_.Update(absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": ", key, ": ", value, " does not fit into 32 bits")));
      return -1;
    }
    return static_cast<int32_t>(value);
  }

  const GgufFile& file_;
  absl::Status status_;
};

// The ids that the first SentencePiece models had, for files that do not name theirs.
void SetHabitualIds(TextVocab& vocab) {
  const auto known = [&vocab](int32_t id) {
    return id < static_cast<int32_t>(vocab.tokens.size()) ? id : -1;
  };
  if (vocab.model == "llama") {
    vocab.unk_id = known(0);
    vocab.bos_id = known(1);
    vocab.eos_id = known(2);
  } else if (vocab.model == "t5") {
    vocab.pad_id = known(0);
    vocab.eos_id = known(1);
    vocab.unk_id = known(2);
  }
}

}  // namespace

absl::StatusOr<TextVocab> ReadGgufVocab(const GgufFile& file) {
  for (absl::string_view key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens"}) {
    if (!file.Has(key)) {
      return absl::NotFoundError(
          absl::StrCat(file.path(), ": no ", key, "; the file has no tokenizer"));
    }
  }
  TextVocab vocab;
  VocabReader reader(file);
  reader.Read("tokenizer.ggml.model", &GgufFile::GetString, vocab.model);
  if (vocab.model == "gpt2" && !file.Has("tokenizer.ggml.merges")) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": no tokenizer.ggml.merges, which a tokenizer of model \"gpt2\" needs"));
  }
  reader.Read("tokenizer.ggml.pre", &GgufFile::GetString, vocab.pre);
  reader.Read("tokenizer.ggml.tokens", &GgufFile::GetStrings, vocab.tokens);
  reader.ReadInt32s("tokenizer.ggml.token_type", vocab.token_types);
  reader.Read("tokenizer.ggml.merges", &GgufFile::GetStrings, vocab.merges);
  reader.Read("tokenizer.ggml.scores", &GgufFile::GetFloats, vocab.scores);
  SetHabitualIds(vocab);
  reader.ReadInt32("tokenizer.ggml.bos_token_id", vocab.bos_id);
  reader.ReadInt32("tokenizer.ggml.eos_token_id", vocab.eos_id);
  reader.ReadInt32("tokenizer.ggml.unknown_token_id", vocab.unk_id);
  reader.ReadInt32("tokenizer.ggml.padding_token_id", vocab.pad_id);
  // add_sep_token is not read: it is about pairs of texts, which a generating model never gets.
  reader.ReadFlag("tokenizer.ggml.add_bos_token", vocab.add_bos);
  reader.ReadFlag("tokenizer.ggml.add_eos_token", vocab.add_eos);
  reader.ReadFlag("tokenizer.ggml.add_space_prefix", vocab.add_space_prefix);
  reader.Read("tokenizer.ggml.remove_extra_whitespaces", &GgufFile::GetBool,
              vocab.remove_extra_whitespaces);
  reader.ReadBytes("tokenizer.ggml.precompiled_charsmap", vocab.precompiled_charsmap);
  reader.Read("tokenizer.chat_template", &GgufFile::GetString, vocab.chat_template);
  reader.Read("tokenizer.chat_template.tool_use", &GgufFile::GetString, vocab.tool_template);
  if (!reader.status().ok()) return reader.status();
  return vocab;
}

}  // namespace quire
