#ifndef QUIRE_TESTS_TESTING_BYTE_TEXT_H_
#define QUIRE_TESTS_TESTING_BYTE_TEXT_H_

#include <memory>

#include "server/model_text.h"

namespace quire {

// The text side of FakeModelInfo: token i is byte i; 256 is "<|eos|>", 257 "<|turn|>" (both
// special), and higher ids have no token. The template writes "<|turn|>role:content" for each
// message, then "<|turn|>assistant:"; it refuses the role "villain" in words of its own and shows
// the template argument `mood`, the names of tools, calls of tools with their argument `zone`,
// their ids and what was thought.
std::unique_ptr<ModelText> MakeByteText();
// The same without a template.
std::unique_ptr<ModelText> MakeByteTextWithoutTemplate();

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_BYTE_TEXT_H_
