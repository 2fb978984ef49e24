#include "server/trace_context.h"

#include <algorithm>

namespace quire {
namespace {

// Where the parts of "00-<trace id>-<parent id>-<flags>" begin, and how long they are.
constexpr size_t kTraceIdAt = 3, kTraceIdSize = 32;
constexpr size_t kParentIdAt = 36, kParentIdSize = 16;
constexpr size_t kFlagsAt = 53, kFlagsSize = 2;
constexpr size_t kSize = 55;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');  // upper case is not allowed
  });
}

bool IsId(absl::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

std::string TraceIdOf(absl::string_view traceparent) {
  if (traceparent.size() < kSize) return "";
  const absl::string_view version = traceparent.substr(0, 2);
  if (!IsHex(version) || version == "ff") return "";
  // Later versions may append to what there is; this one does not.
  if (traceparent.size() > kSize && (version == "00" || traceparent[kSize] != '-')) return "";
  for (const size_t dash : {kTraceIdAt - 1, kParentIdAt - 1, kFlagsAt - 1}) {
    if (traceparent[dash] != '-') return "";
  }
  const absl::string_view trace_id = traceparent.substr(kTraceIdAt, kTraceIdSize);
  const bool is_valid = IsId(trace_id) && IsId(traceparent.substr(kParentIdAt, kParentIdSize)) &&
                        IsHex(traceparent.substr(kFlagsAt, kFlagsSize));
  return is_valid ? std::string(trace_id) : "";
}

}  // namespace quire
