#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "server/errors.h"

namespace quire {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;

constexpr char kOther[] = "other";

// The reasons that statuses of ours have (errors.h), and gRPC's codes where one has none.
constexpr const char* kReasons[] = {"ALREADY_EXISTS",
                                    "CANCELLED",
                                    "CHAT_TEMPLATE_FAILED",
                                    "CHAT_TEMPLATE_LIMIT",
                                    "CHAT_TEMPLATE_MISSING",
                                    "CONTEXT_LENGTH_EXCEEDED",
                                    "DEADLINE_EXCEEDED",
                                    "DRAINING",
                                    "ENGINE_FAILED",
                                    "ENGINE_RESTARTING",
                                    "FEATURE_DISABLED",
                                    "INTERNAL",
                                    "INVALID_ARGUMENT",
                                    "INVALID_FIELD",
                                    "METADATA_TOO_LARGE",
                                    "MODEL_LOADING",
                                    "MODEL_NOT_FOUND",
                                    "NOT_FOUND",
                                    "NO_TOKEN_ALLOWED",
                                    "NUMERICAL_FAULT",
                                    "PERMISSION_DENIED",
                                    "QUEUE_FULL",
                                    "QUEUE_TIMEOUT",
                                    "REQUEST_EXCEEDS_KV_CAPACITY",
                                    "REQUEST_ID_IN_USE",
                                    "SLOW_CONSUMER",
                                    "TENANT_QUOTA",
                                    "TOKENIZER_MISSING",
                                    "UNAUTHENTICATED",
                                    "UNKNOWN_FIELD",
                                    kOther};
// vLLM's word where it has one.
constexpr const char* kFinishReasons[] = {"stop", "length", "abort", "time_limit", kOther};

// From a token of a small model on a CPU to the longest that --max-request-seconds allows.
const Histogram::BucketBoundaries kSeconds = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.5, 0.75,
    1,      2,     3,     5,     10,   20,   40,   80,   160,   320, 640,  1280, 2560, 3600};
const Histogram::BucketBoundaries kTokens = {1,     2,     4,     8,      16,     32,     64,
                                             128,   256,   512,   1024,   2048,   4096,   8192,
                                             16384, 32768, 65536, 131072, 262144, 524288, 1048576};

// A counter for each value of the label, 0 from the start, so that rates see the first one too.
template <size_t N>
void AddCounters(Registry& registry, const char* name, const char* help, const Labels& labels,
                 const char* label, const char* const (&values)[N],
                 absl::flat_hash_map<absl::string_view, Counter*>* counters) {
  auto& family = BuildCounter().Name(name).Help(help).Labels(labels).Register(registry);
  for (const char* value : values) (*counters)[value] = &family.Add({{label, value}});
}

}  // namespace

struct Metrics::OfModel {
  OfModel(Registry& registry, const Labels& labels)
      : prompt_tokens(NewCounter(registry, labels, "vllm:prompt_tokens_total",
                                 "Prompt tokens of requests that were computed, cached ones too")),
        generation_tokens(NewCounter(registry, labels, "vllm:generation_tokens_total",
                                     "Tokens generated, as clients were told")),
        ttft(NewHistogram(registry, labels, "vllm:time_to_first_token_seconds",
                          "From a request's arrival to its first token", kSeconds)),
        inter_token(NewHistogram(registry, labels, "vllm:inter_token_latency_seconds",
                                 "From a token to the next one of the same choice", kSeconds)),
        e2e(NewHistogram(registry, labels, "vllm:e2e_request_latency_seconds",
                         "From arrival to the end of requests that ended with OK", kSeconds)),
        queue_time(NewHistogram(registry, labels, "vllm:request_queue_time_seconds",
                                "From arrival to the first step, of all that were accepted",
                                kSeconds)),
        request_prompt_tokens(NewHistogram(registry, labels, "vllm:request_prompt_tokens",
                                           "Prompt length of requests that ended with OK",
                                           kTokens)),
        request_generation_tokens(NewHistogram(registry, labels, "vllm:request_generation_tokens",
                                               "Tokens of all choices of requests that ended "
                                               "with OK",
                                               kTokens)) {
    AddCounters(registry, "vllm:request_success_total",
                "Requests that ended with OK, by the reason of their first choice", labels,
                "finished_reason", kFinishReasons, &success);
  }

  static Counter& NewCounter(Registry& registry, const Labels& labels, const char* name,
                             const char* help) {
    return BuildCounter().Name(name).Help(help).Labels(labels).Register(registry).Add({});
  }
  static Histogram& NewHistogram(Registry& registry, const Labels& labels, const char* name,
                                 const char* help, const Histogram::BucketBoundaries& bounds) {
    auto& family = BuildHistogram().Name(name).Help(help).Labels(labels).Register(registry);
    return family.Add({}, bounds);
  }

  Counters success;
  Counter& prompt_tokens;
  Counter& generation_tokens;
  Histogram& ttft;
  Histogram& inter_token;
  Histogram& e2e;
  Histogram& queue_time;
  Histogram& request_prompt_tokens;
  Histogram& request_generation_tokens;
};

Metrics::Metrics() : registry_(std::make_unique<Registry>()) {
  AddCounters(*registry_, "quire_rejections_total",
              "Calls that ended with another status than OK before the engine accepted them", {},
              "reason", kReasons, &rejections_);
  AddCounters(*registry_, "quire_request_failures_total",
              "Accepted requests that ended with another status than OK", {}, "reason", kReasons,
              &failures_);
  cached_tokens_ = &OfModel::NewCounter(*registry_, {}, "quire_cached_tokens_total",
                                        "Prompt tokens that were taken from the prefix cache");
}

Metrics::~Metrics() = default;

void Metrics::SetModel(const std::string& name) {
  of_model_ = std::make_unique<OfModel>(*registry_, Labels{{"model_name", name}});
}

void Metrics::Count(const Counters& counters, absl::string_view reason) {
  const auto it = counters.find(reason);
  (it == counters.end() ? counters.at(kOther) : it->second)->Increment();
}

void Metrics::OnRejected(absl::string_view reason) { Count(rejections_, reason); }

void Metrics::OnFirstToken(double ttft_seconds) { of_model_->ttft.Observe(ttft_seconds); }

void Metrics::OnNextToken(double seconds_since_last) {
  of_model_->inter_token.Observe(seconds_since_last);
}

void Metrics::OnPromptTokens(int64_t n) {
  of_model_->prompt_tokens.Increment(static_cast<double>(n));
}

void Metrics::OnGenerationTokens(int64_t n) {
  if (n > 0) of_model_->generation_tokens.Increment(static_cast<double>(n));
}

void Metrics::OnRecord(const RequestRecord& record) {
  if (!record.is_accepted) {
    OnRejected(ReasonOf(record.status));
    return;
  }
  cached_tokens_->Increment(static_cast<double>(record.cached_tokens));
  of_model_->queue_time.Observe(static_cast<double>(record.queued_us) / 1e6);
  if (!record.status.ok()) {
    Count(failures_, ReasonOf(record.status));
    return;
  }
  Count(of_model_->success, record.finish_reason);
  of_model_->e2e.Observe(static_cast<double>(record.total_us) / 1e6);
  of_model_->request_prompt_tokens.Observe(static_cast<double>(record.prompt_tokens));
  of_model_->request_generation_tokens.Observe(static_cast<double>(record.completion_tokens));
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const { return registry_->Collect(); }

std::string MetricsText(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace quire
