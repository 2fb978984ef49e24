#ifndef QUIRE_SERVER_METRIC_FAMILIES_H_
#define QUIRE_SERVER_METRIC_FAMILIES_H_

#include <vector>

#include <prometheus/metric_family.h>

namespace quire {

// Values that somebody else keeps, in the form that is scraped.
using MetricLabels = std::vector<prometheus::ClientMetric::Label>;
struct LabelledValue {
  MetricLabels labels;
  double value = 0;
};

void AddGauge(std::vector<prometheus::MetricFamily>* families, const char* name, const char* help,
              const std::vector<LabelledValue>& values);
void AddCounter(std::vector<prometheus::MetricFamily>* families, const char* name, const char* help,
                const std::vector<LabelledValue>& values);

}  // namespace quire

#endif  // QUIRE_SERVER_METRIC_FAMILIES_H_
