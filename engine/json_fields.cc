#include "engine/json_fields.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using nlohmann::json;

// A whole number that fits in 32 bits.
std::optional<int32_t> AsInt(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned()) {
    const uint64_t number = *value.get_ptr<const json::number_unsigned_t*>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) return std::nullopt;
    return static_cast<int32_t>(number);
  }
  const int64_t number = *value.get_ptr<const json::number_integer_t*>();
  if (number < std::numeric_limits<int32_t>::min() ||
      number > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int32_t>(number);
}

}  // namespace

void JsonFields::Fail(absl::string_view what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", what));
}

void JsonFields::WrongType(const char* key, const json& value, const char* expected) {
  constexpr size_t kMaxShown = 120;
  const std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  Fail(absl::StrCat("'", key, "' is ", text.substr(0, kMaxShown),
                    text.size() > kMaxShown ? "..." : "", "; expected ", expected));
}

const json* JsonFields::Find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int> JsonFields::Int(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int32_t> number = AsInt(*value);
  if (!number.has_value()) WrongType(key, *value, "a whole number below 2^31");
  return number;
}

std::optional<double> JsonFields::Number(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    WrongType(key, *value, "a number");
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<bool> JsonFields::Bool(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    WrongType(key, *value, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> JsonFields::String(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    WrongType(key, *value, "a string");
    return std::nullopt;
  }
  return *value->get_ptr<const std::string*>();
}

std::vector<int32_t> JsonFields::TokenIds(const char* key) {
  const json* value = Find(key);
  if (value == nullptr) return {};
  std::vector<int32_t> ids;
  const auto add = [&](const json& element) {
    const std::optional<int32_t> id = AsInt(element);
    if (id.has_value()) {
      ids.push_back(*id);
    } else {
      WrongType(key, *value, "a token id, or an array of token ids");
    }
  };
  if (value->is_array()) {
    for (const json& element : *value) add(element);
  } else {
    add(*value);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

int JsonFields::RequiredInt(const char* key) {
  if (Find(key) == nullptr) Fail(absl::StrCat("'", key, "' is missing; expected a number"));
  return Int(key).value_or(0);
}

}  // namespace quire
