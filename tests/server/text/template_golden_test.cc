// Our rendering of chat templates against that of transformers.
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "tests/server/text/golden.h"

namespace quire {
namespace {

using nlohmann::ordered_json;

class TemplateGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(TemplateGoldenTest, RendersAsTransformersDoes) {
  const std::string folder = GoldenFolder(std::string("templates/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "no golden data for " << GetParam();
  const auto compiled = ChatTemplate::Compile(ReadFile(folder + "/chat_template.jinja"),
                                              ReadFile(folder + "/special_tokens.json"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  int num_rendered = 0, num_refused = 0;
  for (const ordered_json& row : ReadJsonLines(folder + "/cases.jsonl")) {
    const std::string messages = row["messages"].dump();
    const std::string tools = row["tools"].is_null() ? "" : row["tools"].dump();
    const std::string kwargs = row["kwargs"].dump();
    const std::string now = row.value("now", "2025-07-04T09:05:03");
    const auto text = (*compiled)->Render({.messages_json = messages,
                                           .tools_json = tools,
                                           .kwargs_json = kwargs,
                                           .add_generation_prompt = row["add_generation_prompt"],
                                           .continue_final_message = row["continue_final_message"],
                                           .now = now});
    if (row.contains("expect")) {
      ASSERT_TRUE(text.ok()) << text.status() << "\n" << row.dump();
      EXPECT_EQ(*text, row["expect"].get<std::string>()) << row.dump();
      ++num_rendered;
    } else if (row["error_kind"] == "raise_exception") {
      EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << row.dump();
      EXPECT_TRUE(absl::EndsWith(text.status().message(), row["message"].get<std::string>()))
          << text.status();
      ++num_refused;
    }
  }
  EXPECT_GT(num_rendered, 20);
  std::cout << GetParam() << ": " << num_rendered << " texts equal, " << num_refused
            << " refused with the template's words\n";
}

INSTANTIATE_TEST_SUITE_P(All, TemplateGoldenTest,
                         testing::Values("SmolLM2", "SmolLM3", "Qwen2.5", "Qwen3-0.6B", "Llama-3.1",
                                         "Llama-3.2", "Mistral-Nemo", "gemma-2", "Phi-3.5",
                                         "Hermes-2-Pro-tool-use", "DeepSeek-R1-Distill-Llama",
                                         "granite-3.3"),
                         [](const testing::TestParamInfo<const char*>& model) {
                           std::string name;
                           for (char c : std::string(model.param)) {
                             name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace quire
