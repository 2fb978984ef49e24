#ifndef QUIRE_TESTS_SERVER_TEXT_GOLDEN_H_
#define QUIRE_TESTS_SERVER_TEXT_GOLDEN_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/gguf.h"
#include "server/text/gguf_vocab.h"
#include "server/text/text.h"

namespace quire {

// The folder `name` of golden data: of our own in the repository, of third parties (vocabularies,
// templates) outside of it. Empty where it is not there; the test is then to be skipped.
inline std::string GoldenFolder(const std::string& name) {
  for (const char* variable : {"QUIRE_TEST_DATA", "QUIRE_GOLDEN"}) {
    const char* root = std::getenv(variable);
    if (root == nullptr) continue;
    const std::string path = std::string(root) + "/" + name;
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Order of keys is that of the file: templates show it.
inline std::vector<nlohmann::ordered_json> ReadJsonLines(const std::string& path) {
  std::vector<nlohmann::ordered_json> rows;
  std::istringstream lines(ReadFile(path));
  for (std::string line; std::getline(lines, line);) {
    rows.push_back(nlohmann::ordered_json::parse(line));
  }
  return rows;
}

inline absl::StatusOr<std::unique_ptr<Tokenizer>> OpenGguf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<TextVocab> vocab = ReadGgufVocab(**file);
  if (!vocab.ok()) return vocab.status();
  return Tokenizer::FromVocab(*vocab);
}

// The tokenizer in golden folder `name`, from its GGUF or its Hugging Face files. Fails the test
// where it does not open.
inline std::unique_ptr<Tokenizer> OpenGolden(const std::string& name, bool gguf) {
  const std::string folder = GoldenFolder("tokenizers/" + name);
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      gguf ? OpenGguf(folder + "/vocab.gguf") : Tokenizer::Open(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

}  // namespace quire

#endif  // QUIRE_TESTS_SERVER_TEXT_GOLDEN_H_
