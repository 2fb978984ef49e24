#ifndef QUIRE_SERVER_STACK_DUMP_H_
#define QUIRE_SERVER_STACK_DUMP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

// What is every thread of this process doing? One text per thread, the caller's left out:
//
//   thread 4711 quire-engine, state R
//     quire::EngineLoop::Step() (/usr/bin/quire+0x1f2a30)
//     ...
//
// Each thread is interrupted by a signal (SIGRTMIN + 1, which nothing else uses) and writes down
// where it is. One that does not answer within `patience_ms` (a tracer holds it, the kernel has it)
// is listed with its state alone; so a dump of a process that hangs ends too, within (number of
// threads) x `patience_ms`.
//
// For last words: it unwinds in a signal handler, which may, rarely, stop a thread that held the
// loader's lock. One call at a time.
std::vector<std::string> DumpStacks(int64_t patience_ms);

}  // namespace quire

#endif  // QUIRE_SERVER_STACK_DUMP_H_
