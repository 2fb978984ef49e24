#ifndef QUIRE_SERVER_CLI_BENCH_OPTIONS_H_
#define QUIRE_SERVER_CLI_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "server/cli/bench/arrivals.h"
#include "server/cli/bench/workload.h"
#include "server/cli/endpoint.h"
#include "server/cli/flag.h"

namespace quire::cli::bench {

struct Options {
  EndpointOptions endpoint;
  std::string engine_path;  // the engine itself, without a server; empty: `endpoint`

  std::vector<int32_t> concurrency;  // closed loop
  std::vector<double> rates;         // open loop, requests a second; one of the two is empty
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  int64_t num_requests = 0;  // of each point; 0: chosen by RequestsOf
  WorkloadOptions workload;
  bool prime = false;
  int32_t num_warmups = 1;
  int64_t max_point_ms = 300'000;
  int64_t wait_ms = 0;  // for a server that does not serve yet

  int32_t slo_ttft_ms = 0;
  int32_t slo_tpot_ms = 0;
  std::optional<bool> calibrate;  // nothing: where the model is in this process
  bool json = false;
  std::string html_file;
  std::string times_file;

  bool is_local() const { return !engine_path.empty() || !endpoint.engine.model_path.empty(); }
};

std::vector<Flag> Flags(Options* options);

// What contradicts itself, before anything is loaded or asked. Sets one request at once where
// nothing is said of the load.
absl::Status Complete(Options* options);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_OPTIONS_H_
