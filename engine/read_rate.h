#ifndef QUIRE_ENGINE_READ_RATE_H_
#define QUIRE_ENGINE_READ_RATE_H_

#include "absl/status/statusor.h"

namespace quire {

// Bytes a second that `num_threads` threads read from memory together, at best; 0 threads: as many
// as an engine would take. A generated token of one sequence needs all weights read once, so this
// is the scale for decoding. Takes about a second, and half a GiB of memory meanwhile:
// RESOURCE_EXHAUSTED where the machine has less.
absl::StatusOr<double> MeasureReadRate(int num_threads);

}  // namespace quire

#endif  // QUIRE_ENGINE_READ_RATE_H_
