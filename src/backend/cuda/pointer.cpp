// See pointer.hpp.
#include "backend/cuda/pointer.hpp"

#include <array>
#include <string>

#include "os/readable.hpp"

namespace vramlink::cuda {
namespace {

using api::PointerAttribute;
using api::Status;

Error refused(const OpenDevice& device, CopySide side, std::string reason, const char* remedy) {
  return Error(Code::invalid_argument, "copy")
      .about(side == CopySide::source ? "source" : "target")
      .because(std::move(reason))
      .remedy(remedy)
      .device(device.id().uuid);
}

/// Whether a mapping of another GPU's memory lets this device take part.
bool reaches(const OpenDevice& device, CopySide side, const std::byte* address) noexcept {
  const api::Location here{api::LocationType::device, device.ordinal()};
  unsigned long long flags = 0;
  const Status status = device.driver().mem_get_access(&flags, &here, device_pointer(address));
  const auto needed =
      side == CopySide::source ? api::AccessFlags::read : api::AccessFlags::read_write;
  const auto mask = static_cast<unsigned long long>(needed);
  return status == Status::success && (flags & mask) == mask;
}

/// Registered memory is the program's, and has no flags of an allocation.
bool is_of_driver(const Driver& driver, const std::byte* address) noexcept {
  unsigned flags = 0;
  return driver.mem_host_get_flags(&flags, const_cast<std::byte*>(address)) == Status::success;
}

/// Also fills in how it can be exported.
MemoryType type_of_device_memory(const Driver& driver, const std::byte* address,
                                 MemoryInfo& info) noexcept {
  void* pool = nullptr;
  unsigned legacy = 0;
  auto handle_types = api::HandleType::none;
  std::array attributes{PointerAttribute::mempool_handle, PointerAttribute::is_legacy_ipc_capable,
                        PointerAttribute::allowed_handle_types};
  std::array<void*, attributes.size()> values{&pool, &legacy, &handle_types};
  if (driver.pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                    values.data(), device_pointer(address)) == Status::success) {
    info.exports_legacy_handle = legacy != 0;
  }
  if (pool != nullptr) return MemoryType::pool;  // its own way is the pool's export
  api::MemoryHandle handle = 0;
  if (driver.mem_retain_allocation_handle(&handle, const_cast<std::byte*>(address)) !=
      Status::success) {
    return MemoryType::device;
  }
  driver.report("cuMemRelease", driver.mem_release(handle));
  const auto types = static_cast<unsigned>(handle_types);
  info.exports_descriptor =
      (types & static_cast<unsigned>(api::HandleType::posix_file_descriptor)) != 0;
  return info.exports_descriptor ? MemoryType::mapped : MemoryType::mapped_private;
}

}  // namespace

PointerInfo describe(const Driver& driver, const std::byte* address) noexcept {
  auto type = api::MemoryType::none;
  unsigned managed = 0;
  PointerInfo info;
  api::DevicePointer start = 0;
  std::size_t range_bytes = 0;
  std::array attributes{PointerAttribute::memory_type,        PointerAttribute::is_managed,
                        PointerAttribute::device_ordinal,     PointerAttribute::context,
                        PointerAttribute::buffer_id,          PointerAttribute::range_size,
                        PointerAttribute::range_start_address};
  std::array<void*, attributes.size()> values{
      &type, &managed, &info.device, &info.context, &info.buffer_id, &range_bytes, &start};
  const Status status =
      driver.pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                    values.data(), device_pointer(address));
  if (status != Status::success) return {.status = status};
  if (managed != 0) {
    info.kind = PointerKind::managed;
  } else if (type == api::MemoryType::device) {
    info.kind = PointerKind::device;
  } else if (type == api::MemoryType::host) {
    info.kind = PointerKind::pinned;
  }
  const api::DevicePointer at = device_pointer(address);
  if (start != 0 && at >= start && at - start <= range_bytes) {
    info.offset_bytes = at - start;
    info.left_bytes = range_bytes - info.offset_bytes;
  }
  return info;
}

Result<MemoryInfo> inspect(const Driver& driver, const std::byte* address) {
  const PointerInfo info = describe(driver, address);
  VRAMLINK_CHECK(driver.check("cuPointerGetAttributes", info.status));
  MemoryInfo found;
  found.offset_bytes = info.offset_bytes;
  found.size_bytes = info.left_bytes == 0 ? 0 : info.offset_bytes + info.left_bytes;
  if (info.kind != PointerKind::unknown && info.device >= 0) {
    found.device = id_of(driver, info.device);
  }
  switch (info.kind) {
    case PointerKind::unknown:
      found.device = DeviceId::host();
      found.type = os::is_readable(address, 1) ? MemoryType::host : MemoryType::nothing;
      break;
    case PointerKind::pinned:
      found.device = DeviceId::host();
      found.type = is_of_driver(driver, address) ? MemoryType::pinned : MemoryType::registered;
      break;
    case PointerKind::managed:
      found.type = MemoryType::managed;
      break;
    case PointerKind::device:
      found.type = type_of_device_memory(driver, address, found);
      break;
  }
  return found;
}

Result<PointerInfo> check_copy_side(const OpenDevice& device, CopySide side,
                                    const std::byte* address, std::uint64_t size_bytes,
                                    bool pageable, bool across) {
  const Driver& driver = device.driver();
  PointerInfo info = describe(driver, address);
  // Of what it does not know the driver says nothing, and that with success.
  if (info.status != Status::success) {
    return driver.error("cuPointerGetAttributes", info.status);
  }
  if (info.left_bytes != 0 && info.left_bytes < size_bytes) {
    return refused(device, side,
                   "the memory ends after " + std::to_string(info.left_bytes) + " of " +
                       std::to_string(size_bytes) + " bytes",
                   "pass memory of the frame's size");
  }
  switch (info.kind) {
    case PointerKind::pinned:
      return info;
    case PointerKind::device:
      info.reachable = info.device == device.ordinal() || reaches(device, side, address);
      if (info.reachable || across) return info;
      return refused(device, side,
                     "it is memory of another GPU, " + to_string(id_of(driver, info.device)),
                     "copy it to the channel's GPU first, or open the channel on that one");
    case PointerKind::managed:
      return refused(device, side, "it is managed memory, which may move while it is copied",
                     "use memory of cudaMalloc, or host memory that is registered");
    case PointerKind::unknown:
      break;
  }
  if (!os::is_readable(address, size_bytes)) {
    return refused(device, side, "nothing is there: it was freed, or never allocated",
                   "keep the memory until the copy is complete");
  }
  if (pageable) return info;
  return refused(device, side,
                 "it is host memory that the driver does not know, and a stream would have to wait "
                 "for the CPU",
                 "register it (cudaHostRegister), or synchronise and pass "
                 "StreamView::already_complete()");
}

}  // namespace vramlink::cuda
