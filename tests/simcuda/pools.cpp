// Pools. All memory of one lies in one sparse memfd, so that an importer of the pool finds each
// allocation by its place in it. A place is never used twice: who still has it sees no other.
#include "pools.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <unistd.h>

#include <array>

#include "budget.hpp"
#include "devices.hpp"
#include "memory.hpp"
#include "ranges.hpp"
#include "streams.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint64_t kHeaderMagic = 0x6c6f6f7063006d69;
constexpr std::uint64_t kPointerMagic = 0x7274707063006d69;
/// Addresses of the memfd: sparse, so they cost nothing.
constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 42;
/// What is counted as used is a multiple of this.
constexpr std::uint64_t kUseBytes = 512;
constexpr std::uint32_t kPendingMax = 4096;

/// At the beginning of a pool's memfd.
struct Header {
  std::uint64_t magic;
  std::uint64_t id;
  std::int32_t device_number;
};

/// What PoolPointer holds.
struct PointerData {
  std::uint64_t magic;
  std::uint64_t pool_id;
  std::uint64_t offset_bytes;
  std::uint64_t size_bytes;
  AccountEntry account;
};
static_assert(sizeof(PointerData) <= sizeof(PoolPointer));

/// A free that a stream has yet to reach.
struct PendingFree {
  std::uint32_t range = kNoRange;
  std::uint32_t generation = 0;
  std::uint32_t slot = 0;
  std::uint64_t end = 0;
};

std::array<PendingFree, kPendingMax> pending;
std::uint32_t pending_count = 0;
/// Index + 1 of the pool that a device's allocations come from, and of its default one; 0: not
/// asked for so far.
std::array<std::uint32_t, kDeviceMax> current{};
std::array<std::uint32_t, kDeviceMax> defaults{};

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

MemoryPool* find_pool(MemoryPoolHandle handle) noexcept {
  MemoryPool* pool = driver.pools.find(handle);
  return pool != nullptr && !pool->is_destroyed ? pool : nullptr;
}

/// The memfd behind a pool, made when it is needed.
bool open_file(MemoryPool& pool) noexcept {
  if (pool.fd >= 0) return true;
  const Header header{kHeaderMagic, pool.id, device_settings(pool.device).number};
  const auto fd = static_cast<int>(
      sys::call(SYS_memfd_create, sys::arg("simcuda-pool"), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return false;
  if (::ftruncate(fd, static_cast<off_t>(kFileBytes)) != 0 ||
      ::pwrite(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    ::close(fd);
    return false;
  }
  pool.fd = fd;
  return true;
}

MemoryPool* add_pool(int device) noexcept {
  MemoryPool* pool = driver.pools.add();
  if (pool == nullptr) return nullptr;
  static std::uint64_t count = 0;
  pool->device = device;
  pool->id = sys::now_ns() << 16 ^ static_cast<std::uint64_t>(sys::pid()) << 4 ^ ++count;
  pool->next_offset = kGranularityBytes;
  pool->access[static_cast<std::size_t>(device)] = kReadWrite;
  return pool;
}

void drop_if_unused(MemoryPool& pool) noexcept {
  if (!pool.is_destroyed || pool.allocation_count != 0) return;
  if (pool.fd >= 0) ::close(pool.fd);
  driver.pools.remove(&pool);
}

MemoryPool* default_pool_of(int device) noexcept {
  std::uint32_t& index = defaults[static_cast<std::size_t>(device)];
  if (index == 0) {
    MemoryPool* pool = add_pool(device);
    if (pool == nullptr) return nullptr;
    pool->is_default = true;
    index = driver.pools.index_of(pool) + 1;
  }
  return &driver.pools.at(index - 1);
}

MemoryPool* current_pool_of(int device) noexcept {
  const std::uint32_t index = current[static_cast<std::size_t>(device)];
  return index == 0 ? default_pool_of(device) : &driver.pools.at(index - 1);
}

/// A range of `memory`, which it takes along if there is no room.
Status publish_memory(MemoryPool& pool, Memory& memory, std::uint64_t size_bytes,
                      api::DevicePointer* address) noexcept {
  Range* range = add_range();
  const std::uint64_t mapped_bytes = round_up(size_bytes, kGranularityBytes);
  const std::uint64_t base =
      range == nullptr ? 0 : reserve_addresses(mapped_bytes, kGranularityBytes);
  std::byte* alias = base == 0 ? nullptr : map_alias(memory, mapped_bytes);
  if (alias == nullptr) {
    if (base != 0) free_addresses(base, mapped_bytes);
    drop_if_unused(memory);
    return Status::out_of_memory;
  }
  ++memory.mapping_count;
  range->alias_is_ours = true;
  range->device = pool.device;
  range->context = index_of(*current_context());
  range->memory = driver.memories.index_of(&memory);
  range->pool = driver.pools.index_of(&pool);
  for (std::size_t i = 0; i < pool.access.size(); ++i) range->access[i].store(pool.access[i]);
  range->kind = RangeKind::device;
  range->base = base;
  range->size_bytes = size_bytes;
  range->alias = alias;
  publish_range(*range);
  ++pool.allocation_count;
  pool.used_bytes += round_up(size_bytes, kUseBytes);
  pool.reserved_bytes += mapped_bytes;
  if (pool.used_bytes > pool.used_bytes_high) pool.used_bytes_high = pool.used_bytes;
  if (pool.reserved_bytes > pool.reserved_bytes_high) {
    pool.reserved_bytes_high = pool.reserved_bytes;
  }
  *address = base;
  return Status::success;
}

Status allocate(MemoryPool* pool, api::DevicePointer* address, std::uint64_t size_bytes,
                api::Stream stream) noexcept {
  if (address == nullptr || size_bytes == 0) return Status::invalid_value;
  StreamRef found;
  const Status status = find_stream(stream, found);
  if (status != Status::success) return status;
  if (const Status fault = fault_of(found.context); fault != Status::success) return fault;
  if (pool == nullptr) {
    pool = current_pool_of(driver.contexts.at(found.context).device);
    if (pool == nullptr) return Status::out_of_memory;
  }
  if (pool->is_import) return Status::invalid_value;
  if (size_bytes > device_memory_bytes()) return Status::out_of_memory;
  const std::uint64_t reserved_bytes = round_up(size_bytes, kGranularityBytes);
  if (pool->size_bytes_max != 0 && pool->reserved_bytes + reserved_bytes > pool->size_bytes_max) {
    return Status::out_of_memory;
  }
  if (!open_file(*pool)) return Status::operating_system;
  Memory* memory = nullptr;
  const Status created =
      create_part({pool->fd, pool->next_offset, reserved_bytes}, pool->device, memory);
  if (created != Status::success) return created;
  pool->next_offset += reserved_bytes;
  return publish_memory(*pool, *memory, size_bytes, address);
}

bool is_good(const PoolProperties& properties) noexcept {
  return properties.type == api::AllocationType::pinned &&
         properties.location.type == api::LocationType::device &&
         is_device(properties.location.id) &&
         (properties.handle_types == api::HandleType::none ||
          properties.handle_types == api::HandleType::posix_file_descriptor);
}

/// A value of 32 or of 64 bits.
bool read_attribute(const MemoryPool& pool, PoolAttribute attribute, void* value) noexcept {
  const auto write = [value](auto number) {
    *static_cast<decltype(number)*>(value) = number;
    return true;
  };
  switch (attribute) {
    case PoolAttribute::reuse_follow_event_dependencies:
    case PoolAttribute::reuse_allow_opportunistic:
    case PoolAttribute::reuse_allow_internal_dependencies:
      return write(pool.reuse[static_cast<std::size_t>(attribute) - 1]);
    case PoolAttribute::release_threshold:
      return write(pool.release_threshold);
    case PoolAttribute::reserved_mem_current:
      return write(pool.reserved_bytes);
    case PoolAttribute::reserved_mem_high:
      return write(pool.reserved_bytes_high);
    case PoolAttribute::used_mem_current:
      return write(pool.used_bytes);
    case PoolAttribute::used_mem_high:
      return write(pool.used_bytes_high);
  }
  return false;
}

bool write_attribute(MemoryPool& pool, PoolAttribute attribute, const void* value) noexcept {
  switch (attribute) {
    case PoolAttribute::reuse_follow_event_dependencies:
    case PoolAttribute::reuse_allow_opportunistic:
    case PoolAttribute::reuse_allow_internal_dependencies:
      pool.reuse[static_cast<std::size_t>(attribute) - 1] = *static_cast<const int*>(value);
      return true;
    case PoolAttribute::release_threshold:
      pool.release_threshold = *static_cast<const std::uint64_t*>(value);
      return true;
    case PoolAttribute::reserved_mem_high:  // can only be reset
    case PoolAttribute::used_mem_high:
      if (*static_cast<const std::uint64_t*>(value) != 0) return false;
      (attribute == PoolAttribute::used_mem_high ? pool.used_bytes_high
                                                 : pool.reserved_bytes_high) = 0;
      return true;
    case PoolAttribute::reserved_mem_current:
    case PoolAttribute::used_mem_current:
      return false;
  }
  return false;
}

Range* find_allocation(std::uint64_t address) noexcept {
  Range* range = find_range_at(address, RangeKind::device);
  return range != nullptr && range->pool != kNoRange && !range->is_being_freed ? range : nullptr;
}

/// Where the driver crashes, this does.
[[noreturn]] void crash() noexcept {
  static volatile int* volatile nowhere = nullptr;
  *nowhere = 0;
  __builtin_trap();
}

Status import_pointer(api::DevicePointer* address, MemoryPoolHandle handle,
                      const PoolPointer* data) noexcept {
  MemoryPool* pool = find_pool(handle);
  if (address == nullptr || data == nullptr || pool == nullptr || !pool->is_import) {
    return Status::invalid_value;
  }
  PointerData pointer{};
  __builtin_memcpy(static_cast<void*>(&pointer), data, sizeof pointer);
  if (pointer.magic != kPointerMagic || pointer.pool_id != pool->id || pointer.size_bytes == 0 ||
      pointer.size_bytes > kFileBytes) {
    return Status::invalid_value;
  }
  if (pointer.size_bytes > kPoolImportBytesMax) crash();
  Memory* memory = nullptr;
  const Status joined =
      join_part({pool->fd, pointer.offset_bytes, round_up(pointer.size_bytes, kGranularityBytes)},
                pool->device, pointer.account, memory);
  if (joined != Status::success) return joined;
  return publish_memory(*pool, *memory, pointer.size_bytes, address);
}

}  // namespace

void leave_pool(std::uint32_t index, std::uint64_t size_bytes) noexcept {
  MemoryPool& pool = driver.pools.at(index);
  --pool.allocation_count;
  pool.used_bytes -= round_up(size_bytes, kUseBytes);
  pool.reserved_bytes -= round_up(size_bytes, kGranularityBytes);
  drop_if_unused(pool);
}

void sweep_frees() noexcept {
  for (std::uint32_t i = 0; i < pending_count;) {
    const PendingFree& free = pending[i];
    if (device_state.slots[free.slot].completed.load() < free.end && device_seems_alive()) {
      ++i;
      continue;
    }
    Range& range = device_state.ranges[free.range];
    if (range.generation.load() == free.generation) free_range(range);
    pending[i] = pending[--pending_count];
  }
}

std::uint32_t pool_count() noexcept {
  std::uint32_t count = 0;
  driver.pools.for_each([&](const MemoryPool& pool) { count += !pool.is_default; });
  return count;
}

std::uint32_t pool_allocation_count() noexcept {
  std::uint32_t count = 0;
  driver.pools.for_each([&](const MemoryPool& pool) { count += pool.allocation_count; });
  return count;
}

MemoryPoolHandle pool_of(const Range& range) noexcept {
  if (range.pool == kNoRange) return nullptr;
  return to_handle<MemoryPoolHandle>(driver.pools, &driver.pools.at(range.pool));
}

Status cuMemPoolCreate(MemoryPoolHandle* pool, const PoolProperties* properties) {
  return enter(
      FunctionId::cuMemPoolCreate, Needs::initialized,
      [&] {
        if (pool == nullptr || properties == nullptr || !is_good(*properties)) {
          return Status::invalid_value;
        }
        MemoryPool* added = add_pool(properties->location.id);
        if (added == nullptr) return Status::out_of_memory;
        added->is_exportable = properties->handle_types == api::HandleType::posix_file_descriptor;
        added->size_bytes_max = properties->size_bytes_max;
        *pool = to_handle<MemoryPoolHandle>(driver.pools, added);
        return Status::success;
      },
      out(pool), properties);
}

Status cuMemPoolDestroy(MemoryPoolHandle pool) {
  return enter(
      FunctionId::cuMemPoolDestroy, Needs::initialized,
      [&] {
        MemoryPool* found = find_pool(pool);
        if (found == nullptr || found->is_default) return Status::invalid_value;
        // What is allocated from it lives on.
        for (std::uint32_t& index : current) {
          if (index == driver.pools.index_of(found) + 1) index = 0;
        }
        found->is_destroyed = true;
        drop_if_unused(*found);
        return Status::success;
      },
      pool);
}

Status cuMemAllocAsync(api::DevicePointer* address, std::size_t size, api::Stream stream) {
  return enter(
      FunctionId::cuMemAllocAsync, Needs::healthy,
      [&] { return allocate(nullptr, address, size, stream); }, out(address), size, stream);
}

Status cuMemAllocFromPoolAsync(api::DevicePointer* address, std::size_t size, MemoryPoolHandle pool,
                               api::Stream stream) {
  return enter(
      FunctionId::cuMemAllocFromPoolAsync, Needs::healthy,
      [&] {
        MemoryPool* found = find_pool(pool);
        return found == nullptr ? Status::invalid_value : allocate(found, address, size, stream);
      },
      out(address), size, pool, stream);
}

Status cuMemFreeAsync(api::DevicePointer address, api::Stream stream) {
  return enter(
      FunctionId::cuMemFreeAsync, Needs::context,
      [&] {
        if (find_allocation(address) == nullptr) return Status::invalid_value;
        if (pending_count == kPendingMax) return Status::out_of_memory;
        Submission submission;
        const Status status = submission.begin(stream, 1, Stops::passes);
        Range* range = find_allocation(address);  // anew: begin() may have waited without the lock
        if (range == nullptr) return Status::invalid_value;
        if (status != Status::success) {
          // A faulty context performs no work that this could stand behind.
          if (status != Status::invalid_handle) free_range(*range);
          return status;
        }
        range->is_being_freed = true;
        Op& op = submission.add(OpKind::take_away);
        op.to = {range->alias, index_of(*range), range->generation.load()};
        pending[pending_count++] = {index_of(*range), range->generation.load(),
                                    submission.stream().slot, submission.end()};
        submission.commit();
        return Status::success;
      },
      reinterpret_cast<const void*>(address), stream);
}

Status cuDeviceGetDefaultMemPool(MemoryPoolHandle* pool, api::Device device) {
  return enter(
      FunctionId::cuDeviceGetDefaultMemPool, Needs::initialized,
      [&] {
        if (pool == nullptr) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        MemoryPool* found = default_pool_of(device);
        if (found == nullptr) return Status::out_of_memory;
        *pool = to_handle<MemoryPoolHandle>(driver.pools, found);
        return Status::success;
      },
      out(pool), device);
}

Status cuDeviceGetMemPool(MemoryPoolHandle* pool, api::Device device) {
  return enter(
      FunctionId::cuDeviceGetMemPool, Needs::initialized,
      [&] {
        if (pool == nullptr) return Status::invalid_value;
        if (!is_device(device)) return Status::invalid_device;
        MemoryPool* found = current_pool_of(device);
        if (found == nullptr) return Status::out_of_memory;
        *pool = to_handle<MemoryPoolHandle>(driver.pools, found);
        return Status::success;
      },
      out(pool), device);
}

Status cuDeviceSetMemPool(api::Device device, MemoryPoolHandle pool) {
  return enter(
      FunctionId::cuDeviceSetMemPool, Needs::initialized,
      [&] {
        if (!is_device(device)) return Status::invalid_device;
        const MemoryPool* found = find_pool(pool);
        if (found == nullptr || found->device != device || found->is_import) {
          return Status::invalid_value;
        }
        current[static_cast<std::size_t>(device)] = driver.pools.index_of(found) + 1;
        return Status::success;
      },
      device, pool);
}

Status cuMemPoolGetAttribute(MemoryPoolHandle pool, PoolAttribute attribute, void* value) {
  return enter(
      FunctionId::cuMemPoolGetAttribute, Needs::initialized,
      [&] {
        sweep_frees();
        const MemoryPool* found = find_pool(pool);
        if (found == nullptr || value == nullptr || !read_attribute(*found, attribute, value)) {
          return Status::invalid_value;
        }
        return Status::success;
      },
      pool, attribute, PoolValue{attribute, value});
}

Status cuMemPoolSetAttribute(MemoryPoolHandle pool, PoolAttribute attribute, void* value) {
  return enter(
      FunctionId::cuMemPoolSetAttribute, Needs::initialized,
      [&] {
        MemoryPool* found = find_pool(pool);
        if (found == nullptr || value == nullptr || !write_attribute(*found, attribute, value)) {
          return Status::invalid_value;
        }
        return Status::success;
      },
      pool, attribute, PoolValue{attribute, value});
}

// Nothing is kept beyond its free here, so there is nothing to give back.
Status cuMemPoolTrimTo(MemoryPoolHandle pool, std::size_t kept_bytes) {
  return enter(
      FunctionId::cuMemPoolTrimTo, Needs::initialized,
      [&] {
        sweep_frees();
        return find_pool(pool) == nullptr ? Status::invalid_value : Status::success;
      },
      pool, kept_bytes);
}

Status cuMemPoolSetAccess(MemoryPoolHandle pool, const api::AccessDescriptor* descriptors,
                          std::size_t count) {
  return enter(
      FunctionId::cuMemPoolSetAccess, Needs::initialized,
      [&] {
        MemoryPool* found = find_pool(pool);
        if (found == nullptr || descriptors == nullptr || count == 0) return Status::invalid_value;
        for (std::size_t i = 0; i < count; ++i) {
          const api::Location& location = descriptors[i].location;
          if (location.type != api::LocationType::device || !is_device(location.id)) {
            return Status::invalid_device;
          }
          const bool is_own = location.id == found->device;
          if (is_own && descriptors[i].flags != api::AccessFlags::read_write) {
            return Status::invalid_device;
          }
          if (!is_own && !peer_access_possible()) return Status::invalid_device;
        }
        for (std::size_t i = 0; i < count; ++i) {
          found->access[static_cast<std::size_t>(descriptors[i].location.id)] =
              static_cast<std::uint8_t>(descriptors[i].flags);
        }
        for_each_range([&](Range& range) {
          if (range.pool != driver.pools.index_of(found) || range.is_being_freed) return;
          for (std::size_t i = 0; i < found->access.size(); ++i) {
            range.access[i].store(found->access[i]);
          }
        });
        return Status::success;
      },
      pool, Accesses{descriptors, count});
}

Status cuMemPoolGetAccess(api::AccessFlags* flags, MemoryPoolHandle pool, api::Location* location) {
  return enter(
      FunctionId::cuMemPoolGetAccess, Needs::initialized,
      [&] {
        const MemoryPool* found = find_pool(pool);
        if (flags == nullptr || found == nullptr || location == nullptr ||
            location->type != api::LocationType::device || !is_device(location->id)) {
          return Status::invalid_value;
        }
        *flags =
            static_cast<api::AccessFlags>(found->access[static_cast<std::size_t>(location->id)]);
        return Status::success;
      },
      out(flags), pool, static_cast<const api::Location*>(location));
}

Status cuMemPoolExportToShareableHandle(void* shareable, MemoryPoolHandle pool,
                                        api::HandleType type, unsigned long long flags) {
  return enter(
      FunctionId::cuMemPoolExportToShareableHandle, Needs::initialized,
      [&] {
        MemoryPool* found = find_pool(pool);
        if (shareable == nullptr || found == nullptr || flags != 0 || found->is_import ||
            !found->is_exportable || type != api::HandleType::posix_file_descriptor) {
          return Status::invalid_value;
        }
        if (!open_file(*found)) return Status::operating_system;
        const int fd = ::fcntl(found->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) return Status::operating_system;
        found->is_exported = true;
        *static_cast<int*>(shareable) = fd;
        return Status::success;
      },
      out(static_cast<const int*>(shareable)), pool, type, flags);
}

Status cuMemPoolImportFromShareableHandle(MemoryPoolHandle* pool, void* shareable,
                                          api::HandleType type, unsigned long long flags) {
  return enter(
      FunctionId::cuMemPoolImportFromShareableHandle, Needs::initialized,
      [&] {
        if (pool == nullptr || flags != 0 || type != api::HandleType::posix_file_descriptor) {
          return Status::invalid_value;
        }
        const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
        Header header{};
        if (::pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
            header.magic != kHeaderMagic) {
          return Status::invalid_value;
        }
        const int device = ordinal_of(header.device_number);
        if (device < 0) return Status::invalid_device;
        MemoryPool* added = add_pool(device);
        if (added == nullptr) return Status::out_of_memory;
        added->is_import = true;
        added->id = header.id;
        added->fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (added->fd < 0) {
          driver.pools.remove(added);
          return Status::operating_system;
        }
        *pool = to_handle<MemoryPoolHandle>(driver.pools, added);
        return Status::success;
      },
      out(pool), reinterpret_cast<std::intptr_t>(shareable), type, flags);
}

Status cuMemPoolExportPointer(PoolPointer* data, api::DevicePointer address) {
  return enter(
      FunctionId::cuMemPoolExportPointer, Needs::initialized,
      [&] {
        const Range* range = find_allocation(address);
        if (data == nullptr || range == nullptr) return Status::invalid_value;
        // Not before the pool was, as of driver 580.
        if (!driver.pools.at(range->pool).is_exported) return Status::invalid_value;
        const Memory& memory = driver.memories.at(range->memory);
        const PointerData pointer{kPointerMagic, driver.pools.at(range->pool).id,
                                  memory.offset_bytes, range->size_bytes,
                                  account_entry(memory.account)};
        *data = {};
        __builtin_memcpy(data, &pointer, sizeof pointer);
        return Status::success;
      },
      static_cast<const void*>(data), reinterpret_cast<const void*>(address));
}

Status cuMemPoolImportPointer(api::DevicePointer* address, MemoryPoolHandle pool,
                              PoolPointer* data) {
  return enter(
      FunctionId::cuMemPoolImportPointer, Needs::healthy,
      [&] { return import_pointer(address, pool, data); }, out(address), pool,
      static_cast<const void*>(data));
}

}  // namespace vramlink::simcuda
