#include "server/health_board.h"

namespace quire {

void HealthBoard::Set(bool ready, bool alive) {
  std::lock_guard<std::mutex> lock(mu_);
  if (ready == ready_ && alive == alive_) return;
  ready_ = ready;
  alive_ = alive;
  for (Watcher* watcher : watchers_) watcher->OnHealthChanged(ready, alive);
}

std::optional<bool> HealthBoard::Get(absl::string_view name) const {
  std::lock_guard<std::mutex> lock(mu_);
  return Pick(name, ready_, alive_);
}

std::optional<bool> HealthBoard::Pick(absl::string_view name, bool ready, bool alive) {
  if (name.empty() || name == "quire.v1.GenerationService") return ready;
  if (name == "liveness") return alive;
  return std::nullopt;
}

bool HealthBoard::Add(Watcher* watcher) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_ || watchers_.size() >= kMaxWatchers) return false;
  watchers_.insert(watcher);
  watcher->OnHealthChanged(ready_, alive_);
  return true;
}

void HealthBoard::Remove(Watcher* watcher) {
  std::lock_guard<std::mutex> lock(mu_);
  watchers_.erase(watcher);
}

void HealthBoard::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  for (Watcher* watcher : watchers_) watcher->OnHealthClosed();
}

}  // namespace quire
