#ifndef QUIRE_TESTS_FUZZ_TOKENIZER_CHECKS_H_
#define QUIRE_TESTS_FUZZ_TOKENIZER_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "server/text/text.h"
#include "tests/fuzz/fuzz_input.h"

namespace quire {

// `bytes` with U+FFFD for every maximal invalid part (Unicode, section 3.9), as Python's
// decode(errors="replace") has it: the longest prefix of any well-formed character is one part.
inline std::string ReplaceInvalidUtf8(absl::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    size_t length = 1;
    while (length <= 4 && i + length <= bytes.size() &&
           !IsWellFormedUtf8(bytes.substr(i, length))) {
      ++length;
    }
    if (length <= 4 && i + length <= bytes.size()) {
      text.append(bytes.data() + i, length);
      i += length;
      continue;
    }
    // Not a character. How far does a start of one go? Try what could follow.
    length = 1;
    const auto may_become = [&](size_t size) {
      std::string start(bytes.substr(i, size));
      for (const char second : {'\x80', '\x90', '\xA0'}) {
        std::string whole = start;
        if (size == 1) whole.push_back(second);
        while (whole.size() < 4 && !IsWellFormedUtf8(whole)) whole.push_back('\x80');
        if (IsWellFormedUtf8(whole) && whole.size() > size) return true;
      }
      return false;
    };
    while (i + length + 1 <= bytes.size() && length < 3 && may_become(length + 1)) ++length;
    text.append("\xEF\xBF\xBD");
    i += length;
  }
  return text;
}

// What a stream shows of `ids` is what decoding them at once gives, in whole characters.
inline void CheckStream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                        bool skip_special) {
  const auto whole = tokenizer.Decode(ids, skip_special);
  StreamDecoder decoder(tokenizer, skip_special);
  std::string joined;
  bool all_known = true;
  for (const int32_t id : ids) {
    std::string piece;
    const absl::Status status = decoder.Push(id, piece);
    QUIRE_CHECK(status.ok() == tokenizer.HasToken(id), "Push and HasToken disagree");
    all_known = all_known && status.ok();
    QUIRE_CHECK(status.ok() || piece.empty(), "a refused id has text");
    QUIRE_CHECK(IsWellFormedUtf8(piece), "a piece has part of a character");
    joined += piece;
  }
  std::string rest;
  decoder.Flush(rest);
  QUIRE_CHECK(IsWellFormedUtf8(rest), "the rest has part of a character");
  QUIRE_CHECK(whole.ok() == all_known, "Decode and HasToken disagree");
  QUIRE_CHECK(!whole.ok() || joined + rest == *whole, "pieces joined are not the whole");
}

// Every id has a token or none, and what it adds to a text lies in the tokenizer.
inline void CheckTable(const Tokenizer& tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const absl::string_view bytes = tokenizer.TokenBytes(id);
    Touch(bytes.data(), bytes.size());
    QUIRE_CHECK(tokenizer.HasToken(id) || bytes.empty(), "no token, but bytes");
  }
  for (const int32_t id : {-1, tokenizer.vocab_size()}) {
    QUIRE_CHECK(!tokenizer.HasToken(id) && tokenizer.TokenBytes(id).empty(), "a token too many");
  }
  for (const int32_t id :
       {tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.unk_id(), tokenizer.pad_id()}) {
    QUIRE_CHECK(id == -1 || tokenizer.HasToken(id), "a named id without a token");
  }
}

// Whether an error is a panic of the library underneath. Such a message begins like this; inside it
// any error may show what the input holds.
inline bool IsPanic(const absl::Status& status) {
  return absl::StartsWith(status.message(), "the text library failed: ");
}

// Encodes `text` in every way. Ids are all in the vocabulary; no text but invalid UTF-8 is refused
// as such, and nothing panics underneath.
inline void CheckEncode(const Tokenizer& tokenizer, absl::string_view text) {
  for (const bool add_special : {false, true}) {
    for (const bool parse_special : {false, true}) {
      const auto ids = tokenizer.Encode(text, {add_special, parse_special});
      const bool is_text = IsWellFormedUtf8(text);
      QUIRE_CHECK(is_text || absl::IsInvalidArgument(ids.status()), "not UTF-8, but encoded");
      if (!ids.ok()) {
        QUIRE_CHECK(!IsPanic(ids.status()), "a panic while encoding");
        continue;
      }
      for (const int32_t id : *ids) QUIRE_CHECK(tokenizer.HasToken(id), "an id without a token");
      const auto again = tokenizer.Encode(text, {add_special, parse_special});
      QUIRE_CHECK(again.ok() && *again == *ids, "the same text is other tokens");
      for (const bool skip_special : {false, true}) CheckStream(tokenizer, *ids, skip_special);
    }
  }
}

}  // namespace quire

#endif  // QUIRE_TESTS_FUZZ_TOKENIZER_CHECKS_H_
