#include "kernels/cpu/mapped_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace quire {
namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr int64_t kPieceAlignment = 64;
// Address space asked for at a time. It costs nothing until it is touched.
constexpr int64_t kArenaMapping = int64_t{1} << 30;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

MappedMemory::MappedMemory(MappedMemory&& other) noexcept { *this = std::move(other); }

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

absl::StatusOr<MappedMemory> MappedMemory::Map(int64_t bytes, absl::string_view purpose) {
  const int64_t mapping_bytes = RoundUp(bytes, kHugePage) + kHugePage;
  void* mapping = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes for ", purpose, ": ", std::strerror(error), "; ",
                     MachineAvailableBytes(), " bytes of memory are available"));
  }
  MappedMemory memory;
  memory.mapping_ = mapping;
  memory.mapping_bytes_ = mapping_bytes;
  const int64_t address = reinterpret_cast<intptr_t>(mapping);
  memory.data_ = static_cast<std::byte*>(mapping) + (RoundUp(address, kHugePage) - address);
  memory.bytes_ = bytes;
  // Advice: where huge pages are off, small ones work as well.
  madvise(mapping, mapping_bytes, MADV_HUGEPAGE);
  return memory;
}

absl::StatusOr<std::byte*> MappedArena::Take(int64_t bytes, absl::string_view purpose) {
  const int64_t piece = RoundUp(bytes, kPieceAlignment);
  if (absl::Status status = CheckMachineHas(piece, purpose); !status.ok()) return status;
  if (mappings_.empty() || mappings_.back().bytes() - used_ < piece) {
    absl::StatusOr<MappedMemory> mapping =
        MappedMemory::Map(std::max(piece, kArenaMapping), purpose);
    // Under a limit on address space the round number may be too much where the piece is not.
    if (!mapping.ok()) mapping = MappedMemory::Map(piece, purpose);
    if (!mapping.ok()) return mapping.status();
    mappings_.push_back(*std::move(mapping));
    used_ = 0;
  }
  std::byte* const taken = mappings_.back().data() + used_;
  used_ += piece;
  return taken;
}

int64_t MachineAvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kibibytes = 0;
  while (meminfo >> key >> kibibytes) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return -1;
}

absl::Status CheckMachineHas(int64_t bytes, absl::string_view purpose) {
  const int64_t available = MachineAvailableBytes();
  if (available < 0 || bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(purpose, " takes ", bytes, " bytes; ", available,
                                                   " bytes of memory are available"));
}

}  // namespace quire
