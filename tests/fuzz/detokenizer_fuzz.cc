// Any sequence of ids, through the incremental detokeniser of several vocabularies. The first byte
// chooses the vocabulary and whether special tokens are skipped; then two bytes an id, taken modulo
// a little more than the vocabulary's size.
#include <memory>
#include <vector>

#include "server/model_text.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/tokenizer_checks.h"
#include "tests/testing/test_files.h"

namespace quire {
namespace {

struct Vocabulary {
  std::unique_ptr<ModelText> text;
  bool byte_level;
};

const std::vector<Vocabulary>& Vocabularies() {
  static const auto* const all = [] {
    auto* vocabularies = new std::vector<Vocabulary>;
    for (const char* name : {"own_bpe_digits", "own_bpe_llama3", "own_spm", "own_unigram",
                             "own_bpe_digits/vocab.gguf", "own_spm/vocab.gguf"}) {
      const std::string path = OwnGoldenPath(std::string("tokenizers/") + name);
      auto text = ModelText::Open(path);
      QUIRE_CHECK(text.ok(), "no vocabulary; set QUIRE_TEST_DATA to tests/golden");
      vocabularies->push_back({*std::move(text), absl::StrContains(name, "bpe")});
    }
    return vocabularies;
  }();
  return *all;
}

// Byte-level vocabularies have no rule but that bytes are joined.
void CheckJoinedBytes(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                      bool skip_special) {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!tokenizer.HasToken(id)) return;
    if (skip_special && tokenizer.IsSpecial(id)) continue;
    const absl::string_view token = tokenizer.TokenBytes(id);
    bytes.append(token.data(), token.size());
  }
  const auto whole = tokenizer.Decode(ids, skip_special);
  QUIRE_CHECK(whole.ok() && *whole == ReplaceInvalidUtf8(bytes), "not the tokens' bytes");
}

void Detokenize(absl::string_view input) {
  const auto byte = [input](size_t i) { return static_cast<uint32_t>(input[i]) & 0xFF; };
  const bool skip_special = (byte(0) & 0x80) != 0;
  const Vocabulary& vocabulary = Vocabularies()[(byte(0) & 0x7F) % Vocabularies().size()];
  const Tokenizer& tokenizer = vocabulary.text->tokenizer();
  std::vector<int32_t> ids;
  for (size_t i = 1; i + 1 < input.size(); i += 2) {
    const uint32_t number = byte(i) | byte(i + 1) << 8;
    ids.push_back(static_cast<int32_t>(number % (tokenizer.vocab_size() + 2)));
  }
  CheckStream(tokenizer, ids, skip_special);
  if (vocabulary.byte_level) CheckJoinedBytes(tokenizer, ids, skip_special);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) quire::Detokenize(quire::ViewOf(data, size));
  return 0;
}
