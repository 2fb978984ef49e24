#include "tests/testing/byte_text.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace quire {
namespace {

constexpr char kTemplate[] =
    "{% if mood %}({{ mood }}){% endif %}"
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'villain' %}{{ raise_exception('no villains here') }}{% endif %}"
    "<|turn|>{{ m.role }}{% if m.name %}/{{ m.name }}{% endif %}"
    "{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %}:"
    "{% if m.reasoning_content %}{ {{- m.reasoning_content -}} }{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}"
    "({{ c.function.name }} {{ c.function.arguments.zone }}){% endfor %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}";

std::string Utf8(uint32_t code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

// How byte-level vocabularies write a byte: printable Latin-1 as itself, the others from U+0100 on.
std::vector<std::string> ByteNames() {
  std::vector<std::string> names;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    names.push_back(Utf8(printable ? byte : next++));
  }
  return names;
}

std::unique_ptr<Tokenizer> MakeTokenizer() {
  std::vector<std::string> names = ByteNames();
  names.push_back("<|eos|>");
  names.push_back("<|turn|>");
  TextVocab vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  for (const std::string& name : names) vocab.tokens.push_back(name);
  vocab.token_types.assign(names.size(), 1);
  vocab.token_types[256] = vocab.token_types[257] = 3;
  vocab.eos_id = 256;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::FromVocab(vocab);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

}  // namespace

std::unique_ptr<ModelText> MakeByteText() {
  absl::StatusOr<std::unique_ptr<ChatTemplate>> chat_template =
      ChatTemplate::Compile(kTemplate, "");
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  return std::make_unique<ModelText>(MakeTokenizer(), *std::move(chat_template));
}

std::unique_ptr<ModelText> MakeByteTextWithoutTemplate() {
  return std::make_unique<ModelText>(MakeTokenizer(), nullptr);
}

}  // namespace quire
