#ifndef QUIRE_SERVER_CLI_MODEL_SUMMARY_H_
#define QUIRE_SERVER_CLI_MODEL_SUMMARY_H_

#include <string>

#include "engine/engine.h"

namespace quire::cli {

// What is served, or would be, and with which memory: one line for operators.
std::string SummaryOf(const ModelInfo& info);

}  // namespace quire::cli

#endif  // QUIRE_SERVER_CLI_MODEL_SUMMARY_H_
