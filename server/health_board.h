#ifndef QUIRE_SERVER_HEALTH_BOARD_H_
#define QUIRE_SERVER_HEALTH_BOARD_H_

#include <cstddef>
#include <mutex>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace quire {

// Is the server ready, is it alive? The board holds the answers for grpc.health.v1 and tells
// watchers when they change; who finds them out is ServerCore.
//
// Names: "" and "quire.v1.GenerationService" are readiness, "liveness" is the engine's heartbeat.
// Any thread.
class HealthBoard {
 public:
  static constexpr size_t kMaxWatchers = 256;

  // Told after a change, while the board is locked: it must not call the board.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void OnHealthChanged(bool ready, bool alive) = 0;
    // Nothing will be told any more.
    virtual void OnHealthClosed() = 0;
  };

  void Set(bool ready, bool alive);
  // Nothing for a name that is not known.
  std::optional<bool> Get(absl::string_view name) const;
  // Which of the two `name` asks for; nothing for a name that is not known.
  static std::optional<bool> Pick(absl::string_view name, bool ready, bool alive);

  // Tells the watcher how it is now, and every change from then on, until Remove returns. False,
  // with no effect, when there are kMaxWatchers or the board is closed.
  [[nodiscard]] bool Add(Watcher* watcher);
  void Remove(Watcher* watcher);
  void Close();

 private:
  mutable std::mutex mu_;
  // Guarded by mu_.
  bool ready_ = false;
  bool alive_ = true;
  bool closed_ = false;
  absl::flat_hash_set<Watcher*> watchers_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_HEALTH_BOARD_H_
