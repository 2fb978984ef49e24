#ifndef QUIRE_SERVER_CLI_BENCH_STATISTICS_H_
#define QUIRE_SERVER_CLI_BENCH_STATISTICS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/cli/bench/load_generator.h"

namespace quire::cli::bench {

// Where values lie. A percentile between two values is interpolated, as numpy does.
struct Distribution {
  int64_t count = 0;  // 0: there are no values, and the rest says nothing
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
};

Distribution Summarize(std::vector<double> values);

// What users want; 0: they do not mind.
struct Slo {
  double ttft_ms = 0;
  double tpot_ms = 0;
};

// One point of a sweep. Times are of requests that ended well; tokens are all that came.
struct PointResult {
  int32_t concurrency = 0;  // 0: at a rate
  double rate = 0;          // requests a second that were meant to come; 0: closed loop

  int64_t requests = 0;  // that were to be sent
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t unfinished = 0;                 // cut off, or never sent
  std::map<std::string, int64_t> errors;  // how often each reason
  double seconds = 0;                     // from the first start to the last end

  int64_t prompt_tokens = 0;  // of requests that got a token
  int64_t generated_tokens = 0;
  double generated_tokens_per_s = 0;
  double prompt_tokens_per_s = 0;
  double requests_per_s = 0;
  std::optional<double> goodput_per_s;  // requests that met the Slo; nothing: there is none

  Distribution ttft_ms;   // from when a request is due to its first token
  Distribution tpot_ms;   // of each request: from its first to its last token, by the gaps
  Distribution itl_ms;    // each gap between what came and what came next
  Distribution total_ms;  // from due to the end

  // The least time that reading the weights once takes, by the median TPOT: 1 is as fast as memory
  // allows while nothing but weights is read. Nothing: not calibrated.
  std::optional<double> decode_roofline;
  // The operations of all products, by those that the machine's multiplying instructions allow in
  // the same time: 1 is as fast as they allow. Nothing: not calibrated.
  std::optional<double> compute_roofline;
};

PointResult Evaluate(const LoadResult& load, const Slo& slo);

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_STATISTICS_H_
