#include "server/metric_families.h"

#include <utility>

namespace quire {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void Add(std::vector<MetricFamily>* families, const char* name, const char* help, MetricType type,
         const std::vector<LabelledValue>& values) {
  MetricFamily family{.name = name, .help = help, .type = type, .metric = {}};
  for (const LabelledValue& value : values) {
    ClientMetric metric;
    metric.label = value.labels;
    (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value.value;
    family.metric.push_back(std::move(metric));
  }
  families->push_back(std::move(family));
}

}  // namespace

void AddGauge(std::vector<MetricFamily>* families, const char* name, const char* help,
              const std::vector<LabelledValue>& values) {
  Add(families, name, help, MetricType::Gauge, values);
}

void AddCounter(std::vector<MetricFamily>* families, const char* name, const char* help,
                const std::vector<LabelledValue>& values) {
  Add(families, name, help, MetricType::Counter, values);
}

}  // namespace quire
