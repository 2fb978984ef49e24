#ifndef QUIRE_KERNELS_CPU_MAPPED_MEMORY_H_
#define QUIRE_KERNELS_CPU_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// A zeroed anonymous mapping, aligned to a huge page and advised to be made of them. Pages take
// memory when they are first touched, not before. Owns the mapping.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory();

  // Fails when the address space cannot be had; `purpose` is for the message.
  static absl::StatusOr<MappedMemory> Map(int64_t bytes, absl::string_view purpose);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* mapping_ = nullptr;  // what was mapped, data_ with up to a huge page before and after
  int64_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Takes memory piece by piece and frees it all at once. Pieces start at multiples of 64 bytes.
class MappedArena {
 public:
  // Fails when the machine has less than `bytes` left; `purpose` is for the message.
  absl::StatusOr<std::byte*> Take(int64_t bytes, absl::string_view purpose);

 private:
  std::vector<MappedMemory> mappings_;
  int64_t used_ = 0;  // of the last mapping
};

// MemAvailable of /proc/meminfo; -1 where it cannot be read. Limits of cgroups are not in it:
// engine/ plans within them.
int64_t MachineAvailableBytes();

// OK when the machine has `bytes` left, else an error that names both numbers.
absl::Status CheckMachineHas(int64_t bytes, absl::string_view purpose);

}  // namespace quire

#endif  // QUIRE_KERNELS_CPU_MAPPED_MEMORY_H_
