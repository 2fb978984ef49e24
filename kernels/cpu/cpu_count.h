#ifndef QUIRE_KERNELS_CPU_CPU_COUNT_H_
#define QUIRE_KERNELS_CPU_CPU_COUNT_H_

#include <string>

namespace quire {

// How many threads compute at once without getting in each other's way: the physical cores that
// this process may run on (its affinity, so its cpuset), and no more than the CPU quotas of its
// cgroup and of those above it (v2 cpu.max, v1 cpu.cfs_quota_us). At least 1.
int DefaultNumThreads();

// Physical cores among the CPUs that this process may run on: hyperthreads of a core count once.
int NumAllowedCores();

// CPUs that quotas allow, 0.5 being half the time of one; infinite where there is none. Reads files
// below `root`: "" for the machine's own.
double CpuQuota(const std::string& root);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_CPU_COUNT_H_
