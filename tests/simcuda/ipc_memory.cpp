// Memory of cuMemAlloc under handles of 64 bytes, which other processes open.
#include <unistd.h>

#include <cstring>

#include "devices.hpp"
#include "ipc_client.hpp"
#include "memory.hpp"
#include "ranges.hpp"
#include "sys.hpp"

namespace vramlink::simcuda {
namespace {

/// What a range is the mapping of, as long as it lives.
struct Import {
  std::uint64_t origin = 0;
  std::uint64_t tag = 0;
  std::uint32_t generation = 0;  ///< of the range
  std::uint32_t open_count = 0;
};
std::array<Import, kRangeMax> imports;

Import& import_of(const Range& range) noexcept { return imports[index_of(range)]; }

bool is_mapping_of(const Range& range, const IpcHandle& handle) noexcept {
  const Import& import = import_of(range);
  return range.is_import && import.generation == range.generation.load() &&
         import.origin == handle.origin && import.tag == handle.tag;
}

/// The mapping that the current context has already; invalid_context if another context of the same
/// device has one, for each device of a process opens a memory in one context.
Status find_mapping(const IpcHandle& handle, Range*& found) noexcept {
  const Context& mine = *current_context();
  Status status = Status::success;
  for_each_range([&](Range& range) {
    if (!is_mapping_of(range, handle)) return;
    if (range.context == index_of(mine)) {
      found = &range;
    } else if (driver.contexts.at(range.context).device == mine.device) {
      status = Status::invalid_context;
    }
  });
  return status;
}

Status map_import(const IpcHandle& handle, Memory& memory, Range*& range) noexcept {
  const Context& context = *current_context();
  if (handle.size_bytes == 0 || handle.size_bytes > memory.size_bytes) {
    return Status::invalid_handle;
  }
  if (memory.device != context.device && !peer_access_possible()) {
    return Status::peer_access_unsupported;
  }
  range = add_range();
  const std::uint64_t mapped_bytes = (handle.size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uint64_t base =
      range == nullptr ? 0 : reserve_addresses(mapped_bytes, kGranularityBytes);
  std::byte* alias = base == 0 ? nullptr : map_alias(memory, mapped_bytes);
  if (alias == nullptr) {
    if (base != 0) free_addresses(base, mapped_bytes);
    return Status::map_failed;
  }
  memory.properties.requested_handle_types = api::HandleType::none;
  ++memory.mapping_count;
  range->kind = RangeKind::device;
  range->base = base;
  range->size_bytes = handle.size_bytes;
  range->alias = alias;
  range->alias_is_ours = true;
  range->is_import = true;
  // Of a device that is hidden from this process the driver says that it is the importer's.
  range->device = memory.device < 0 ? context.device : memory.device;
  range->context = index_of(context);
  range->memory = driver.memories.index_of(&memory);
  range->access[static_cast<std::size_t>(context.device)].store(kReadWrite);
  publish_range(*range);
  import_of(*range) = {handle.origin, handle.tag, range->generation.load(), 0};
  return Status::success;
}

Status open_memory(const IpcHandle& handle, Range*& range) noexcept {
  const int fd = fetch(handle);
  if (fd < 0) return Status::invalid_handle;
  Memory* memory = nullptr;
  Status status = import_memory(fd, memory);
  ::close(fd);
  if (status != Status::success) {
    return status == Status::unknown ? Status::invalid_handle : status;
  }
  status = map_import(handle, *memory, range);
  if (status != Status::success) drop_if_unused(*memory);
  return status;
}

}  // namespace

Status cuIpcGetMemHandle(IpcMemoryHandle* handle, api::DevicePointer address) {
  return enter(
      FunctionId::cuIpcGetMemHandle, Needs::healthy,
      [&] {
        if (handle == nullptr || find_range(address, 1) == nullptr) return Status::invalid_value;
        const Status status = open_ipc();
        if (status != Status::success) return status;
        const Range* range = find_range(address, 1);  // open_ipc() may have waited without the lock
        if (range == nullptr || !is_legacy_ipc_capable(*range)) return Status::invalid_value;
        Memory& memory = driver.memories.at(range->memory);
        if (memory.exported == kNoExport) memory.exported = offer(memory.fd);
        if (memory.exported == kNoExport) return Status::out_of_memory;
        const IpcHandle made = handle_of(IpcUse::memory, memory.exported, range->size_bytes);
        std::memcpy(handle->reserved, &made, sizeof made);
        return Status::success;
      },
      out(handle), reinterpret_cast<const void*>(address));
}

Status cuIpcOpenMemHandle_v2(api::DevicePointer* address, IpcMemoryHandle handle, unsigned flags) {
  return enter(
      FunctionId::cuIpcOpenMemHandle_v2, Needs::healthy,
      [&] {
        if (address == nullptr || flags != kIpcLazyPeerAccess) return Status::invalid_value;
        IpcHandle wanted;
        Status status = read_handle(handle.reserved, IpcUse::memory, wanted);
        if (status != Status::success) return status;
        Range* range = nullptr;
        status = find_mapping(wanted, range);
        if (status == Status::success && range == nullptr) status = open_memory(wanted, range);
        if (status != Status::success) return status;
        ++import_of(*range).open_count;
        *address = range->base;
        return Status::success;
      },
      out(address), handle, flags);
}

Status cuIpcCloseMemHandle(api::DevicePointer address) {
  return enter(
      FunctionId::cuIpcCloseMemHandle, Needs::context,
      [&] {
        Range* range = find_range_at(address, RangeKind::device);
        if (range == nullptr || !range->is_import) return Status::invalid_value;
        const Status fault = fault_of(range->context);
        // As cuMemUnmap: does not wait for work that uses the mapping, which faults.
        if (--import_of(*range).open_count == 0) free_range(*range);
        return fault;
      },
      reinterpret_cast<const void*>(address));
}

}  // namespace vramlink::simcuda
