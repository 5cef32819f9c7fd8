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
