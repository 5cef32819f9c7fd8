// Memory objects and the virtual memory calls. A mapping has two places: the address that programs
// and streams see, where a CPU faults, and an alias of the same pages that the device uses.
#include "memory.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget.hpp"
#include "devices.hpp"
#include "ipc_client.hpp"
#include "profiles.hpp"
#include "ranges.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint64_t kTrailerBytes = 4096;
constexpr std::uint64_t kTrailerMagic = 0x6164756363006d69;

/// What stands behind the bytes in the memfd, for those who import it.
struct Trailer {
  std::uint64_t magic;
  std::int32_t device_number;
  std::uint32_t account_index;
  AccountTag account_tag;
};

bool is_pinned_on_device(const api::AllocationProperties& properties) noexcept {
  return properties.type == api::AllocationType::pinned &&
         properties.location.type == api::LocationType::device && properties.location.id >= 0 &&
         properties.location.id < device_count() &&
         (properties.requested_handle_types == api::HandleType::none ||
          properties.requested_handle_types == api::HandleType::posix_file_descriptor);
}

bool is_granular(std::uint64_t value) noexcept { return value % kGranularityBytes == 0; }

Memory* find_memory(api::MemoryHandle handle) noexcept {
  Memory* memory = driver.memories.find(handle);
  return memory != nullptr && memory->handle_count > 0 ? memory : nullptr;
}

Reservation* find_reservation(std::uint64_t base, std::uint64_t size_bytes) noexcept {
  Reservation* found = nullptr;
  driver.reservations.for_each([&](Reservation& reservation) {
    if (base >= reservation.base && base - reservation.base < reservation.size_bytes &&
        size_bytes <= reservation.size_bytes - (base - reservation.base)) {
      found = &reservation;
    }
  });
  return found;
}

bool is_mapping(const Range& range) noexcept {
  return range.kind == RangeKind::device && range.context == kNoRange;
}

/// Calls `visit` for each mapping in a run that mappings fill from end to end; false, without a
/// call, if they do not.
template <class Visit>
bool for_mappings_of(std::uint64_t base, std::uint64_t size_bytes, const Visit& visit) noexcept {
  std::uint64_t covered_bytes = 0;
  bool is_cut = false;
  const auto overlaps = [&](const Range& range) {
    return range.base < base + size_bytes && base < range.base + range.size_bytes;
  };
  for_each_range([&](const Range& range) {
    if (!is_mapping(range) || !overlaps(range)) return;
    covered_bytes += range.size_bytes;
    is_cut |= range.base < base || range.base + range.size_bytes > base + size_bytes;
  });
  if (is_cut || size_bytes == 0 || covered_bytes != size_bytes) return false;
  for_each_range([&](Range& range) {
    if (is_mapping(range) && overlaps(range)) visit(range);
  });
  return true;
}

/// A Memory of a place that is counted already; what is counted is given up with it.
Status add_part(const Part& part, int device, const AccountEntry& account,
                Memory*& memory) noexcept {
  memory = driver.memories.add();
  const int fd = memory == nullptr ? -1 : ::fcntl(part.fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) {
    if (memory != nullptr) driver.memories.remove(memory);
    leave_account(account.index);
    return memory == nullptr ? Status::out_of_memory : Status::operating_system;
  }
  memory->fd = fd;
  memory->offset_bytes = part.offset_bytes;
  memory->is_part = true;
  memory->size_bytes = part.size_bytes;
  memory->account = account.index;
  memory->device = device;
  return Status::success;
}

}  // namespace

Status create_memory(std::uint64_t size_bytes, int device, Memory*& memory) noexcept {
  memory = driver.memories.add();
  if (memory == nullptr) return Status::out_of_memory;
  const int number = device_settings(device).number;
  AccountEntry entry;
  if (!open_account(number, size_bytes, device_memory_bytes(), entry)) {
    driver.memories.remove(memory);
    return Status::out_of_memory;
  }
  const Trailer trailer{kTrailerMagic, number, entry.index, entry.tag};
  const auto fd = static_cast<int>(
      sys::call(SYS_memfd_create, sys::arg("simcuda"), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(size_bytes + kTrailerBytes)) != 0 ||
      ::pwrite(fd, &trailer, sizeof trailer, static_cast<off_t>(size_bytes)) !=
          static_cast<ssize_t>(sizeof trailer) ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    if (fd >= 0) ::close(fd);
    leave_account(entry.index);
    driver.memories.remove(memory);
    return Status::operating_system;
  }
  memory->fd = fd;
  memory->size_bytes = size_bytes;
  memory->account = entry.index;
  memory->device = device;
  memory->properties.type = api::AllocationType::pinned;
  memory->properties.location = {api::LocationType::device, device};
  return Status::success;
}

Status import_memory(int fd, Memory*& memory) noexcept {
  struct stat status {};
  Trailer trailer{};
  if (::fstat(fd, &status) != 0 || status.st_size <= static_cast<off_t>(kTrailerBytes)) {
    return Status::unknown;
  }
  const auto size_bytes = static_cast<std::uint64_t>(status.st_size) - kTrailerBytes;
  if (::pread(fd, &trailer, sizeof trailer, static_cast<off_t>(size_bytes)) !=
          static_cast<ssize_t>(sizeof trailer) ||
      trailer.magic != kTrailerMagic) {
    return Status::unknown;
  }
  memory = driver.memories.add();
  if (memory == nullptr) return Status::out_of_memory;
  AccountEntry entry{trailer.account_index, trailer.account_tag};
  if (!join_account(entry)) {
    // All holders were gone while the fd travelled; the bytes are still there, so count them anew.
    if (!open_account(trailer.device_number, size_bytes, UINT64_MAX, entry)) {
      driver.memories.remove(memory);
      return Status::out_of_memory;
    }
    trailer.account_index = entry.index;
    trailer.account_tag = entry.tag;
    (void)!::pwrite(fd, &trailer, sizeof trailer, static_cast<off_t>(size_bytes));
  }
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) {
    leave_account(entry.index);
    driver.memories.remove(memory);
    return Status::operating_system;
  }
  memory->fd = copy;
  memory->size_bytes = size_bytes;
  memory->account = entry.index;
  memory->device = ordinal_of(trailer.device_number);
  memory->properties.type = api::AllocationType::pinned;
  memory->properties.requested_handle_types = api::HandleType::posix_file_descriptor;
  memory->properties.location = {api::LocationType::device,
                                 memory->device < 0 ? 0 : memory->device};
  return Status::success;
}

Status create_part(const Part& part, int device, Memory*& memory) noexcept {
  AccountEntry entry;
  if (!open_account(device_settings(device).number, part.size_bytes, device_memory_bytes(),
                    entry)) {
    return Status::out_of_memory;
  }
  return add_part(part, device, entry, memory);
}

Status join_part(const Part& part, int device, const AccountEntry& account,
                 Memory*& memory) noexcept {
  return join_account(account) ? add_part(part, device, account, memory) : Status::invalid_value;
}

void drop_if_unused(Memory& memory) noexcept {
  if (memory.handle_count > 0 || memory.mapping_count > 0) return;
  withdraw(memory.exported);
  leave_account(memory.account);
  if (memory.is_part && !is_account_held(memory.account)) {
    ::fallocate(memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(memory.offset_bytes), static_cast<off_t>(memory.size_bytes));
  }
  ::close(memory.fd);
  driver.memories.remove(&memory);
}

std::byte* map_alias(const Memory& memory, std::uint64_t size_bytes) noexcept {
  const long alias = sys::call(SYS_mmap, 0, static_cast<long>(size_bytes), PROT_READ | PROT_WRITE,
                               MAP_SHARED, memory.fd, static_cast<long>(memory.offset_bytes));
  if (sys::failed(alias)) return nullptr;
  sys::call(SYS_madvise, alias, static_cast<long>(size_bytes), MADV_DONTFORK);
  return reinterpret_cast<std::byte*>(alias);
}

Status cuMemGetAllocationGranularity(std::size_t* granularity,
                                     const api::AllocationProperties* properties,
                                     api::Granularity option) {
  return enter(
      FunctionId::cuMemGetAllocationGranularity, Needs::initialized,
      [&] {
        if (granularity == nullptr || properties == nullptr || !is_pinned_on_device(*properties)) {
          return Status::invalid_value;
        }
        *granularity = kGranularityBytes;
        return Status::success;
      },
      out(granularity), properties, option);
}

Status cuMemCreate(api::MemoryHandle* handle, std::size_t size,
                   const api::AllocationProperties* properties, unsigned long long flags) {
  return enter(
      FunctionId::cuMemCreate, Needs::initialized,
      [&] {
        if (handle == nullptr || properties == nullptr || flags != 0 || size == 0 ||
            !is_granular(size) || !is_pinned_on_device(*properties)) {
          return Status::invalid_value;
        }
        if (properties->requested_handle_types != api::HandleType::none && !profile().exports_fds) {
          return Status::not_supported;
        }
        Memory* memory = nullptr;
        const Status status = create_memory(size, properties->location.id, memory);
        if (status != Status::success) return status;
        memory->properties = *properties;
        memory->handle_count = 1;
        *handle = driver.memories.handle_of(memory);
        return Status::success;
      },
      out(handle), size, properties, flags);
}

Status cuMemRelease(api::MemoryHandle handle) {
  return enter(
      FunctionId::cuMemRelease, Needs::initialized,
      [&] {
        Memory* memory = find_memory(handle);
        if (memory == nullptr) return Status::invalid_value;
        --memory->handle_count;
        drop_if_unused(*memory);
        return Status::success;
      },
      handle);
}

Status cuMemExportToShareableHandle(void* shareable, api::MemoryHandle handle, api::HandleType type,
                                    unsigned long long flags) {
  return enter(
      FunctionId::cuMemExportToShareableHandle, Needs::initialized,
      [&] {
        const Memory* memory = find_memory(handle);
        if (shareable == nullptr || flags != 0 || memory == nullptr ||
            type != api::HandleType::posix_file_descriptor ||
            memory->properties.requested_handle_types != type) {
          return Status::invalid_value;
        }
        const int copy = ::fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0) return Status::operating_system;
        *static_cast<int*>(shareable) = copy;
        return Status::success;
      },
      out(static_cast<const int*>(shareable)), handle, type, flags);
}

Status cuMemImportFromShareableHandle(api::MemoryHandle* handle, void* shareable,
                                      api::HandleType type) {
  return enter(
      FunctionId::cuMemImportFromShareableHandle, Needs::initialized,
      [&] {
        if (handle == nullptr || type != api::HandleType::posix_file_descriptor) {
          return Status::invalid_value;
        }
        Memory* memory = nullptr;
        const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
        const Status status = import_memory(fd, memory);
        if (status != Status::success) return status;
        memory->handle_count = 1;
        *handle = driver.memories.handle_of(memory);
        return Status::success;
      },
      out(handle), static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)), type);
}

Status cuMemAddressReserve(api::DevicePointer* address, std::size_t size, std::size_t alignment,
                           api::DevicePointer hint, unsigned long long flags) {
  return enter(
      FunctionId::cuMemAddressReserve, Needs::initialized,
      [&] {
        if (address == nullptr || size == 0 || !is_granular(size) || flags != 0 ||
            (alignment & (alignment - 1)) != 0) {
          return Status::invalid_value;
        }
        Reservation* reservation = driver.reservations.add();
        if (reservation == nullptr) return Status::out_of_memory;
        const std::uint64_t base =
            reserve_addresses(size, alignment < kGranularityBytes ? kGranularityBytes : alignment);
        if (base == 0) {
          driver.reservations.remove(reservation);
          return Status::out_of_memory;
        }
        *reservation = {base, size};
        *address = base;
        return Status::success;
      },
      out(address), size, alignment, hint, flags);
}

Status cuMemAddressFree(api::DevicePointer address, std::size_t size) {
  return enter(
      FunctionId::cuMemAddressFree, Needs::initialized,
      [&] {
        Reservation* reservation = find_reservation(address, size);
        if (reservation == nullptr || reservation->base != address ||
            reservation->size_bytes != size) {
          return Status::invalid_value;
        }
        bool is_used = false;
        for_each_range([&](const Range& range) {
          is_used |= range.kind == RangeKind::device && range.base >= address &&
                     range.base - address < size;
        });
        if (is_used) return Status::invalid_value;
        free_addresses(address, size);
        driver.reservations.remove(reservation);
        return Status::success;
      },
      address, size);
}

Status cuMemMap(api::DevicePointer address, std::size_t size, std::size_t offset,
                api::MemoryHandle handle, unsigned long long flags) {
  return enter(
      FunctionId::cuMemMap, Needs::initialized,
      [&] {
        Memory* memory = find_memory(handle);
        if (memory == nullptr || size == 0 || !is_granular(size) || !is_granular(address) ||
            offset != 0 || flags != 0 || find_reservation(address, size) == nullptr) {
          return Status::invalid_value;
        }
        if (size != memory->size_bytes) return Status::not_supported;
        bool is_taken = false;
        for_each_range([&](const Range& range) {
          is_taken |= range.base < address + size && address < range.base + range.size_bytes;
        });
        if (is_taken) return Status::invalid_value;
        Range* range = add_range();
        std::byte* alias = range == nullptr ? nullptr : map_alias(*memory, size);
        if (alias == nullptr) return Status::out_of_memory;
        range->kind = RangeKind::device;
        range->base = address;
        range->size_bytes = size;
        range->alias = alias;
        range->alias_is_ours = true;
        range->device = memory->device;
        range->memory = driver.memories.index_of(memory);
        ++memory->mapping_count;
        publish_range(*range);
        return Status::success;
      },
      address, size, offset, handle, flags);
}

Status cuMemUnmap(api::DevicePointer address, std::size_t size) {
  return enter(
      FunctionId::cuMemUnmap, Needs::initialized,
      [&] {
        // Does not wait for work that uses the mapping: that work faults.
        const bool found = for_mappings_of(address, size, [](Range& range) {
          Memory& memory = driver.memories.at(range.memory);
          remove_range(range);
          --memory.mapping_count;
          drop_if_unused(memory);
        });
        return found ? Status::success : Status::invalid_value;
      },
      address, size);
}

Status cuMemSetAccess(api::DevicePointer address, std::size_t size,
                      const api::AccessDescriptor* descriptors, std::size_t count) {
  return enter(
      FunctionId::cuMemSetAccess, Needs::initialized,
      [&] {
        if (descriptors == nullptr || count == 0) return Status::invalid_value;
        for (std::size_t i = 0; i < count; ++i) {
          const api::AccessDescriptor& wanted = descriptors[i];
          if (wanted.location.type != api::LocationType::device) return Status::invalid_value;
          if (wanted.location.id < 0 || wanted.location.id >= device_count()) {
            return Status::invalid_device;
          }
          if (wanted.flags != api::AccessFlags::none && wanted.flags != api::AccessFlags::read &&
              wanted.flags != api::AccessFlags::read_write) {
            return Status::invalid_value;
          }
          bool reaches = true;
          for_each_range([&](const Range& range) {
            const bool is_inside = range.base >= address && range.base - address < size;
            if (is_inside && is_mapping(range) && range.device != wanted.location.id) {
              reaches &= peer_access_possible();
            }
          });
          if (!reaches) return Status::invalid_device;
        }
        const bool found = for_mappings_of(address, size, [&](Range& range) {
          for (std::size_t i = 0; i < count; ++i) {
            range.access[static_cast<std::size_t>(descriptors[i].location.id)].store(
                static_cast<std::uint8_t>(descriptors[i].flags));
          }
        });
        return found ? Status::success : Status::invalid_value;
      },
      address, size, Accesses{descriptors, count});
}

Status cuMemGetAccess(unsigned long long* flags, const api::Location* location,
                      api::DevicePointer address) {
  return enter(
      FunctionId::cuMemGetAccess, Needs::initialized,
      [&] {
        const Range* range = find_range(address, 1);
        if (flags == nullptr || location == nullptr || range == nullptr || !is_mapping(*range) ||
            location->type != api::LocationType::device || location->id < 0 ||
            location->id >= device_count()) {
          return Status::invalid_value;
        }
        *flags = range->access[static_cast<std::size_t>(location->id)].load();
        return Status::success;
      },
      out(flags), location, address);
}

Status cuMemGetAllocationPropertiesFromHandle(api::AllocationProperties* properties,
                                              api::MemoryHandle handle) {
  return enter(
      FunctionId::cuMemGetAllocationPropertiesFromHandle, Needs::initialized,
      [&] {
        const Memory* memory = find_memory(handle);
        if (properties == nullptr || memory == nullptr) return Status::invalid_value;
        *properties = memory->properties;
        return Status::success;
      },
      out(properties), handle);
}

Status cuMemRetainAllocationHandle(api::MemoryHandle* handle, void* address) {
  return enter(
      FunctionId::cuMemRetainAllocationHandle, Needs::initialized,
      [&] {
        const Range* range = find_range(reinterpret_cast<std::uintptr_t>(address), 1);
        if (handle == nullptr || range == nullptr || !is_mapping(*range)) {
          return Status::invalid_value;
        }
        Memory& memory = driver.memories.at(range->memory);
        ++memory.handle_count;
        *handle = driver.memories.handle_of(&memory);
        return Status::success;
      },
      out(handle), address);
}

Status cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return enter(
      FunctionId::cuMemGetInfo_v2, Needs::healthy,
      [&] {
        if (free_bytes == nullptr || total_bytes == nullptr) return Status::invalid_value;
        const Context& context = *current_context();
        *total_bytes = device_memory_bytes();
        const std::uint64_t held_bytes = bytes_held(device_settings(context.device).number);
        *free_bytes = held_bytes < *total_bytes ? *total_bytes - held_bytes : 0;
        return Status::success;
      },
      out(free_bytes), out(total_bytes));
}

}  // namespace vramlink::simcuda
