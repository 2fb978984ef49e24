#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/text/text.h"

namespace quire {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What a byte does to the character that the `size` bytes before it have begun (Unicode, table
// 3-7: well-formed UTF-8).
enum class Step { kMore, kComplete, kInvalid };

int LengthFromLead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

Step Next(const char* begun, int size, char next) {
  const uint8_t byte = static_cast<uint8_t>(next);
  if (size == 0) {
    const int length = LengthFromLead(byte);
    return length == 0 ? Step::kInvalid : length == 1 ? Step::kComplete : Step::kMore;
  }
  const uint8_t lead = static_cast<uint8_t>(begun[0]);
  uint8_t low = 0x80, high = 0xBF;
  if (size == 1) {
    // No overlong forms, no surrogates, nothing above U+10FFFF.
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (byte < low || byte > high) return Step::kInvalid;
  return size + 1 == LengthFromLead(lead) ? Step::kComplete : Step::kMore;
}

// The UTF-8 of a character of the vocabulary's files, which is valid.
std::string Utf8Of(uint32_t c) {
  auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : view_(tokenizer.view_),
      tokenizer_(tokenizer),
      skip_special_(skip_special),
      strips_left_(tokenizer.view_.strip_count) {}

absl::Status StreamDecoder::Push(int32_t id, std::string& text) {
  if (!tokenizer_.HasToken(id)) {
    return absl::OutOfRangeError(absl::StrCat("token id ", id, " is not in the vocabulary of ",
                                              tokenizer_.vocab_size(), " tokens"));
  }
  if (skip_special_ && tokenizer_.IsSpecial(id)) return absl::OkStatus();
  absl::string_view piece = tokenizer_.TokenBytes(id);
  const uint8_t flags = view_.flags[id];
  const bool first = !any_token_;
  any_token_ = true;
  if (view_.byte_level || (flags & QUIRE_TEXT_TOKEN_BYTE) != 0) {
    AppendBytes(piece, text);
    return absl::OkStatus();
  }
  DropPending(text);
  if (first && view_.first_drops_spaces && (flags & QUIRE_TEXT_TOKEN_LITERAL_SPACE) == 0) {
    for (char c : piece) {
      if (c != ' ') text.push_back(c);
    }
    return absl::OkStatus();
  }
  AppendWhole(piece, text);
  return absl::OkStatus();
}

void StreamDecoder::Flush(std::string& text) { DropPending(text); }

void StreamDecoder::AppendBytes(absl::string_view bytes, std::string& text) {
  for (size_t i = 0; i < bytes.size();) {
    switch (Next(pending_, num_pending_, bytes[i])) {
      case Step::kMore:
        pending_[num_pending_++] = bytes[i++];
        break;
      case Step::kComplete:
        pending_[num_pending_++] = bytes[i++];
        AppendWhole({pending_, num_pending_}, text);
        num_pending_ = 0;
        break;
      case Step::kInvalid:
        // The byte may begin a character itself, unless nothing had begun.
        if (num_pending_ == 0) ++i;
        num_pending_ = 0;
        AppendWhole(kReplacement, text);
        break;
    }
  }
}

void StreamDecoder::AppendWhole(absl::string_view chars, std::string& text) {
  while (strips_left_ > 0 && !chars.empty()) {
    const std::string strip = Utf8Of(view_.strip_char);
    if (chars.substr(0, strip.size()) != strip) {
      strips_left_ = 0;
      break;
    }
    chars.remove_prefix(strip.size());
    --strips_left_;
  }
  text.append(chars.data(), chars.size());
}

void StreamDecoder::DropPending(std::string& text) {
  if (num_pending_ == 0) return;
  num_pending_ = 0;
  AppendWhole(kReplacement, text);
}

}  // namespace quire
