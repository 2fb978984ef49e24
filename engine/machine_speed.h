#ifndef QUIRE_ENGINE_MACHINE_SPEED_H_
#define QUIRE_ENGINE_MACHINE_SPEED_H_

#include <array>
#include <iterator>

#include "absl/status/statusor.h"

#include "kernels/numerics_mode.h"

namespace quire {

// What some threads of this machine do together at best: the scale for decoding, which reads all
// weights for each token of one sequence, and for prefill, which multiplies. A multiplication and
// the addition of its product are two operations.
struct MachineSpeed {
  double read_bytes_per_s = 0;
  // By NumericsMode: of the instruction that its products are made for, operands in registers; 0
  // where the machine has none.
  std::array<double, std::size(kAllNumericsModes)> operations_per_s = {};
};

// With 0 threads, as many as an engine would take. Takes about a second, and half a GiB of memory
// meanwhile: RESOURCE_EXHAUSTED where the machine has less, FAILED_PRECONDITION where the
// environment asks for an instruction set that it lacks.
absl::StatusOr<MachineSpeed> MeasureMachine(int num_threads);

}  // namespace quire

#endif  // QUIRE_ENGINE_MACHINE_SPEED_H_
