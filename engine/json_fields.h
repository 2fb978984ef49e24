#ifndef QUIRE_ENGINE_JSON_FIELDS_H_
#define QUIRE_ENGINE_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace quire {

// Typed values out of one JSON object of a configuration file. null is as good as missing. The
// first error is kept (the file, the key, what was expected and found) and later calls return
// nothing in particular, so that a reader asks once, at its end, for status().
class JsonFields {
 public:
  // `object` outlives this. `where` begins every error.
  JsonFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const absl::Status& status() const { return status_; }
  void Fail(absl::string_view what);

  // nullptr when missing.
  const nlohmann::json* Find(const char* key) const;
  std::optional<int> Int(const char* key);
  std::optional<double> Number(const char* key);
  std::optional<bool> Bool(const char* key);
  std::optional<std::string> String(const char* key);
  // A number, or an array of numbers; empty when missing.
  std::vector<int32_t> TokenIds(const char* key);
  // As Int; a missing key is an error.
  int RequiredInt(const char* key);

 private:
  void WrongType(const char* key, const nlohmann::json& value, const char* expected);

  const nlohmann::json& object_;
  const std::string where_;
  absl::Status status_;
};

}  // namespace quire

#endif  // QUIRE_ENGINE_JSON_FIELDS_H_
