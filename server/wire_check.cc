#include "server/wire_check.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "server/errors.h"
#include "server/server_config.h"

namespace quire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Protobuf's own limit on nesting.
constexpr int kMaxDepth = 100;
// Beside those that have limits of their own.
constexpr int kMaxOtherObjects = 4096;

// O(bytes). Overlong forms, surrogates and what is past U+10FFFF are not UTF-8.
bool IsUtf8(absl::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = p + text.size();
  while (p < end) {
    const uint8_t lead = *p++;
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const int num_more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (end - p < num_more) return false;
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (*p < low || *p > high) return false;
    for (int i = 1; i < num_more; ++i) {
      if ((p[i] & 0xC0) != 0x80) return false;
    }
    p += num_more;
  }
  return true;
}

class WireChecker {
 public:
  explicit WireChecker(int max_objects) : max_objects_(max_objects) {}

  absl::Status Check(const Descriptor& type, absl::string_view bytes, const std::string& path,
                     int depth) {
    if (depth > kMaxDepth || ++num_objects_ > max_objects_) return TooMany(path);
    CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                        static_cast<int>(bytes.size()));
    std::map<int, int> num_seen;  // of repeated fields, for paths
    while (const uint32_t tag = in.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const FieldDescriptor* field = type.FindFieldByNumber(number);
      if (field == nullptr || !FitsWireType(*field, WireFormatLite::GetTagWireType(tag))) {
        return UnknownField(type, number, path);
      }
      std::string at = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
      if (field->is_repeated()) absl::StrAppend(&at, "[", num_seen[number]++, "]");
      absl::Status status = CheckField(in, *field, tag, bytes, at, depth);
      if (!status.ok()) return status;
    }
    if (!in.ConsumedEntireMessage()) return Malformed(path);
    return absl::OkStatus();
  }

 private:
  static bool FitsWireType(const FieldDescriptor& field, WireFormatLite::WireType wire_type) {
    const auto own =
        WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
    if (wire_type == own) return own != WireFormatLite::WIRETYPE_START_GROUP;
    return field.is_packable() && wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  }

  absl::Status CheckField(CodedInputStream& in, const FieldDescriptor& field, uint32_t tag,
                          absl::string_view bytes, const std::string& path, int depth) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&in, tag) ? absl::OkStatus() : Malformed(path);
    }
    uint32_t size = 0;
    if (!in.ReadVarint32(&size)) return Malformed(path);
    const size_t start = static_cast<size_t>(in.CurrentPosition());
    if (size > bytes.size() - start || !in.Skip(static_cast<int>(size))) return Malformed(path);
    const absl::string_view value = bytes.substr(start, size);
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      return Check(*field.message_type(), value, path, depth + 1);
    }
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      if (field.is_repeated() && ++num_objects_ > max_objects_) return TooMany(path);
      if (!IsUtf8(value)) return InvalidField(path, "the text is not UTF-8");
    }
    if (field.is_packable() && !AreWholeNumbers(field, value)) return Malformed(path);
    return absl::OkStatus();
  }

  // Whether packed numbers end where their bytes do.
  static bool AreWholeNumbers(const FieldDescriptor& field, absl::string_view bytes) {
    const auto type = static_cast<WireFormatLite::FieldType>(field.type());
    switch (WireFormatLite::WireTypeForFieldType(type)) {
      case WireFormatLite::WIRETYPE_FIXED32:
        return bytes.size() % sizeof(uint32_t) == 0;
      case WireFormatLite::WIRETYPE_FIXED64:
        return bytes.size() % sizeof(uint64_t) == 0;
      default:
        break;
    }
    CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                        static_cast<int>(bytes.size()));
    uint64_t number;
    while (in.CurrentPosition() < static_cast<int>(bytes.size())) {
      if (!in.ReadVarint64(&number)) return false;
    }
    return true;
  }

  absl::Status TooMany(const std::string& path) const {
    return InvalidField(
        path, absl::StrCat("more than ", kMaxDepth, " levels, or more than ", max_objects_,
                           " messages and listed texts in all; send less"));
  }

  static absl::Status Malformed(const std::string& path) {
    return InvalidField(path.empty() ? "(request)" : path, "the bytes are no protobuf message");
  }

  static absl::Status UnknownField(const Descriptor& type, int number, const std::string& path) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, "UNKNOWN_FIELD",
        absl::StrCat("field ", number, " of ", type.full_name(), path.empty() ? "" : " at ", path,
                     " is not known to this server; update the server or leave the field out"),
        {{"message", type.full_name()}, {"field_number", absl::StrCat(number)}, {"path", path}});
  }

  // A message or string of two bytes becomes an object of a hundred: bounds what parsing can
  // allocate.
  const int max_objects_;
  int num_objects_ = 0;
};

}  // namespace

absl::Status CheckWire(const Descriptor& type, absl::string_view bytes,
                       const ServerLimits& limits) {
  const int max_objects = kMaxOtherObjects + limits.max_chat_messages + limits.max_logit_bias;
  return WireChecker(max_objects).Check(type, bytes, "", 0);
}

}  // namespace quire
