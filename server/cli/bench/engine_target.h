#ifndef QUIRE_SERVER_CLI_BENCH_ENGINE_TARGET_H_
#define QUIRE_SERVER_CLI_BENCH_ENGINE_TARGET_H_

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "server/cli/bench/target.h"

namespace quire::cli::bench {

// An engine in this process: no server, no transport, no text.
class EngineTarget : public Target {
 public:
  explicit EngineTarget(std::unique_ptr<Engine> engine);

  const TargetInfo& info() const override { return info_; }
  void Start(const BenchRequest& request, std::shared_ptr<Listener> listener) override;
  void CancelAll() override;

 private:
  const std::unique_ptr<Engine> engine_;
  const TargetInfo info_;
  std::vector<SequenceId> started_;  // some have ended
};

}  // namespace quire::cli::bench

#endif  // QUIRE_SERVER_CLI_BENCH_ENGINE_TARGET_H_
