#include "server/cli/bench/options.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "server/cli/engine_flags.h"

namespace quire::cli::bench {
namespace {

constexpr int32_t kMaxConcurrency = 4096;
constexpr int64_t kMaxRequests = 1'000'000;
constexpr int32_t kMaxTokens = 1 << 20;
constexpr double kMaxRate = 1e6;

Flag OnCommandLineOnly(Flag flag) {
  flag.sources = Sources::kCommandLine;
  return flag;
}

Flag RatesFlag(std::vector<double>* target) {
  return {.name = "--rate",
          .value = "LIST",
          .help = "Open loop: requests a second, whatever becomes of them; a point for each: 1,2.5",
          .set =
              [target](const std::string& text) {
                std::vector<double> rates;
                for (const absl::string_view part : absl::StrSplit(text, ',')) {
                  double rate = 0;
                  if (!absl::SimpleAtod(part, &rate) || !(rate > 0) || rate > kMaxRate) {
                    return absl::InvalidArgumentError(absl::StrCat(
                        "\"", text, "\" is not a list of numbers above 0, such as 1,2.5"));
                  }
                  rates.push_back(rate);
                }
                *target = std::move(rates);
                return absl::OkStatus();
              },
          .get = [target] { return FormatValue(absl::StrJoin(*target, ",")); },
          .sources = Sources::kCommandLine};
}

std::vector<Flag> LoadFlags(Options* options) {
  WorkloadOptions* workload = &options->workload;
  return {
      OnCommandLineOnly(MakeFlag("--concurrency", "LIST",
                                 "Closed loop: so many requests in work at once; a point for each: "
                                 "1,8,32 (default: 1)",
                                 &options->concurrency)),
      RatesFlag(&options->rates),
      ChoiceFlag(
          "--arrivals", "KIND",
          "With --rate: poisson, as of many users; fixed, evenly (default: poisson)",
          {Choice<ArrivalKind>{"poisson", ArrivalKind::kPoisson}, {"fixed", ArrivalKind::kFixed}},
          &options->arrivals),
      OrAuto(SizeFlag("--requests", "N",
                      "Requests of each point (default: auto: all lines of a file; 4 for each at "
                      "once, at least 8; 30 seconds of a rate, at least 10)",
                      &options->num_requests, 1, kMaxRequests),
             &options->num_requests),
      SizeFlag("--prompt-tokens", "N", "Length of prompts, of random tokens (default: 128)",
               &workload->prompt_tokens, 1, kMaxTokens),
      SizeFlag("--new-tokens", "N", "Tokens to generate for each (default: 128)",
               &workload->new_tokens, 1, kMaxTokens),
      SizeFlag("--shared-tokens", "N", "Of the prompt, those that all begin with (default: 0)",
               &workload->shared_tokens, 0, kMaxTokens),
      Switch("--prime", "Compute the shared tokens once before the clock starts", &options->prime),
      MakeFlag("--trace", "FILE",
               "Lengths from JSON Lines: {\"input_length\", \"output_length\", \"hash_ids\"}",
               &workload->trace_file),
      MakeFlag("--prompts", "FILE", "Prompts from JSON Lines: {\"ids\": [...], \"max_tokens\": N}",
               &workload->prompts_file),
      SizeFlag("--seed", "N", "Of tokens and arrivals (default: 1)", &workload->seed, 0,
               std::numeric_limits<int64_t>::max()),
      SizeFlag("--warmup", "N", "Short requests before the first point (default: 1)",
               &options->num_warmups, 0, 1000),
      DurationFlag("--max-time", "S", "Of a point; then it is cut off (default: 5m)", 1000,
                   &options->max_point_ms, 1),
  };
}

std::vector<Flag> ReportFlags(Options* options) {
  return {
      SizeFlag("--slo-ttft-ms", "MS", "Goodput counts requests with their first token by then",
               &options->slo_ttft_ms, 1),
      SizeFlag("--slo-tpot-ms", "MS", "Goodput counts requests with a TPOT of at most this",
               &options->slo_tpot_ms, 1),
      MakeFlag("--calibrate", "BOOL",
               "Measure how fast memory is read, and decoding beside it (default: with --engine "
               "and --model)",
               &options->calibrate),
      Switch("--json", "JSON Lines on stdout, an object for each point", &options->json),
      MakeFlag("--html", "FILE", "Write a page with plots as well", &options->html_file),
      MakeFlag("--times", "FILE", "Write when the tokens of each request came, as JSON Lines",
               &options->times_file),
  };
}

}  // namespace

std::vector<Flag> Flags(Options* options) {
  std::vector<Flag> flags = {
      OnCommandLineOnly(MakeFlag("--engine", "PATH",
                                 "Load this model and ask the engine itself: no server, no gRPC",
                                 &options->engine_path)),
      DurationFlag("--wait", "S", "Wait so long for a server that does not serve yet (default: 0)",
                   1000, &options->wait_ms)};
  for (Flag& flag : LoadFlags(options)) flags.push_back(std::move(flag));
  for (Flag& flag : ReportFlags(options)) flags.push_back(std::move(flag));
  for (Flag& flag : EndpointFlags(&options->endpoint)) {
    if (flag.name == "--address") flag.yields_to.emplace_back("--engine");
    if (absl::StartsWith(flag.help, "With --model:")) {
      flag.help.replace(0, 13, "With --engine and --model:");
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

absl::Status Complete(Options* options) {
  const std::string& model = options->endpoint.engine.model_path;
  if (!options->engine_path.empty() && !(model.empty() && options->endpoint.address.empty())) {
    return absl::InvalidArgumentError("give one of --engine, --model and --address");
  }
  if (!options->concurrency.empty() && !options->rates.empty()) {
    return absl::InvalidArgumentError("give one of --concurrency and --rate, not both");
  }
  if (options->concurrency.empty() && options->rates.empty()) options->concurrency = {1};
  for (const int32_t concurrency : options->concurrency) {
    if (concurrency < 1 || concurrency > kMaxConcurrency) {
      return absl::InvalidArgumentError(
          absl::StrCat("--concurrency: ", concurrency, " is not from 1 to ", kMaxConcurrency));
    }
  }
  if (options->prime && options->workload.shared_tokens == 0) {
    return absl::InvalidArgumentError("--prime needs --shared-tokens N: there is nothing shared");
  }
  if (!options->engine_path.empty()) options->endpoint.engine.model_path = options->engine_path;
  return CheckEngineFlags(options->endpoint.engine);
}

}  // namespace quire::cli::bench
