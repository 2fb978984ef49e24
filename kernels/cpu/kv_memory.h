#ifndef QUIRE_KERNELS_CPU_KV_MEMORY_H_
#define QUIRE_KERNELS_CPU_KV_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/kv_block.h"
#include "kernels/cpu/mapped_memory.h"

namespace quire {

// The memory of all KV blocks, and how a token's key and value get into it (kv_block.h has the
// arrangement). It does not know which block is whose: the step's slots say.
//
// Allocated once by the engine thread. Touch may be called by any thread; Append by the workers of
// a phase, for different blocks at a time.
class KvMemory {
 public:
  // Takes address space; Touch takes the memory. Fails when there is less memory than that.
  absl::Status Allocate(const KvSpec& spec, const ModelShape& shape);
  void Touch(int begin, int end);

  // REQUIRES: Allocate was called.
  const KvSpec& spec() const { return spec_; }
  std::byte* data() const { return memory_.data(); }
  std::byte* Block(int64_t block) const { return memory_.data() + block * spec_.block_bytes; }

  // Writes one token's key and value for (layer, kv_head). slot: block * block_size + offset.
  // A token at offset 0 is the first of its block: the block's values are cleared before, so that
  // nothing of an earlier owner is left in it. key, value: bf16 [padded_head_dim].
  void Append(int layer, int kv_head, int32_t slot, const uint16_t* key, const uint16_t* value);

 private:
  KvSpec spec_;
  KvBlockShape shape_;
  MappedMemory memory_;
};

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_KV_MEMORY_H_
