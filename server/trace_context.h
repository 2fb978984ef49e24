#ifndef QUIRE_SERVER_TRACE_CONTEXT_H_
#define QUIRE_SERVER_TRACE_CONTEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace quire {

// The trace id, 32 hex digits, of a `traceparent` as W3C Trace Context defines it; empty where it
// is not a valid one, which that standard wants ignored.
std::string TraceIdOf(absl::string_view traceparent);

}  // namespace quire

#endif  // QUIRE_SERVER_TRACE_CONTEXT_H_
