// Memory that needs no handle: plain device memory, managed memory, pinned host memory, and host
// memory of the program's own that it registers.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices.hpp"
#include "host_maps.hpp"
#include "memory.hpp"
#include "pools.hpp"
#include "ranges.hpp"
#include "streams.hpp"
#include "sys.hpp"

namespace vramlink::simcuda {
namespace {

constexpr unsigned kHostFlagsKnown = 7;
constexpr unsigned kRegisterFlagsKnown =
    api::kRegisterPortable | api::kRegisterDeviceMap | 4 | api::kRegisterReadOnly;
constexpr auto kRead = static_cast<std::uint8_t>(api::AccessFlags::read);

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

void allow_all(Range& range, std::uint8_t access) noexcept {
  for (auto& word : range.access) word.store(access);
}

void publish(Range& range, RangeKind kind, std::uint64_t base, std::uint64_t size_bytes,
             std::byte* alias) noexcept {
  range.kind = kind;
  range.base = base;
  range.size_bytes = size_bytes;
  range.alias = alias;
  publish_range(range);
}

/// Memory that the CPU reads and writes at its own address. By libc, so that a sanitizer forgets
/// what it knows of the address.
void* map_host_memory(std::uint64_t size_bytes) noexcept {
  void* address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

Status allocate_host(void** address, std::uint64_t size_bytes, unsigned flags) noexcept {
  if (address == nullptr || size_bytes == 0 || (flags & ~kHostFlagsKnown) != 0) {
    return Status::invalid_value;
  }
  const std::uint32_t context = index_of(*current_context());
  Range* range = add_range();
  void* memory = range == nullptr ? nullptr : map_host_memory(round_up(size_bytes, kPageBytes));
  if (memory == nullptr) return Status::out_of_memory;
  range->context = context;
  range->flags = flags;
  allow_all(*range, kReadWrite);
  publish(*range, RangeKind::host, reinterpret_cast<std::uintptr_t>(memory), size_bytes,
          static_cast<std::byte*>(memory));
  *address = memory;
  return Status::success;
}

}  // namespace

void free_range(Range& range) noexcept {
  const RangeKind kind = range.kind;
  const std::uint64_t base = range.base;
  const std::uint64_t size_bytes = range.size_bytes;
  const std::uint32_t memory_index = range.memory;
  const std::uint32_t pool = range.pool;
  remove_range(range);
  if (kind == RangeKind::host || kind == RangeKind::managed) {
    ::munmap(reinterpret_cast<void*>(base), round_up(size_bytes, kPageBytes));
  } else if (kind == RangeKind::device) {
    const std::uint64_t unit_bytes = pool == kNoRange ? kPageBytes : kGranularityBytes;
    free_addresses(base, round_up(size_bytes, unit_bytes));
    Memory& memory = driver.memories.at(memory_index);
    --memory.mapping_count;
    drop_if_unused(memory);
    if (pool != kNoRange) leave_pool(pool, size_bytes);
  }
}

Status cuMemAlloc_v2(api::DevicePointer* address, std::size_t size) {
  return enter(
      FunctionId::cuMemAlloc_v2, Needs::healthy,
      [&] {
        if (address == nullptr || size == 0) return Status::invalid_value;
        const Context& context = *current_context();
        // A size near the end of the numbers cannot be rounded up.
        if (size > device_memory_bytes()) return Status::out_of_memory;
        Memory* memory = nullptr;
        const Status status =
            create_memory(round_up(size, kGranularityBytes), context.device, memory);
        if (status != Status::success) return status;
        Range* range = add_range();
        const std::uint64_t mapped_bytes = round_up(size, kPageBytes);
        const std::uint64_t base =
            range == nullptr ? 0 : reserve_addresses(mapped_bytes, kGranularityBytes);
        std::byte* alias = base == 0 ? nullptr : map_alias(*memory, mapped_bytes);
        if (alias == nullptr) {
          if (base != 0) free_addresses(base, mapped_bytes);
          drop_if_unused(*memory);
          return Status::out_of_memory;
        }
        ++memory->mapping_count;
        range->alias_is_ours = true;
        range->device = context.device;
        range->context = index_of(context);
        range->memory = driver.memories.index_of(memory);
        range->access[static_cast<std::size_t>(context.device)].store(kReadWrite);
        driver.contexts.for_each([&](const Context& other) {
          if ((other.peers & 1U << context.device) == 0) return;
          range->access[static_cast<std::size_t>(other.device)].store(kReadWrite);
        });
        publish(*range, RangeKind::device, base, size, alias);
        *address = base;
        return Status::success;
      },
      out(address), size);
}

Status cuMemFree_v2(api::DevicePointer address) {
  return enter(
      FunctionId::cuMemFree_v2, Needs::context,
      [&] {
        if (address == 0) return Status::success;
        const auto find = [&]() -> Range* {
          Range* range = find_range_at(address, RangeKind::device);
          if (range == nullptr) range = find_range_at(address, RangeKind::managed);
          const bool is_ours = range != nullptr && range->context != kNoRange && !range->is_import;
          return is_ours ? range : nullptr;
        };
        Range* range = find();
        if (range == nullptr) return Status::invalid_value;
        const Status status = block_while_busy(range->context);
        if (range = find(); range == nullptr) return Status::invalid_value;
        free_range(*range);
        return status;
      },
      address);
}

Status cuMemAllocManaged(api::DevicePointer* address, std::size_t size, unsigned flags) {
  return enter(
      FunctionId::cuMemAllocManaged, Needs::healthy,
      [&] {
        if (address == nullptr || size == 0 || (flags != 1 && flags != 2)) {
          return Status::invalid_value;
        }
        const std::uint32_t context = index_of(*current_context());
        Range* range = add_range();
        void* memory = range == nullptr ? nullptr : map_host_memory(round_up(size, kPageBytes));
        if (memory == nullptr) return Status::out_of_memory;
        range->context = context;
        range->device = current_context()->device;
        range->flags = flags;
        allow_all(*range, kReadWrite);
        *address = reinterpret_cast<std::uintptr_t>(memory);
        publish(*range, RangeKind::managed, *address, size, static_cast<std::byte*>(memory));
        return Status::success;
      },
      out(address), size, flags);
}

Status cuMemAllocHost_v2(void** address, std::size_t size) {
  return enter(
      FunctionId::cuMemAllocHost_v2, Needs::healthy,
      [&] { return allocate_host(address, size, 0); }, out(address), size);
}

Status cuMemHostAlloc(void** address, std::size_t size, unsigned flags) {
  return enter(
      FunctionId::cuMemHostAlloc, Needs::healthy,
      [&] { return allocate_host(address, size, flags); }, out(address), size, flags);
}

Status cuMemFreeHost(void* address) {
  return enter(
      FunctionId::cuMemFreeHost, Needs::context,
      [&] {
        const auto base = reinterpret_cast<std::uintptr_t>(address);
        Range* range = find_range_at(base, RangeKind::host);
        if (range == nullptr) return Status::invalid_value;
        const Status status = block_while_busy(range->context);
        range = find_range_at(base, RangeKind::host);
        if (range == nullptr) return Status::invalid_value;
        free_range(*range);
        return status;
      },
      address);
}

Status cuMemHostGetFlags(unsigned* flags, void* address) {
  return enter(
      FunctionId::cuMemHostGetFlags, Needs::healthy,
      [&] {
        const Range* range = find_range(reinterpret_cast<std::uintptr_t>(address), 1);
        if (flags == nullptr || range == nullptr || range->kind != RangeKind::host) {
          return Status::invalid_value;
        }
        *flags = range->flags;
        return Status::success;
      },
      out(flags), address);
}

Status cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  return enter(
      FunctionId::cuMemHostRegister_v2, Needs::healthy,
      [&] {
        const auto base = reinterpret_cast<std::uintptr_t>(address);
        if (address == nullptr || size == 0 || (flags & ~kRegisterFlagsKnown) != 0) {
          return Status::invalid_value;
        }
        const std::uint32_t context = index_of(*current_context());
        bool is_registered = false;
        for_each_range([&](const Range& range) {
          is_registered |= range.base < base + size && base < range.base + range.size_bytes;
        });
        if (is_registered) return Status::host_memory_already_registered;
        const HostMapping mapping = look_up_host_mapping(base, size);
        const bool read_only = (flags & api::kRegisterReadOnly) != 0;
        if (!mapping.is_readable || (!read_only && !mapping.is_writable)) {
          return Status::invalid_value;
        }
        Range* range = add_range();
        if (range == nullptr) return Status::out_of_memory;
        std::byte* alias = reinterpret_cast<std::byte*>(base);
        if (mapping.is_one_shared) {
          // Pages of its own to the device, as pinned pages are: the program may unmap its own.
          const std::uint64_t begin = base / kPageBytes * kPageBytes;
          const std::uint64_t span_bytes = round_up(base + size - begin, kPageBytes);
          const long copy = sys::call(SYS_mremap, static_cast<long>(begin), 0,
                                      static_cast<long>(span_bytes), MREMAP_MAYMOVE, 0);
          if (!sys::failed(copy)) {
            sys::call(SYS_madvise, copy, static_cast<long>(span_bytes), MADV_DONTFORK);
            alias = reinterpret_cast<std::byte*>(static_cast<std::uint64_t>(copy) + base - begin);
            range->alias_is_ours = true;
          }
        }
        range->context = context;
        range->flags = flags;
        allow_all(*range, read_only ? kRead : kReadWrite);
        publish(*range, RangeKind::registered, base, size, alias);
        return Status::success;
      },
      address, size, flags);
}

Status cuMemHostUnregister(void* address) {
  return enter(
      FunctionId::cuMemHostUnregister, Needs::context,
      [&] {
        const auto base = reinterpret_cast<std::uintptr_t>(address);
        Range* range = find_range_at(base, RangeKind::registered);
        if (range == nullptr) return Status::host_memory_not_registered;
        const Status status = block_while_busy(range->context);
        range = find_range_at(base, RangeKind::registered);
        if (range == nullptr) return Status::host_memory_not_registered;
        free_range(*range);
        return status;
      },
      address);
}

Status cuMemHostGetDevicePointer_v2(api::DevicePointer* device_address, void* address,
                                    unsigned flags) {
  return enter(
      FunctionId::cuMemHostGetDevicePointer_v2, Needs::healthy,
      [&] {
        const auto value = reinterpret_cast<std::uintptr_t>(address);
        const Range* range = find_range(value, 1);
        if (device_address == nullptr || flags != 0 || range == nullptr ||
            range->kind == RangeKind::device) {
          return Status::invalid_value;
        }
        *device_address = value;  // unified addressing
        return Status::success;
      },
      out(device_address), address, flags);
}

}  // namespace vramlink::simcuda
