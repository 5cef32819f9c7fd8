// See memory.hpp.
#include "backend/cuda/memory.hpp"

#include <chrono>
#include <string>

#include "base/checked.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {
namespace {

using api::Status;

/// Maps `handle` at new addresses; nobody may access them yet.
Result<DeviceMapping> map(const OpenDevice& device, api::MemoryHandle handle,
                          std::uint64_t mapped_bytes, Status& map_status) {
  const Driver& driver = device.driver();
  const PrimaryContext* context = device.context().get();
  DeviceMapping made;
  api::DevicePointer address = 0;
  VRAMLINK_CHECK(driver.check("cuMemAddressReserve",
                              driver.mem_address_reserve(&address, mapped_bytes, 0, 0, 0)));
  made.reservation.reset({context, address, mapped_bytes});
  map_status = driver.mem_map(address, mapped_bytes, 0, handle, 0);
  VRAMLINK_CHECK(driver.check("cuMemMap", map_status));
  made.mapped.reset({context, address, mapped_bytes});
  return made;
}

Status set_access(const OpenDevice& device, const DeviceMapping& mapping, os::Access access) {
  const api::AccessDescriptor descriptor{
      {api::LocationType::device, device.ordinal()},
      access == os::Access::read_only ? api::AccessFlags::read : api::AccessFlags::read_write};
  return device.driver().mem_set_access(mapping.address(), mapping.mapped.get().size_bytes,
                                        &descriptor, 1);
}

Error with_numbers(const OpenDevice& device, Error error, std::uint64_t wanted_bytes) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (device.driver().mem_get_info(&free_bytes, &total_bytes) != Status::success) free_bytes = 0;
  return std::move(error)
      .about(to_string(device.id()))
      .remedy("use fewer or smaller slots, or free GPU memory; wanted " +
              std::to_string(wanted_bytes >> 20) + " MiB, free " +
              std::to_string(free_bytes >> 20) + " MiB")
      .numbers(wanted_bytes, free_bytes)
      .device(device.id().uuid);
}

Error corrupt(const char* reason, std::uint64_t size_bytes) {
  return Error(Code::corrupt, "import GPU memory").because(reason).numbers(size_bytes, 0);
}

/// What the driver says of arguments that are wrong, which are the peer's here. Driver 580 says
/// unknown to a descriptor that is no memory, and not_supported to a size that is not the memory's.
bool is_refusal(Status status) noexcept {
  return status == Status::invalid_value || status == Status::invalid_handle ||
         status == Status::not_supported || status == Status::unknown;
}

Error unreachable(const OpenDevice& device, const api::AllocationProperties& properties,
                  Status status) {
  const Driver& driver = device.driver();
  const DeviceId owner = id_of(driver, properties.location.id);
  int can = 0;
  static_cast<void>(driver.device_can_access_peer(&can, device.ordinal(), properties.location.id));
  const Error cause = driver.error("cuMemSetAccess", status);
  return Error(Code::unsupported, "import GPU memory")
      .about(to_string(device.id()))
      .because("this GPU cannot reach the memory, which lives on " +
               (owner.is_host() ? "one that is not visible here" : to_string(owner)) +
               (can != 0 ? "" : ", and the driver offers no peer access between the two") + ": " +
               cause.facts()->reason)
      .remedy("subscribe on the publisher's GPU")
      .device(device.id().uuid)
      .from(Origin::driver, static_cast<std::int32_t>(status));
}

}  // namespace

Result<std::uint64_t> rounded_size(const OpenDevice& device, std::uint64_t size_bytes,
                                   std::uint64_t unit_bytes) {
  if (size_bytes == 0) {
    return Error(Code::invalid_argument, "allocate GPU memory").because("0 bytes were asked for");
  }
  const auto rounded = base::checked_round_up(size_bytes, unit_bytes);
  if (rounded && *rounded <= backend::kMemoryBytesMax) return *rounded;
  return with_numbers(
      device,
      Error(Code::out_of_memory, "allocate GPU memory").because("no GPU has that much memory"),
      size_bytes);
}

Error allocation_error(const OpenDevice& device, const char* call, Status status,
                       std::uint64_t wanted_bytes) {
  Error error = device.driver().error(call, status);
  if (status != Status::out_of_memory) return error;
  return with_numbers(device, std::move(error), wanted_bytes);
}

Result<void> zero(OpenDevice& device, api::DevicePointer address, std::uint64_t size_bytes) {
  /// It runs at terabytes a second; longer is a GPU that stands still.
  constexpr std::chrono::seconds kWait{10};
  const api::Stream stream = device.scratch_stream();
  VRAMLINK_CHECK(device.driver().check(
      "cuMemsetD8Async", device.driver().memset_d8_async(address, 0, size_bytes, stream)));
  return device.finish(stream, Deadline::after(kWait));
}

Result<std::unique_ptr<CudaMemory>> CudaMemory::allocate(std::shared_ptr<OpenDevice> device,
                                                         std::uint64_t size_bytes) {
  const std::uint64_t rounded =
      VRAMLINK_TRY(rounded_size(*device, size_bytes, device->granularity_bytes()));
  const Driver& driver = device->driver();
  const api::AllocationProperties properties = device->allocation_properties();
  api::MemoryHandle handle = 0;
  if (const Status status = driver.mem_create(&handle, rounded, &properties, 0);
      status != Status::success) {
    return allocation_error(*device, "cuMemCreate", status, size_bytes);
  }
  Parts parts;
  parts.allocation.reset({device->context().get(), handle});
  Status status{};
  parts.mapping = VRAMLINK_TRY(map(*device, handle, rounded, status));
  VRAMLINK_CHECK(
      driver.check("cuMemSetAccess", set_access(*device, parts.mapping, os::Access::read_write)));
  const api::DevicePointer address = parts.mapping.address();
  std::unique_ptr<CudaMemory> memory(
      new CudaMemory(std::move(device), std::move(parts), size_bytes));
  VRAMLINK_CHECK(zero(*memory->device_, address, rounded));
  return memory;
}

CudaMemory::~CudaMemory() { device_->own_work().destroy_later(std::move(parts_)); }

Result<os::UniqueFd> CudaMemory::export_memory() const {
  const ContextScope scope(*device_->context());
  VRAMLINK_CHECK(scope.entered());
  const Driver& driver = device_->driver();
  int fd = -1;
  VRAMLINK_CHECK(driver.check(
      "cuMemExportToShareableHandle",
      driver.mem_export_to_shareable_handle(&fd, parts_.allocation.get().value,
                                            api::HandleType::posix_file_descriptor, 0)));
  const os::UniqueFd exported(fd);
  // The driver does not promise that a program started later does not inherit it.
  return os::duplicate(exported.get());
}

Result<std::unique_ptr<CudaImport>> CudaImport::import(std::shared_ptr<OpenDevice> device,
                                                       os::UniqueFd fd, std::uint64_t size_bytes,
                                                       os::Access access) {
  const auto rounded = base::checked_round_up(size_bytes, device->granularity_bytes());
  if (size_bytes == 0 || !rounded || *rounded > backend::kMemoryBytesMax) {
    return corrupt("the peer names a size that memory cannot have", size_bytes);
  }
  const Driver& driver = device->driver();
  api::MemoryHandle handle = 0;
  const Status imported = driver.mem_import_from_shareable_handle(
      &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get())),
      api::HandleType::posix_file_descriptor);
  if (is_refusal(imported)) return corrupt("what the peer sent is no memory of a GPU", size_bytes);
  VRAMLINK_CHECK(driver.check("cuMemImportFromShareableHandle", imported));
  const Allocation allocation({device->context().get(), handle});
  fd.reset();  // the handle keeps the memory
  api::AllocationProperties properties{};
  VRAMLINK_CHECK(driver.check("cuMemGetAllocationPropertiesFromHandle",
                              driver.mem_get_allocation_properties(&properties, handle)));
  if (properties.location.type != api::LocationType::device) {
    return corrupt("the peer's memory does not live on a GPU", size_bytes);
  }
  Status map_status = Status::success;
  Result<DeviceMapping> mapping = map(*device, handle, *rounded, map_status);
  if (is_refusal(map_status)) {
    return corrupt("the peer names another size than the memory has", size_bytes);
  }
  if (!mapping) return mapping.error();
  const Status granted = set_access(*device, *mapping, access);
  if (granted != Status::success) {
    if (granted == Status::out_of_memory) return driver.error("cuMemSetAccess", granted);
    return unreachable(*device, properties, granted);
  }
  return std::unique_ptr<CudaImport>(
      new CudaImport(std::move(device), *std::move(mapping), size_bytes));
}

CudaImport::~CudaImport() { device_->own_work().destroy_later(std::move(mapping_)); }

}  // namespace vramlink::cuda
