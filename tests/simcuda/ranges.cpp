#include "ranges.hpp"

#include <sys/mman.h>
#include <sys/uio.h>

#include "memory.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uintptr_t kPageMask = 4095;

bool holds(const Range& range, std::uint64_t address, std::uint64_t size_bytes) noexcept {
  if (address < range.base) return false;
  const std::uint64_t offset = address - range.base;
  return offset < range.size_bytes && size_bytes <= range.size_bytes - offset;
}

/// Whether the process itself could read a byte there; asked of the kernel, for a look would crash.
bool is_readable(std::uint64_t address) noexcept {
  std::byte byte{};
  const iovec local{&byte, 1};
  const iovec remote{reinterpret_cast<void*>(address), 1};
  return sys::call(SYS_process_vm_readv, sys::pid(), sys::arg(&local), 1, sys::arg(&remote), 1,
                   0) == 1;
}

}  // namespace

std::uint32_t index_of(const Range& range) noexcept {
  return static_cast<std::uint32_t>(&range - device_state.ranges.data());
}

bool is_legacy_ipc_capable(const Range& range) noexcept {
  return range.kind == RangeKind::device && range.context != kNoRange && !range.is_import &&
         range.pool == kNoRange;
}

Range* add_range() noexcept {
  static std::uint64_t buffer_ids = 0;
  for (Range& range : device_state.ranges) {
    if (range.generation.load() % 2 == 1) continue;
    range.alias = nullptr;
    range.alias_is_ours = false;
    range.is_import = false;
    for (auto& access : range.access) access.store(0);
    range.device = -1;
    range.context = kNoRange;
    range.memory = kNoRange;
    range.pool = kNoRange;
    range.is_being_freed = false;
    range.flags = 0;
    range.buffer_id = ++buffer_ids;
    return &range;
  }
  return nullptr;
}

void publish_range(Range& range) noexcept {
  range.generation.fetch_add(1);
  const std::uint32_t index = index_of(range);
  if (index >= device_state.range_count.load()) device_state.range_count.store(index + 1);
}

void remove_range(Range& range) noexcept {
  range.generation.fetch_add(1);
  const std::uint32_t busy = index_of(range) + 1;
  const auto is_used = [&] {
    for (const auto& word : device_state.busy) {
      const std::uint32_t used = word.load();
      if (used == busy || used == kBusyAll) return true;
    }
    return false;
  };
  while (is_used() && device_seems_alive()) sys::yield();
  if (range.alias_is_ours) {
    // Whole pages: registered memory may begin anywhere.
    const auto begin = reinterpret_cast<std::uintptr_t>(range.alias) & ~kPageMask;
    const auto end = reinterpret_cast<std::uintptr_t>(range.alias) + range.size_bytes;
    sys::call(SYS_munmap, static_cast<long>(begin),
              static_cast<long>(((end + kPageMask) & ~kPageMask) - begin));
  }
}

Range* find_range(std::uint64_t address, std::uint64_t size_bytes) noexcept {
  Range* found = nullptr;
  for_each_range([&](Range& range) {
    if (holds(range, address, size_bytes)) found = &range;
  });
  return found;
}

Range* find_range_at(std::uint64_t base, RangeKind kind) noexcept {
  Range* found = nullptr;
  for_each_range([&](Range& range) {
    if (range.base == base && range.kind == kind) found = &range;
  });
  return found;
}

Status locate(std::uint64_t address, std::uint64_t size_bytes, int device, bool write,
              Located& located) noexcept {
  if (const Range* range = find_range(address, size_bytes); range != nullptr) {
    const std::uint8_t access = range->access[static_cast<std::size_t>(device)].load();
    if (write ? access != kReadWrite : (access & 1) == 0) return Status::invalid_value;
    located.place = {range->alias + (address - range->base), index_of(*range),
                     range->generation.load()};
    located.kind = range->kind == RangeKind::device ? AddressKind::device : AddressKind::pinned;
    return Status::success;
  }
  if (is_reserved(address) || find_range(address, 1) != nullptr) return Status::invalid_value;
  if (!is_readable(address) || !is_readable(address + size_bytes - 1)) {
    return Status::invalid_value;
  }
  located.place = {reinterpret_cast<std::byte*>(address), kNoRange, 0};
  located.kind = AddressKind::pageable;
  return Status::success;
}

std::uint64_t reserve_addresses(std::uint64_t size_bytes, std::uint64_t alignment) noexcept {
  const std::uint64_t total_bytes = size_bytes + alignment;
  if (total_bytes < size_bytes) return 0;
  const long start = sys::call(SYS_mmap, 0, static_cast<long>(total_bytes), PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sys::failed(start)) return 0;
  const auto begin = static_cast<std::uint64_t>(start);
  const std::uint64_t base = (begin + alignment - 1) / alignment * alignment;
  if (base > begin) sys::call(SYS_munmap, start, static_cast<long>(base - begin));
  const std::uint64_t end = begin + total_bytes;
  if (end > base + size_bytes) {
    sys::call(SYS_munmap, static_cast<long>(base + size_bytes),
              static_cast<long>(end - base - size_bytes));
  }
  sys::call(SYS_madvise, static_cast<long>(base), static_cast<long>(size_bytes), MADV_DONTFORK);
  return base;
}

void free_addresses(std::uint64_t base, std::uint64_t size_bytes) noexcept {
  sys::call(SYS_munmap, static_cast<long>(base), static_cast<long>(size_bytes));
}

bool is_reserved(std::uint64_t address) noexcept {
  bool found = false;
  driver.reservations.for_each([&](const Reservation& reservation) {
    if (address >= reservation.base && address - reservation.base < reservation.size_bytes) {
      found = true;
    }
  });
  return found;
}

void allow_peer(int owner, int user, bool allowed) noexcept {
  for_each_range([&](Range& range) {
    // An import has the rights that it was opened with, and what came from a pool those of the
    // pool.
    if (range.kind != RangeKind::device || range.device != owner || range.context == kNoRange ||
        range.is_import || range.pool != kNoRange) {
      return;
    }
    range.access[static_cast<std::size_t>(user)].store(allowed ? kReadWrite : 0);
  });
}

void remove_ranges_of(std::uint32_t context) noexcept {
  for_each_range([&](Range& range) {
    if (range.context == context) free_range(range);
  });
}

}  // namespace vramlink::simcuda
