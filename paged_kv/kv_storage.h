#ifndef QUIRE_PAGED_KV_KV_STORAGE_H_
#define QUIRE_PAGED_KV_KV_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"

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
// The backend outlives the storage.
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

  const KvSpec& spec() const { return spec_; }
  // Blocks [0, n) are resident.
  int32_t touched_blocks() const { return touched_blocks_.load(std::memory_order_acquire); }

 private:
  KvStorage(const KvSpec& spec, Backend* backend) : spec_(spec), backend_(backend) {}
  void TouchSlice(int32_t end);

  const KvSpec spec_;
  Backend* const backend_;
  std::atomic<int32_t> touched_blocks_{0};
  std::atomic<bool> is_closing_{false};
  std::thread thread_;
};

}  // namespace quire

#endif  // QUIRE_PAGED_KV_KV_STORAGE_H_
