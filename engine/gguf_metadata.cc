// Reading typed values out of the metadata of a GGUF file. Open has checked that they are inside
// the file.
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "engine/gguf.h"

namespace quire {
namespace {

template <typename T>
T LoadAs(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

absl::string_view LoadString(const std::byte* data) {
  return {reinterpret_cast<const char*>(data) + sizeof(uint64_t),
          static_cast<size_t>(LoadAs<uint64_t>(data))};
}

}  // namespace

const char* GgufFile::NameOf(ValueType type) {
  static constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                           "int32",  "float32", "bool",   "string", "array",
                                           "uint64", "int64",   "float64"};
  return static_cast<size_t>(type) < std::size(kNames) ? kNames[static_cast<size_t>(type)] : "?";
}

size_t GgufFile::SizeOf(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

bool GgufFile::IsInteger(ValueType type) {
  return SizeOf(type) > 0 && type != ValueType::kFloat32 && type != ValueType::kFloat64 &&
         type != ValueType::kBool;
}

absl::StatusOr<int64_t> GgufFile::ToInt(ValueType type, const std::byte* data) {
  switch (type) {
    case ValueType::kUint8:
      return LoadAs<uint8_t>(data);
    case ValueType::kInt8:
      return LoadAs<int8_t>(data);
    case ValueType::kUint16:
      return LoadAs<uint16_t>(data);
    case ValueType::kInt16:
      return LoadAs<int16_t>(data);
    case ValueType::kUint32:
      return LoadAs<uint32_t>(data);
    case ValueType::kInt32:
      return LoadAs<int32_t>(data);
    case ValueType::kInt64:
      return LoadAs<int64_t>(data);
    case ValueType::kUint64: {
      const uint64_t value = LoadAs<uint64_t>(data);
      if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return static_cast<int64_t>(value);
      }
      return absl::InvalidArgumentError(absl::StrCat(value, " is too large; expected below 2^63"));
    }
    default:
      return absl::InvalidArgumentError("expected an integer");
  }
}

double GgufFile::ToFloat(ValueType type, const std::byte* data) {
  if (type == ValueType::kFloat32) return LoadAs<float>(data);
  if (type == ValueType::kFloat64) return LoadAs<double>(data);
  if (type == ValueType::kUint64) return static_cast<double>(LoadAs<uint64_t>(data));
  return static_cast<double>(*ToInt(type, data));
}

absl::Status GgufFile::Override(const GgufOverride& override) {
  const auto bytes_of = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  if (override.key == "general.alignment") {
    return Bad("general.alignment cannot be overridden: it says where the tensors lie");
  }
  Entry entry;
  std::string bytes;
  if (const auto* number = std::get_if<int64_t>(&override.value)) {
    entry.type = ValueType::kInt64;
    bytes = bytes_of(*number);
  } else if (const auto* real = std::get_if<double>(&override.value)) {
    entry.type = ValueType::kFloat64;
    bytes = bytes_of(*real);
  } else if (const auto* yes = std::get_if<bool>(&override.value)) {
    entry.type = ValueType::kBool;
    bytes = bytes_of(static_cast<uint8_t>(*yes));
  } else {
    const auto& text = std::get<std::string>(override.value);
    entry.type = ValueType::kString;
    bytes = bytes_of(uint64_t{text.size()}) + text;
  }
  entry.data = reinterpret_cast<const std::byte*>(override_bytes_.emplace_back(bytes).data());
  if (const auto it = entries_.find(override.key); it != entries_.end()) {
    if (it->second.is_array) return WrongType(override.key, it->second, "no array to override");
    it->second = entry;
    return absl::OkStatus();
  }
  const std::string& key = override_bytes_.emplace_back(override.key);
  entries_.emplace(key, entry);
  keys_.push_back(key);
  return absl::OkStatus();
}

absl::StatusOr<const GgufFile::Entry*> GgufFile::Find(absl::string_view key, bool is_array) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) {
    return absl::NotFoundError(
        absl::StrCat(path(), ": the metadata key ", Quoted(key), " is missing"));
  }
  if (it->second.is_array != is_array) {
    return WrongType(key, it->second, is_array ? "an array" : "a single value");
  }
  return &it->second;
}

absl::Status GgufFile::WrongType(absl::string_view key, const Entry& entry,
                                 absl::string_view expected) const {
  return Bad(absl::StrCat("the metadata key ", Quoted(key), " is of type ", NameOf(entry.type),
                          entry.is_array ? " (array)" : "", "; expected ", expected));
}

absl::StatusOr<absl::string_view> GgufFile::GetString(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/false);
  if (!entry.ok()) return entry.status();
  if ((*entry)->type != ValueType::kString) return WrongType(key, **entry, "a string");
  return LoadString((*entry)->data);
}

absl::StatusOr<bool> GgufFile::GetBool(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/false);
  if (!entry.ok()) return entry.status();
  if ((*entry)->type != ValueType::kBool) return WrongType(key, **entry, "a bool");
  return LoadAs<uint8_t>((*entry)->data) != 0;
}

absl::StatusOr<int64_t> GgufFile::GetInt(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/false);
  if (!entry.ok()) return entry.status();
  if (!IsInteger((*entry)->type)) return WrongType(key, **entry, "an integer");
  absl::StatusOr<int64_t> value = ToInt((*entry)->type, (*entry)->data);
  if (!value.ok()) {
    return Bad(absl::StrCat("the metadata key ", Quoted(key), ": ", value.status().message()));
  }
  return value;
}

absl::StatusOr<double> GgufFile::GetFloat(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/false);
  if (!entry.ok()) return entry.status();
  const ValueType type = (*entry)->type;
  if (type == ValueType::kBool || SizeOf(type) == 0) return WrongType(key, **entry, "a number");
  return ToFloat(type, (*entry)->data);
}

absl::StatusOr<std::vector<absl::string_view>> GgufFile::GetStrings(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/true);
  if (!entry.ok()) return entry.status();
  if ((*entry)->type != ValueType::kString) return WrongType(key, **entry, "an array of strings");
  std::vector<absl::string_view> values;
  values.reserve((*entry)->count);
  const std::byte* data = (*entry)->data;
  for (uint64_t i = 0; i < (*entry)->count; ++i) {
    values.push_back(LoadString(data));
    data += sizeof(uint64_t) + values.back().size();
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::GetInts(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/true);
  if (!entry.ok()) return entry.status();
  const ValueType type = (*entry)->type;
  if (!IsInteger(type)) return WrongType(key, **entry, "an array of integers");
  std::vector<int64_t> values;
  values.reserve((*entry)->count);
  for (uint64_t i = 0; i < (*entry)->count; ++i) {
    absl::StatusOr<int64_t> value = ToInt(type, (*entry)->data + i * SizeOf(type));
    if (!value.ok()) {
      return Bad(absl::StrCat("the metadata key ", Quoted(key), ", element ", i, ": ",
                              value.status().message()));
    }
    values.push_back(*value);
  }
  return values;
}

absl::StatusOr<std::vector<float>> GgufFile::GetFloats(absl::string_view key) const {
  absl::StatusOr<const Entry*> entry = Find(key, /*is_array=*/true);
  if (!entry.ok()) return entry.status();
  const ValueType type = (*entry)->type;
  if (type == ValueType::kBool || SizeOf(type) == 0) {
    return WrongType(key, **entry, "an array of numbers");
  }
  std::vector<float> values;
  values.reserve((*entry)->count);
  for (uint64_t i = 0; i < (*entry)->count; ++i) {
    // Clamped, because the conversion of a double out of range is undefined.
    constexpr double kMax = std::numeric_limits<float>::max();
    const double value = ToFloat(type, (*entry)->data + i * SizeOf(type));
    values.push_back(static_cast<float>(std::clamp(value, -kMax, kMax)));
  }
  return values;
}

}  // namespace quire
