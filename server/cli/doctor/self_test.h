#ifndef QUIRE_SERVER_CLI_DOCTOR_SELF_TEST_H_
#define QUIRE_SERVER_CLI_DOCTOR_SELF_TEST_H_

#include <string>

#include "server/cli/doctor/finding.h"

namespace quire::cli {

// Whether the engine computes on this machine what it should: greedy tokens of the bytes of a
// model, SelfTestModel(kSelfTestSeed) but in tests, against those that another implementation
// found. Nothing is written to any disk. `num_threads` as in EngineConfig.
Finding SelfTestFinding(const std::string& model_bytes, int num_threads);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_DOCTOR_SELF_TEST_H_
