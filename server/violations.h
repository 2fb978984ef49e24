#ifndef QUIRE_SERVER_VIOLATIONS_H_
#define QUIRE_SERVER_VIOLATIONS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/errors.h"

namespace quire {

// Gathers what is wrong with a request: the first makes the message, the reason and the metadata,
// all make the violations.
class Violations {
 public:
  void Add(absl::string_view field, absl::string_view what, const ErrorMetadata& numbers = {}) {
    if (!status_.ok()) {
      AddViolation(status_, field, what);
      return;
    }
    status_ = InvalidField(field, what);
    AddMetadata(status_, "field", field);
    for (const auto& [key, value] : numbers) AddMetadata(status_, key, value);
  }
  // Keeps what another check found, if it is the first.
  void Add(const absl::Status& status) {
    if (status_.ok()) {
      status_ = status;
      return;
    }
    for (const auto& [field, what] : ViolationsOf(status)) AddViolation(status_, field, what);
  }

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_VIOLATIONS_H_
