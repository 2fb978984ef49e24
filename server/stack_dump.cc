#include "server/stack_dump.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fstream>
#include <memory>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "absl/debugging/symbolize.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace quire {
namespace {

constexpr int kMaxFrames = 64;
constexpr int kMaxThreads = 1024;
constexpr int kHandlerFrames = 2;  // the handler, and what the kernel returns through

// What one thread writes, in the signal handler.
struct Frames {
  Frames() { sem_init(&written, /*pshared=*/0, /*value=*/0); }

  std::array<void*, kMaxFrames> pcs = {};
  int num_pcs = 0;
  sem_t written;
};

// The one asked for last: what the asking thread wrote before is seen by a thread that reads this.
std::atomic<Frames*> asked = nullptr;

int Signal() { return SIGRTMIN + 1; }

void WriteFrames(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (info->si_code != SI_QUEUE || info->si_pid != getpid()) return;
  const int saved_errno = errno;
  static_cast<void>(asked.load(std::memory_order_acquire));
  auto* const frames = static_cast<Frames*>(info->si_value.sival_ptr);
  frames->num_pcs = backtrace(frames->pcs.data(), kMaxFrames);
  sem_post(&frames->written);
  errno = saved_errno;
}

void InstallHandler() {
  void* pc = nullptr;
  backtrace(&pc, 1);  // loads the unwinder, which no handler may do
  struct sigaction action = {};
  action.sa_sigaction = &WriteFrames;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(Signal(), &action, nullptr);
}

// Asks thread `tid` for its frames. Null: it has ended, or did not answer in time.
std::unique_ptr<Frames> FramesOf(pid_t tid, int64_t patience_ms) {
  auto frames = std::make_unique<Frames>();
  asked.store(frames.get(), std::memory_order_release);
  siginfo_t info = {};
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = frames.get();
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, Signal(), &info) != 0) return nullptr;
  const timespec until = absl::ToTimespec(absl::Now() + absl::Milliseconds(patience_ms));
  while (sem_timedwait(&frames->written, &until) != 0) {
    if (errno == EINTR) continue;
    // It may still answer one day, so what it would write to stays.
    static auto& awaited = *new std::vector<std::unique_ptr<Frames>>;
    awaited.push_back(std::move(frames));
    return nullptr;
  }
  return frames;
}

std::string FrameText(void* pc) {
  // A return address is behind its call, which may be the last thing in its function.
  void* const call = static_cast<char*>(pc) - 1;
  char name[512];
  std::string text = absl::Symbolize(call, name, sizeof(name)) ? name : "?";
  Dl_info module = {};
  if (dladdr(call, &module) != 0 && module.dli_fname != nullptr) {
    const auto offset = static_cast<char*>(pc) - static_cast<char*>(module.dli_fbase);
    absl::StrAppend(&text, " (", module.dli_fname, "+0x", absl::Hex(offset), ")");
  }
  return text;
}

// "4711 quire-engine, state R", from the kernel's own words: "4711 (quire-engine) R 1 ...".
std::string ThreadText(pid_t tid) {
  std::ifstream file(absl::StrCat("/proc/self/task/", tid, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t name = line.find('(');
  const size_t end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return absl::StrCat(tid, ", ended");
  return absl::StrCat(tid, " ", line.substr(name + 1, end - name - 1), ", state ",
                      line.substr(end + 2, 1));
}

std::vector<pid_t> OtherThreads() {
  std::vector<pid_t> tids;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return tids;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  while (const dirent* entry = readdir(folder)) {
    pid_t tid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &tid) || tid == self) continue;
    if (tids.size() < kMaxThreads) tids.push_back(tid);
  }
  closedir(folder);
  return tids;
}

}  // namespace

std::vector<std::string> DumpStacks(int64_t patience_ms) {
  InstallHandler();
  std::vector<std::string> texts;
  for (const pid_t tid : OtherThreads()) {
    std::string text = absl::StrCat("thread ", ThreadText(tid));
    const std::unique_ptr<Frames> frames = FramesOf(tid, patience_ms);
    if (frames == nullptr) {
      absl::StrAppend(&text, "\n  no answer within ", patience_ms, " ms");
    } else {
      for (int i = kHandlerFrames; i < frames->num_pcs; ++i) {
        absl::StrAppend(&text, "\n  ", FrameText(frames->pcs[i]));
      }
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace quire
