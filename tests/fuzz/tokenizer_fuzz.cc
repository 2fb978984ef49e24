// Tokenizers from files that nobody vouches for, through the C ABI: opens them, encodes a text,
// decodes and streams what comes of it, compiles the chat template that they bring.
//
// An input begins with a line that says what it is. "vocab ..." is a vocabulary as GGUF files have
// it (ReadVocab has the form); everything else is three parts (SplitParts): tokenizer.json,
// tokenizer_config.json, the text.
#include <array>
#include <charconv>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "server/text/text.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/tokenizer_checks.h"

namespace quire {
namespace {

void Exercise(const Tokenizer& tokenizer, absl::string_view text) {
  CheckTable(tokenizer);
  CheckEncode(tokenizer, text);
  std::vector<int32_t> ids;
  for (const char c : text) {
    ids.push_back(static_cast<unsigned char>(c) % (tokenizer.vocab_size() + 1));
  }
  CheckStream(tokenizer, ids, false);
  CheckStream(tokenizer, ids, true);
  tokenizer.FindToken(text);
  if (tokenizer.has_chat_template()) {
    ChatTemplate::Compile(tokenizer.chat_template(), tokenizer.special_tokens_json())
        .status()
        .IgnoreError();
  }
}

int32_t IntOf(absl::string_view text) {
  int32_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The first line: vocab MODEL PRE BOS EOS UNK PAD FLAGS, FLAGS out of b (add BOS), e (add EOS), s
// (add a space), t (types), f (scores). A line for each token, TEXT <tab> TYPE <tab> SCORE, and a
// part of its own (SplitParts) for each of: these, the merges, the chat template, the text.
void OpenVocab(absl::string_view input) {
  const std::vector<absl::string_view> parts = SplitParts(input, 4);
  std::vector<absl::string_view> lines = absl::StrSplit(parts[0], '\n');
  std::vector<absl::string_view> words = absl::StrSplit(lines[0], ' ');
  words.resize(8);
  const absl::string_view flags = words[7];
  const auto has = [flags](char flag) { return absl::StrContains(flags, flag); };
  TextVocab vocab;
  vocab.model = words[1];
  vocab.pre = words[2];
  vocab.bos_id = IntOf(words[3]);
  vocab.eos_id = IntOf(words[4]);
  vocab.unk_id = IntOf(words[5]);
  vocab.pad_id = IntOf(words[6]);
  vocab.add_bos = has('b');
  vocab.add_eos = has('e');
  vocab.add_space_prefix = has('s');
  for (size_t i = 1; i < lines.size(); ++i) {
    std::vector<absl::string_view> columns = absl::StrSplit(lines[i], '\t');
    columns.resize(3);
    vocab.tokens.push_back(columns[0]);
    if (has('t')) vocab.token_types.push_back(IntOf(columns[1]));
    float score = 0;
    if (!absl::SimpleAtof(columns[2], &score)) score = 0;
    if (has('f')) vocab.scores.push_back(score);
  }
  if (!parts[1].empty()) vocab.merges = absl::StrSplit(parts[1], '\n');
  if (!parts[2].empty()) vocab.chat_template = parts[2];
  const auto tokenizer = Tokenizer::FromVocab(vocab);
  if (tokenizer.ok()) {
    Exercise(**tokenizer, parts[3]);
  } else {
    QUIRE_CHECK(IsWellFormedUtf8(tokenizer.status().message()), "an error is not UTF-8");
    QUIRE_CHECK(!IsPanic(tokenizer.status()), "a panic while opening");
  }
}

void OpenFolder(absl::string_view input) {
  static const auto* const folder = new ScratchFolder;
  const std::vector<absl::string_view> parts = SplitParts(input, 3);
  folder->Write("tokenizer.json", parts[0]);
  folder->Write("tokenizer_config.json", parts[1].empty() ? "{}" : parts[1]);
  const auto tokenizer = Tokenizer::Open(folder->path());
  if (tokenizer.ok()) {
    Exercise(**tokenizer, parts[2]);
  } else {
    QUIRE_CHECK(absl::StrContains(tokenizer.status().message(), folder->path()),
                "an error does not name the file");
    QUIRE_CHECK(IsWellFormedUtf8(tokenizer.status().message()), "an error is not UTF-8");
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input = quire::ViewOf(data, size);
  if (absl::StartsWith(input, "vocab ")) {
    quire::OpenVocab(input);
  } else {
    quire::OpenFolder(input);
  }
  return 0;
}
