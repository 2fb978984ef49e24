#ifndef QUIRE_SERVER_CALL_DEADLINE_H_
#define QUIRE_SERVER_CALL_DEADLINE_H_

#include <grpc/support/time.h>

#include "scheduler/request.h"

namespace quire {

// When the engine ends a call with this deadline, where its clock says `now`. So that the answer
// with its details reaches the client before the client's own clock does: a tenth of what is left
// earlier, at most 20 ms. kNever where it is more than a lifetime away.
TimeUs EngineDeadline(gpr_timespec deadline, TimeUs now);

}  // namespace quire

#endif  // QUIRE_SERVER_CALL_DEADLINE_H_
