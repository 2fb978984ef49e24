#ifndef QUIRE_SERVER_ENGINE_METRICS_H_
#define QUIRE_SERVER_ENGINE_METRICS_H_

#include <vector>

#include <prometheus/metric_family.h>

#include "server/serving_model.h"

namespace quire {

// What the engine knows of itself, as metrics: queue, KV blocks, prefix cache, steps. Read now;
// nothing is counted twice.
void AddEngineMetrics(const ServingModel& model, std::vector<prometheus::MetricFamily>* families);

}  // namespace quire

#endif  // QUIRE_SERVER_ENGINE_METRICS_H_
