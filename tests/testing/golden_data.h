#ifndef QUIRE_TESTS_TESTING_GOLDEN_DATA_H_
#define QUIRE_TESTS_TESTING_GOLDEN_DATA_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/testing/temp_dir.h"
#include "tests/testing/test_files.h"

namespace quire {

// The objects of a JSON Lines file; a test failure when it cannot be read.
inline std::vector<nlohmann::json> ReadJsonLines(const std::string& path) {
  std::vector<nlohmann::json> rows;
  std::ifstream file(path);
  if (!file) ADD_FAILURE() << "cannot read " << path;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) rows.push_back(nlohmann::json::parse(line, nullptr, false));
  }
  return rows;
}

// Arrays of numbers by name, from a safetensors file that is trusted to be well formed. Unlike
// SafetensorsFile it knows integers: golden files hold token ids.
class GoldenArrays {
 public:
  explicit GoldenArrays(const std::string& path) : bytes_(ReadAll(path)) {
    uint64_t header_bytes = 0;
    if (bytes_.size() < 8) return;
    std::memcpy(&header_bytes, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.substr(8, header_bytes), nullptr, false);
    data_start_ = 8 + header_bytes;
  }

  // T has the width and kind of the array's elements: float for F32, int32_t for I32.
  template <typename T>
  std::vector<T> Get(const std::string& name) const {
    if (!header_.contains(name)) {
      ADD_FAILURE() << "no array " << name;
      return {};
    }
    const size_t begin = header_[name]["data_offsets"][0];
    const size_t end = header_[name]["data_offsets"][1];
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), bytes_.data() + data_start_ + begin, end - begin);
    return values;
  }
  std::vector<int64_t> Shape(const std::string& name) const {
    return header_[name]["shape"].get<std::vector<int64_t>>();
  }

 private:
  std::string bytes_;
  nlohmann::json header_;
  size_t data_start_ = 0;
};

// Our own golden data, of which the larger files are kept with the data of third parties only. ""
// when it is in neither place.
inline std::string FindGolden(const std::string& name) {
  for (const std::string& path : {OwnGoldenPath(name), ThirdPartyGoldenPath(name)}) {
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return "";
}

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_GOLDEN_DATA_H_
