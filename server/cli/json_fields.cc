#include "server/cli/json_fields.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire::cli {
namespace {

// Enough of a value to find it again.
std::string Excerpt(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = OneLine(value);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

Failure Invalid(const char* reason, std::string message) {
  return {.code = "INVALID_ARGUMENT", .reason = reason, .message = std::move(message)};
}

}  // namespace

FieldReader::FieldReader(const Json& object) : object_(object) {
  if (!object.is_object()) {
    failure_ =
        Invalid("INVALID_FIELD", absl::StrCat("expected a JSON object, found ", Excerpt(object)));
  }
}

const Json* FieldReader::Take(const char* name) {
  known_.push_back(name);
  if (failure_) return nullptr;
  const auto field = object_.find(name);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

void FieldReader::Read(const char* name, bool* value) {
  if (const Json* field = Take(name)) ReadFrom(name, *field, value);
}

void FieldReader::Read(const char* name, std::string* value) {
  if (const Json* field = Take(name)) ReadFrom(name, *field, value);
}

void FieldReader::Read(const char* name, std::vector<int32_t>* value) {
  if (const Json* field = Take(name)) ReadFrom(name, *field, value);
}

void FieldReader::ReadFrom(const char* name, const Json& field, bool* value) {
  if (!field.is_boolean()) return WrongType(name, field, "true or false");
  *value = field.get<bool>();
}

void FieldReader::ReadFrom(const char* name, const Json& field, std::string* value) {
  if (!field.is_string()) return WrongType(name, field, "a string");
  *value = field.get<std::string>();
}

void FieldReader::ReadFrom(const char* name, const Json& field, std::vector<int32_t>* value) {
  if (!field.is_array()) return WrongType(name, field, "a list of token ids");
  std::vector<int32_t> ids;
  ids.reserve(field.size());
  for (const Json& id : field) {
    if (!id.is_number_integer()) return WrongType(name, id, "a token id");
    const int64_t wide = id.get<int64_t>();
    if (wide < 0 || wide > std::numeric_limits<int32_t>::max()) {
      return WrongType(name, id, "a token id");
    }
    ids.push_back(static_cast<int32_t>(wide));
  }
  *value = std::move(ids);
}

void FieldReader::WrongType(const char* name, const Json& field, const char* expected) {
  failure_ = Invalid("INVALID_FIELD",
                     absl::StrCat(name, ": expected ", expected, ", found ", Excerpt(field)));
}

std::optional<Failure> FieldReader::Finish() const {
  if (failure_) return failure_;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    return Invalid("UNKNOWN_FIELD", absl::StrCat("there is no field \"", name,
                                                 "\"; known: ", absl::StrJoin(known_, ", ")));
  }
  return std::nullopt;
}

Failure MissingField(const char* name, const char* expected) {
  return Invalid("INVALID_FIELD", absl::StrCat(name, ": expected ", expected, ", found nothing"));
}

}  // namespace quire::cli
