#ifndef QUIRE_TESTS_TESTING_TEST_FILES_H_
#define QUIRE_TESTS_TESTING_TEST_FILES_H_

#include <cstdlib>
#include <string>

namespace quire {

// The environment of a test, as tests/CMakeLists.txt sets it.
inline std::string TestEnv(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// A file of the repository's own golden data (tests/golden).
inline std::string OwnGoldenPath(const std::string& name) {
  return TestEnv("QUIRE_TEST_DATA", "tests/golden") + "/" + name;
}

// A file of third-party golden data, which may be absent: then the test is skipped by name.
inline std::string ThirdPartyGoldenPath(const std::string& name) {
  return TestEnv("QUIRE_GOLDEN", "../shared/golden") + "/" + name;
}

// The default model, which may be absent: then the test is skipped by name.
inline std::string SmolLm2Path() {
  return TestEnv("QUIRE_SMOLLM2", "build/models/SmolLM2-135M-Instruct.Q4_1.gguf");
}

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_TEST_FILES_H_
