#ifndef QUIRE_TESTS_TESTING_TEMP_DIR_H_
#define QUIRE_TESTS_TESTING_TEMP_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace quire {

// An empty directory of a test's own, removed with all that is in it.
class TempDir {
 public:
  TempDir() : path_(testing::TempDir() + "quire_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot make " << path_;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // Returns the path of the file.
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary | std::ios::trunc) << content;
    return Path(name);
  }

 private:
  std::string path_;
};

// The whole of a file; a test failure and "" when it cannot be read.
inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) ADD_FAILURE() << "cannot read " << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_TEMP_DIR_H_
