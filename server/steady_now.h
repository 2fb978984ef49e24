#ifndef QUIRE_SERVER_STEADY_NOW_H_
#define QUIRE_SERVER_STEADY_NOW_H_

#include <chrono>

#include "scheduler/request.h"

namespace quire {

// The time on the clock that never jumps, which is Engine::Now()'s too; for what runs without an
// engine.
inline TimeUs SteadyNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace quire

#endif  // QUIRE_SERVER_STEADY_NOW_H_
