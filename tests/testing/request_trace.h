#ifndef QUIRE_TESTS_TESTING_REQUEST_TRACE_H_
#define QUIRE_TESTS_TESTING_REQUEST_TRACE_H_

#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace quire {

constexpr int32_t kTraceBlockTokens = 512;

// One line of a request trace (tests/golden/traces, shared/traces).
struct TraceRequest {
  int64_t timestamp_ms = 0;
  int32_t input_length = 0;  // tokens
  int32_t output_length = 0;
  std::vector<int32_t> hash_ids;  // one for each kTraceBlockTokens; equal ids: equal prefixes
};

// Empty where there is no such file.
inline std::vector<TraceRequest> ReadTrace(const std::string& path) {
  std::vector<TraceRequest> trace;
  int32_t next_own_id = 1'000'000'000;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    TraceRequest& request = trace.emplace_back();
    request.timestamp_ms = json.value("timestamp", int64_t{0});
    request.input_length = json.at("input_length").get<int32_t>();
    request.output_length = json.at("output_length").get<int32_t>();
    request.hash_ids = json.value("hash_ids", std::vector<int32_t>());
    if (request.hash_ids.empty()) {  // a trace of lengths only: nothing is shared
      request.hash_ids.resize(request.input_length / kTraceBlockTokens + 1);
      std::iota(request.hash_ids.begin(), request.hash_ids.end(), next_own_id);
      next_own_id += static_cast<int32_t>(request.hash_ids.size());
    }
  }
  return trace;
}

}  // namespace quire

#endif  // QUIRE_TESTS_TESTING_REQUEST_TRACE_H_
