#ifndef QUIRE_TESTS_TESTING_SAFETENSORS_BYTES_H_
#define QUIRE_TESTS_TESTING_SAFETENSORS_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace quire {

// Writes safetensors files tensor by tensor. It checks nothing.
class SafetensorsBytes {
 public:
  SafetensorsBytes& Tensor(const std::string& name, const std::string& dtype,
                           const std::vector<int64_t>& shape, const std::string& bytes) {
    header_[name] = {{"dtype", dtype},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
    return *this;
  }
  template <typename T>
  SafetensorsBytes& Tensor(const std::string& name, const std::string& dtype,
                           const std::vector<int64_t>& shape, const std::vector<T>& values) {
    return Tensor(
        name, dtype, shape,
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }

  std::string Build() const {
    const std::string header = header_.dump();
    const uint64_t header_bytes = header.size();
    return std::string(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes)) +
           header + data_;
  }

 private:
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_SAFETENSORS_BYTES_H_
