#ifndef QUIRE_PAGED_KV_KV_STORAGE_H_
#define QUIRE_PAGED_KV_KV_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "kernels/backend.h"
#include "paged_kv/kv_layout.h"

namespace quire {

// The backend's view of a layout.
KvSpec MakeKvSpec(const KvLayout& layout, int32_t num_blocks);

// KvStorage has a backend allocate the KV blocks and makes them resident in the background, so
// that a server answers before gigabytes of memory have been touched and no step ever faults.
// What blocks hold and who has them is not its business.
//
// Touching goes on its own thread, in ascending order; touched_blocks() may be read by any thread.
// Clearing pages takes the bandwidth that steps live on: the engine pauses it while it computes and
// has touched blocks to spare. The backend outlives the storage.
class KvStorage {
 public:
  // Fails when the backend cannot have the memory.
  static absl::StatusOr<std::unique_ptr<KvStorage>> Open(const KvLayout& layout, int32_t num_blocks,
                                                         Backend* backend);
  // Ends the touching early and joins its thread.
  ~KvStorage();
  KvStorage(const KvStorage&) = delete;
  KvStorage& operator=(const KvStorage&) = delete;

  // Touches blocks up to `end` on the calling thread. REQUIRES: StartTouching was not called.
  void TouchNow(int32_t end);
  // Touches the rest in the background. `on_progress` is called on that thread after each slice.
  void StartTouching(std::function<void()> on_progress);

  // Touches nothing more, after the slice at hand, until it is called with false. Any thread; free
  // of cost where nothing changes.
  void PauseTouching(bool pause);

  const KvSpec& spec() const { return spec_; }
  // Blocks [0, n) are resident.
  int32_t touched_blocks() const { return touched_blocks_.load(std::memory_order_acquire); }

 private:
  KvStorage(const KvSpec& spec, Backend* backend) : spec_(spec), backend_(backend) {}
  void TouchSlice(int32_t end);
  // Waits while touching is paused; false when the storage is closing.
  bool MayTouch();

  const KvSpec spec_;
  Backend* const backend_;
  std::atomic<int32_t> touched_blocks_{0};
  std::atomic<bool> is_paused_{false};  // written under mutex_
  absl::Mutex mutex_;
  bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_KV_STORAGE_H_
