// See handle_memory.hpp.
#include "backend/cuda/handle_memory.hpp"

#include <chrono>
#include <cstring>
#include <string>

#include <vramlink/version.hpp>

#include "backend/cuda/memory.hpp"
#include "backend/cuda/pointer.hpp"
#include "backend/memory_handle.hpp"
#include "base/checked.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {
namespace {

using api::Status;

constexpr const char* kImport = "open memory handle";
/// A handle stands for a whole block of the driver, which has others' memory in it where less than
/// this is asked for.
constexpr std::uint64_t kBlockBytes = std::uint64_t{2} << 20;

Error not_a_handle(const char* reason) { return Error(Code::corrupt, kImport).because(reason); }

/// What the peer's segment says, checked.
Result<backend::MemoryHandle> read_handle(os::UniqueFd fd, std::uint64_t size_bytes) {
  const os::SharedSegment segment = VRAMLINK_TRY(os::SharedSegment::adopt(
      std::move(fd), sizeof(backend::MemoryHandle), sizeof(backend::MemoryHandle), os::kFullSeals));
  const os::Mapping mapping = VRAMLINK_TRY(segment.map(os::Access::read_only));
  backend::MemoryHandle handle{};
  std::memcpy(&handle, mapping.data(), sizeof(handle));
  if (handle.magic != backend::kMemoryHandleMagic) return not_a_handle("its magic is another");
  if (handle.wire != kWireVersion) return not_a_handle("its wire version is another");
  const std::uint64_t allocation = handle.allocation_bytes;
  if (allocation > backend::kMemoryBytesMax || handle.offset_bytes > allocation ||
      size_bytes > allocation - handle.offset_bytes) {
    return not_a_handle("the slots do not fit the memory that it names");
  }
  if (handle.offset_bytes % wire::kPageBytes != 0) return not_a_handle("its offset is uneven");
  return handle;
}

Error cannot_open(const OpenDevice& device, Status status) {
  Error cause = device.driver().error("cuIpcOpenMemHandle", status);
  if (status == Status::out_of_memory) return cause;
  return Error(Code::unsupported, kImport)
      .about(to_string(device.id()))
      .because("the driver does not open the publisher's handle here: " + cause.facts()->reason)
      .remedy(
          "subscribe on the publisher's GPU and in its pid namespace, or publish without legacy "
          "handles")
      .device(device.id().uuid)
      .from(Origin::driver, static_cast<std::int32_t>(status));
}

}  // namespace

Result<std::unique_ptr<HandleMemory>> HandleMemory::allocate(std::shared_ptr<OpenDevice> device,
                                                             std::uint64_t size_bytes) {
  const std::uint64_t rounded = VRAMLINK_TRY(rounded_size(*device, size_bytes, kBlockBytes));
  api::DevicePointer address = 0;
  if (const Status status = device->driver().mem_alloc(&address, rounded);
      status != Status::success) {
    return allocation_error(*device, "cuMemAlloc", status, size_bytes);
  }
  Block block({device->context().get(), address});
  std::unique_ptr<HandleMemory> memory(
      new HandleMemory(std::move(device), std::move(block), size_bytes));
  VRAMLINK_CHECK(zero(*memory->device_, address, rounded));
  VRAMLINK_CHECK(memory->make_handle());
  return memory;
}

Result<void> HandleMemory::make_handle() {
  const Driver& driver = device_->driver();
  api::IpcMemoryHandle handle{};
  if (const Status status = driver.ipc_get_mem_handle(&handle, block_.get().value);
      status != Status::success) {
    Error cause = driver.error("cuIpcGetMemHandle", status);
    return Error(Code::unsupported, "make memory handle")
        .about(to_string(device_->id()))
        .because("the driver has no handle for memory of this GPU: " + cause.facts()->reason)
        .remedy("run `vramlink doctor`, or use the host")
        .device(device_->id().uuid)
        .from(Origin::driver, static_cast<std::int32_t>(status));
  }
  const PointerInfo info = describe(driver, data());
  VRAMLINK_CHECK(driver.check("cuPointerGetAttributes", info.status));
  backend::MemoryHandle written{};
  written.magic = backend::kMemoryHandleMagic;
  written.wire = kWireVersion;
  // 0, as the block is ours alone; but what a handle stands for is the driver's to say.
  written.offset_bytes = info.offset_bytes;
  written.allocation_bytes = info.offset_bytes + info.left_bytes;
  static_assert(sizeof(written.handle) == sizeof(handle));
  std::memcpy(written.handle.data(), &handle, sizeof(handle));
  handle_ =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-handle", sizeof(backend::MemoryHandle)));
  {
    const os::Mapping mapping = VRAMLINK_TRY(handle_.map(os::Access::read_write));
    std::memcpy(mapping.data(), &written, sizeof(written));
  }
  return handle_.add_seals(os::kFullSeals);
}

Result<os::UniqueFd> HandleMemory::export_memory() const { return os::duplicate(handle_.fd()); }

Result<std::unique_ptr<HandleImport>> HandleImport::import(std::shared_ptr<OpenDevice> device,
                                                           os::UniqueFd fd,
                                                           std::uint64_t size_bytes) {
  const backend::MemoryHandle sent = VRAMLINK_TRY(read_handle(std::move(fd), size_bytes));
  api::IpcMemoryHandle handle{};
  std::memcpy(&handle, sent.handle.data(), sizeof(handle));
  const Driver& driver = device->driver();
  api::DevicePointer base = 0;
  const Status status = driver.ipc_open_mem_handle(&base, handle, api::kIpcLazyPeerAccess);
  if (status != Status::success) return cannot_open(*device, status);
  OpenHandle opened({device->context().get(), base});
  auto* const first = reinterpret_cast<std::byte*>(base);
  const PointerInfo info = describe(driver, first);
  VRAMLINK_CHECK(driver.check("cuPointerGetAttributes", info.status));
  if (info.kind != PointerKind::device) return not_a_handle("it is no memory of a GPU");
  if (info.device != device->ordinal()) {
    return Error(Code::unsupported, kImport)
        .about(to_string(device->id()))
        .because("the memory lives on " + to_string(id_of(driver, info.device)) +
                 ", and a legacy handle is opened on the memory's own GPU alone")
        .remedy("subscribe on the publisher's GPU")
        .device(device->id().uuid);
  }
  if (info.left_bytes < sent.offset_bytes || info.left_bytes - sent.offset_bytes < size_bytes) {
    return not_a_handle("the memory behind it is smaller than it says");
  }
  std::byte* const data = first + sent.offset_bytes;
  return std::unique_ptr<HandleImport>(
      new HandleImport(std::move(device), std::move(opened), data, size_bytes));
}

HandleImport::~HandleImport() { device_->own_work().destroy_later(std::move(opened_)); }

}  // namespace vramlink::cuda
