#include "paged_kv/kv_storage.h"

#include <algorithm>
#include <pthread.h>
#include <utility>

#include "kernels/check.h"

namespace quire {
namespace {

// Small enough that closing and pausing do not wait long, large enough that threads are not woken
// for nothing: some 3 ms of page faults.
constexpr int64_t kSliceBytes = int64_t{8} << 20;

}  // namespace

KvSpec MakeKvSpec(const KvLayout& layout, int32_t num_blocks) {
  KvSpec spec;
  spec.block_size = layout.block_size;
  spec.block_bytes = layout.block_bytes;
  spec.num_blocks = num_blocks;
  for (const KvGroup& group : layout.groups) {
    KvGroupSpec& group_spec = spec.groups.emplace_back();
    group_spec.num_layers = static_cast<int>(group.layers.size());
    group_spec.window = group.window;
  }
  spec.group_of_layer.assign(layout.group_of_layer.begin(), layout.group_of_layer.end());
  spec.index_in_group.assign(layout.index_in_group.begin(), layout.index_in_group.end());
  return spec;
}

absl::StatusOr<std::unique_ptr<KvStorage>> KvStorage::Open(const KvLayout& layout,
                                                           int32_t num_blocks, Backend* backend) {
  QUIRE_CHECK(num_blocks > 0, "a pool has blocks");
  const KvSpec spec = MakeKvSpec(layout, num_blocks);
  if (absl::Status status = backend->AllocateKv(spec); !status.ok()) return status;
  return std::unique_ptr<KvStorage>(new KvStorage(spec, backend));
}

KvStorage::~KvStorage() {
  {
    absl::MutexLock lock(&mutex_);
    is_closing_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void KvStorage::TouchNow(int32_t end) {
  QUIRE_CHECK(!thread_.joinable(), "touching has not started");
  if (end > touched_blocks()) TouchSlice(end);
}

void KvStorage::StartTouching(std::function<void()> on_progress) {
  QUIRE_CHECK(!thread_.joinable(), "touching has not started");
  thread_ = std::thread([this, on_progress = std::move(on_progress)] {
    pthread_setname_np(pthread_self(), "quire-touch");
    const auto slice = static_cast<int32_t>(std::max<int64_t>(1, kSliceBytes / spec_.block_bytes));
    while (touched_blocks() < spec_.num_blocks && MayTouch()) {
      TouchSlice(std::min(spec_.num_blocks, touched_blocks() + slice));
      on_progress();
    }
  });
}

bool KvStorage::MayTouch() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](KvStorage* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
        return self->is_closing_ || !self->is_paused_.load(std::memory_order_relaxed);
      },
      this));
  return !is_closing_;
}

void KvStorage::PauseTouching(bool pause) {
  if (is_paused_.load(std::memory_order_relaxed) == pause) return;
  absl::MutexLock lock(&mutex_);
  is_paused_.store(pause, std::memory_order_relaxed);
}

void KvStorage::TouchSlice(int32_t end) {
  backend_->TouchKv(touched_blocks(), end);
  touched_blocks_.store(end, std::memory_order_release);
}

}  // namespace quire
