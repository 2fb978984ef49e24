#ifndef QUIRE_SERVER_PROCESS_METRICS_H_
#define QUIRE_SERVER_PROCESS_METRICS_H_

#include <vector>

#include <prometheus/metric_family.h>

namespace quire {

// What the kernel says of this process, by the names that Prometheus' own clients use: memory, open
// files, CPU time, start. What /proc does not tell is left out.
void AddProcessMetrics(std::vector<prometheus::MetricFamily>* families);

}  // namespace quire

#endif  // QUIRE_SERVER_PROCESS_METRICS_H_
