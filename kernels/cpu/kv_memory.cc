#include "kernels/cpu/kv_memory.h"

#include <cstring>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/check.h"

namespace quire {

absl::Status KvMemory::Allocate(const KvSpec& spec, const ModelShape& shape) {
  shape_ = {shape.num_kv_heads, spec.block_size, PaddedHeadDim(shape.head_dim)};
  QUIRE_CHECK(spec.num_blocks > 0, "there are blocks");
  QUIRE_CHECK(spec.block_size > 0 && spec.block_size % kKvGroupTokens == 0 &&
                  kKvSplitTokens % spec.block_size == 0,
              "block_size is a multiple of 16 that divides 256");
  for (const KvGroupSpec& group : spec.groups) {
    const int64_t bytes = group.num_layers * KvLayerElems(shape_) * int64_t{sizeof(uint16_t)};
    QUIRE_CHECK(spec.block_bytes >= bytes, "a block holds the layers of its group");
  }
  const int64_t bytes = spec.num_blocks * spec.block_bytes;
  const std::string purpose = absl::StrCat("the KV cache (", spec.num_blocks, " blocks)");
  if (absl::Status status = CheckMachineHas(bytes, purpose); !status.ok()) return status;
  absl::StatusOr<MappedMemory> memory = MappedMemory::Map(bytes, purpose);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  spec_ = spec;
  return absl::OkStatus();
}

void KvMemory::Touch(int begin, int end) {
  QUIRE_CHECK(begin >= 0 && begin <= end && end <= spec_.num_blocks, "blocks of this memory");
  // One byte of each page, all of them of these blocks; adding zero keeps what is there.
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t last = end * spec_.block_bytes;
  int64_t offset = begin * spec_.block_bytes;
  while (offset < last) {
    __atomic_fetch_add(reinterpret_cast<uint8_t*>(data() + offset), 0, __ATOMIC_RELAXED);
    offset = (offset / page + 1) * page;
  }
}

void KvMemory::Append(int layer, int kv_head, int32_t slot, const uint16_t* key,
                      const uint16_t* value) {
  const int offset = slot % shape_.block_size;
  const int in_group = spec_.index_in_group[layer];
  uint16_t* const block = reinterpret_cast<uint16_t*>(Block(slot / shape_.block_size));
  uint16_t* const keys = block + KvKeyBase(shape_, in_group, kv_head);
  uint16_t* const values = block + KvValueBase(shape_, in_group, kv_head);
  if (offset == 0) std::memset(values, 0, KvHeadElems(shape_) * sizeof(uint16_t));

  uint16_t* const key_pairs = keys + KvKeyElem(shape_, offset, 0);
  const int64_t key_stride = KvKeyElem(shape_, offset, 2) - KvKeyElem(shape_, offset, 0);
  for (int pair = 0; pair < shape_.padded_head_dim / 2; ++pair) {
    std::memcpy(key_pairs + pair * key_stride, key + 2 * pair, 2 * sizeof(uint16_t));
  }
  uint16_t* const value_elems = values + KvValueElem(shape_, offset, 0);
  const int64_t value_stride = KvValueElem(shape_, offset, 1) - KvValueElem(shape_, offset, 0);
  for (int dim = 0; dim < shape_.padded_head_dim; ++dim) {
    value_elems[dim * value_stride] = value[dim];
  }
}

}  // namespace quire
