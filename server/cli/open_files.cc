#include "server/cli/open_files.h"

#include <cerrno>
#include <cstring>
#include <sys/resource.h>

#include <spdlog/spdlog.h>

namespace quire::cli {

void RaiseOpenFilesLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  spdlog::warn("at most {} open files, and raising that to {} failed: {}", before, limit.rlim_max,
               strerror(errno));
}

}  // namespace quire::cli
