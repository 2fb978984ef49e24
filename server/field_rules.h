#ifndef QUIRE_SERVER_FIELD_RULES_H_
#define QUIRE_SERVER_FIELD_RULES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "engine/engine.h"
#include "server/server_config.h"
#include "server/violations.h"

namespace quire {

// One table of what each field of each request may hold, and one walk that holds requests against
// it. What fields mean to each other is validation.h's.

inline constexpr double kMaxModelNameBytes = 4096;
inline constexpr double kMaxRequestIdBytes = 128;

// An end of a range: a number, or a limit that the operator may set.
class Bound {
 public:
  constexpr Bound(double value) : value_(value) {}                  // NOLINT: reads as a number
  constexpr Bound(int32_t ServerLimits::*limit) : limit_(limit) {}  // NOLINT: likewise
  double In(const ServerLimits& limits) const {
    return limit_ == nullptr ? value_ : static_cast<double>(limits.*limit_);
  }
  bool is_limit() const { return limit_ != nullptr; }

 private:
  double value_ = 0;
  int32_t ServerLimits::*limit_ = nullptr;
};

enum class FieldKind : uint8_t {
  kAny,      // every value is right
  kNumber,   // in [min, max], or 0 where zero_too; NaN never is
  kTokenId,  // below the vocabulary's size
  kEnum,     // one of the values that this server knows
  kText,     // [min, max] bytes
  kMessage,  // as its own fields
};

// One row. A field that has presence and is not set is right; entries of a repeated field are all
// held against the row.
struct FieldRule {
  absl::string_view field;  // the message, without our package, and the field
  FieldKind kind = FieldKind::kAny;
  Bound min = 0.0;
  Bound max = 0.0;
  bool open_low = false;  // min itself is not right
  bool zero_too = false;
  Bound min_count = 0.0;  // of entries
  Bound max_count = 0.0;
  const char* note = "";  // for people: which flag sets the limit, why every value is right
};

absl::Span<const FieldRule> FieldRules();

// Null: there is no row for it, which no field of a request may be (a test walks them all).
const FieldRule* RuleOf(const google::protobuf::FieldDescriptor& field);

// Adds what is wrong to `wrong`: of a repeated field the first entry that is. `path` is where the
// message is in the request: "" or "params", say. O(bytes), and nothing is allocated for what is
// right.
void CheckFields(const google::protobuf::Message& message, absl::string_view path,
                 const ServerLimits& limits, int32_t vocab_size, Violations& wrong);

}  // namespace quire

#endif  // QUIRE_SERVER_FIELD_RULES_H_
