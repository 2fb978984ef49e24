#ifndef QUIRE_SERVER_CLI_JSON_FIELDS_H_
#define QUIRE_SERVER_CLI_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/cli/report.h"

namespace quire::cli {

// Takes named, typed fields out of one JSON object from a user. The first thing that is wrong is
// kept and all later calls do nothing, so a caller reads all its fields and asks once, at the end.
// A field that is missing or null leaves the target as it was.
//
// The object must outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(const Json& object);

  void Read(const char* name, bool* value);
  void Read(const char* name, std::string* value);
  void Read(const char* name, std::vector<int32_t>* value);
  template <typename T>
  void Read(const char* name, std::optional<T>* value) {
    T parsed{};
    if (const Json* field = Take(name)) {
      ReadFrom(name, *field, &parsed);
      if (!failure_) *value = parsed;
    }
  }
  // The field as it is; null where it is missing or null. Lives as long as the object.
  const Json* Take(const char* name);

  // The first error; otherwise an error for a field that nobody read; otherwise nothing.
  std::optional<Failure> Finish() const;

 private:
  void ReadFrom(const char* name, const Json& field, bool* value);
  void ReadFrom(const char* name, const Json& field, std::string* value);
  void ReadFrom(const char* name, const Json& field, std::vector<int32_t>* value);
  void WrongType(const char* name, const Json& field, const char* expected);

  const Json& object_;
  std::optional<Failure> failure_;
  std::vector<std::string> known_;
};

// The failure for a field that has to be there.
Failure MissingField(const char* name, const char* expected);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_JSON_FIELDS_H_
