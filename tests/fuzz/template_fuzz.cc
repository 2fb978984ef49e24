// Chat templates of any text, on conversations of any text, through the C ABI. Parts (SplitParts):
// the template, the messages, the tools, the template arguments, the special tokens, and flags:
// 'g' add_generation_prompt, 'c' continue_final_message. Without messages, there are two.
#include <string>

#include "server/text/text.h"
#include "tests/fuzz/fuzz_input.h"

namespace quire {
namespace {

constexpr absl::string_view kMessages =
    R"([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "World "}])";

void CheckTextError(const absl::Status& status) {
  QUIRE_CHECK(!absl::IsInternal(status), "a panic underneath");
  QUIRE_CHECK(!status.message().empty() && IsWellFormedUtf8(status.message()), "a bad message");
}

void Render(absl::string_view input) {
  const std::vector<absl::string_view> parts = SplitParts(input, 6);
  const auto compiled = ChatTemplate::Compile(parts[0], parts[4]);
  if (!compiled.ok()) return CheckTextError(compiled.status());
  ChatRequest request;
  request.messages_json = parts[1].empty() ? kMessages : parts[1];
  request.tools_json = parts[2];
  request.kwargs_json = parts[3];
  request.add_generation_prompt = absl::StrContains(parts[5], 'g');
  request.continue_final_message = absl::StrContains(parts[5], 'c');
  request.now = "2025-07-04T09:05:03";
  const auto text = (*compiled)->Render(request);
  if (!text.ok()) return CheckTextError(text.status());
  QUIRE_CHECK(IsWellFormedUtf8(*text), "a rendering is not UTF-8");
  const auto again = (*compiled)->Render(request);
  QUIRE_CHECK(again.ok() && *again == *text, "the second rendering differs from the first");
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::Render(quire::ViewOf(data, size));
  return 0;
}
