// `quire bench`: how fast a server, or the engine alone, is under load.

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "absl/strings/str_format.h"

#include "engine/machine_speed.h"
#include "server/cli/bench/open_target.h"
#include "server/cli/bench/options.h"
#include "server/cli/bench/reports.h"
#include "server/cli/bench/sweep.h"
#include "server/cli/command.h"
#include "server/cli/log.h"
#include "server/cli/report.h"
#include "server/cli/signal_watch.h"

namespace quire::cli {
namespace {

using bench::LoadProgress;
using bench::LoadResult;
using bench::Options;
using bench::PointResult;
using bench::RequestRecord;
using bench::RunInfo;

// A file that is written at the end is opened first: to find out then would cost the results.
absl::Status OpenFor(const char* flag, const std::string& path, std::ofstream* file) {
  if (path.empty()) return absl::OkStatus();
  file->open(path);
  if (*file) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": cannot write ", path, ": ", std::strerror(errno)));
}

// One line, on a terminal only; it replaces itself.
void ShowProgress(const PointResult& point, const LoadProgress& progress) {
  if (isatty(STDERR_FILENO) == 0) return;
  const std::string line =
      absl::StrFormat("\r\033[K%s: %d of %d requests, %d tokens, %.0f s", NameOf(point),
                      progress.ended, progress.requests, progress.tokens, progress.seconds);
  std::cerr << line << std::flush;
}

void ClearProgress() {
  if (isatty(STDERR_FILENO) != 0) std::cerr << "\r\033[K" << std::flush;
}

const char* WordFor(RequestRecord::End end) {
  switch (end) {
    case RequestRecord::End::kDone:
      return "done";
    case RequestRecord::End::kFailed:
      return "failed";
    case RequestRecord::End::kCut:
      break;
  }
  return "cut";
}

void WriteTimes(int index, const LoadResult& load, std::ostream& out) {
  for (size_t i = 0; i < load.records.size(); ++i) {
    const RequestRecord& record = load.records[i];
    Json line = {{"point", index},
                 {"request", i},
                 {"prompt_tokens", record.prompt_tokens},
                 {"begin_s", load.begin_s},
                 {"due_s", record.due_s},
                 {"end_s", record.end_s},
                 {"end", WordFor(record.end)}};
    if (!record.error.empty()) line["error"] = record.error;
    line["times_s"] = Json::array();
    line["counts"] = Json::array();
    for (const bench::Delivery& delivery : record.deliveries) {
      line["times_s"].push_back(delivery.at_s);
      line["counts"].push_back(delivery.count);
    }
    out << OneLine(line) << '\n';
  }
  out << std::flush;
}

// Measures and reports until the end, or an interrupt.
class Run {
 public:
  explicit Run(const Options& options) : options_(options) {}

  ExitCode Measure(InterruptHandler& interrupts);

 private:
  absl::Status Prepare();
  // What the machine can do is measured before the model takes its part of memory.
  absl::Status Calibrate();
  void Report(int index, const PointResult& point, const LoadResult& load);
  ExitCode Finish(bool interrupted);

  const Options& options_;
  RunInfo run_;
  std::ofstream html_;
  std::ofstream times_;
  std::vector<PointResult> points_;
};

absl::Status Run::Prepare() {
  run_.seed = options_.workload.seed;
  run_.slo = {.ttft_ms = static_cast<double>(options_.slo_ttft_ms),
              .tpot_ms = static_cast<double>(options_.slo_tpot_ms)};
  absl::Status status = OpenFor("--html", options_.html_file, &html_);
  status.Update(OpenFor("--times", options_.times_file, &times_));
  return status;
}

absl::Status Run::Calibrate() {
  if (!options_.calibrate.value_or(options_.is_local())) return absl::OkStatus();
  const absl::StatusOr<MachineSpeed> machine = MeasureMachine(options_.endpoint.engine.num_threads);
  if (!machine.ok()) return machine.status();
  run_.machine = *machine;
  return absl::OkStatus();
}

void Run::Report(int index, const PointResult& point, const LoadResult& load) {
  ClearProgress();
  if (options_.json) {
    std::cout << OneLine(bench::ToJson(run_, point)) << std::endl;
  } else {
    std::cout << bench::ToText(point) << std::flush;
  }
  if (times_.is_open()) WriteTimes(index, load, times_);
  points_.push_back(point);
}

ExitCode Run::Finish(bool interrupted) {
  if (html_.is_open()) html_ << bench::ToHtml(run_, points_) << std::flush;
  if ((html_.is_open() && !html_) || (times_.is_open() && !times_)) {
    return Fail(ExitCode::kInternal, absl::StrCat("cannot write all of ", options_.html_file, " ",
                                                  options_.times_file, ": is the disk full?"));
  }
  if (interrupted) return ExitCode::kInterrupted;
  for (const PointResult& point : points_) {
    if (point.completed > 0) continue;
    const std::string reason = point.errors.empty() ? "none ended in time; give more --max-time"
                                                    : point.errors.begin()->first;
    return Fail(ExitCode::kRefused,
                absl::StrCat(NameOf(point), ": no request ended well: ", reason));
  }
  return ExitCode::kOk;
}

ExitCode Run::Measure(InterruptHandler& interrupts) {
  const absl::StatusOr<bench::Workload> workload = bench::Workload::Open(options_.workload);
  absl::Status status = workload.status();
  if (status.ok()) status = Prepare();
  if (!status.ok()) return Fail(ExitCode::kUsage, status.message());
  if (status = Calibrate(); !status.ok()) return Fail(ExitCode::kResources, status.message());
  bench::OpenedTarget opened;
  ExitCode exit_code = ExitCode::kOk;
  if (auto failure = bench::OpenTarget(options_, &opened, &exit_code)) {
    return Fail(exit_code, failure->message);
  }
  run_.target = opened.target->info();
  if (!options_.json) std::cout << bench::ToText(run_) << std::flush;

  bench::LoadGenerator generator(opened.target.get());
  interrupts.Set([&generator] {
    // The second one does not wait for what is in work.
    if (generator.is_interrupted()) _exit(static_cast<int>(ExitCode::kInterrupted));
    generator.Interrupt();
  });
  status = bench::RunSweep(
      options_, run_, *workload, *opened.target, generator,
      {.on_progress = ShowProgress,
       .on_point = [this, &generator](int index, const PointResult& point, const LoadResult& load) {
         Report(index, point, load);
         return std::cout.good() && !generator.is_interrupted();
       }});
  interrupts.Set(nullptr);
  if (!status.ok()) return Fail(ExitCode::kUsage, status.message());
  return Finish(generator.is_interrupted());
}

ExitCode Bench(Options& options) {
  if (absl::Status status = bench::Complete(&options); !status.ok()) {
    return Fail(ExitCode::kUsage, status.message());
  }
  LogAsCommand();
  InterruptHandler interrupts;
  return Run(options).Measure(interrupts);
}

}  // namespace

Command BenchCommand() {
  auto options = std::make_shared<Options>();
  return {
      .name = "bench",
      .summary = "Measure latency and throughput of a server, or of the engine alone, under load",
      .examples =
          R"(Prompts are random tokens, answers are greedy and go on past EOS. At a rate, times
count from when a request was due. --json: an object for each point, with ttft_ms,
tpot_ms, itl_ms and total_ms as {count, mean, p50, p90, p95, p99}. Ctrl-C shows what
there is, and ends with 130.

Examples:
  quire bench --concurrency 1,8,32                       the server on 127.0.0.1:50051
  quire bench --engine models/my-model --concurrency 8   the engine alone, in this process
  quire bench --rate 0.5,1,2 --requests 60 --slo-ttft-ms 500 --slo-tpot-ms 50 --html report.html
  quire bench --concurrency 32 --prompt-tokens 1056 --shared-tokens 1024 --new-tokens 32)",
      .flags = bench::Flags(options.get()),
      .run = [options] { return Bench(*options); }};
}

}  // namespace quire::cli
