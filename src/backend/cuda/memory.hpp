// GPU memory that goes to other processes as a file descriptor, and such memory of others.
//
// | handle        | closed by        | depends on                                                 |
// |---------------|------------------|------------------------------------------------------------|
// | Allocation    | cuMemRelease     | the context; a mapping keeps the memory on its own         |
// | Reservation   | cuMemAddressFree | the context                                                |
// | MappedRange   | cuMemUnmap       | its Reservation                                            |
// | CudaMemory,   | OwnWork, once    | the OpenDevice, which it holds                             |
// | CudaImport    | no copy of ours  |                                                            |
// |               | can use it       |                                                            |
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/cuda/open_device.hpp"

namespace vramlink::cuda {

inline constexpr char kMemRelease[] = "cuMemRelease";

/// Traits of a range of addresses.
template <api::Status (*api::Functions::*kClose)(api::DevicePointer, std::size_t),
          const char* kOperation>
struct RangeTraits {
  struct Raw {
    const PrimaryContext* context = nullptr;
    api::DevicePointer address = 0;
    std::size_t size_bytes = 0;
    friend bool operator==(const Raw&, const Raw&) noexcept = default;
  };
  static constexpr Raw kEmpty{};
  static void close(Raw raw) noexcept {
    if (os::in_forked_child()) return;
    const ContextScope scope(*raw.context);
    const Driver& driver = raw.context->driver();
    driver.report(kOperation, (driver.*kClose)(raw.address, raw.size_bytes));
  }
};

inline constexpr char kMemUnmap[] = "cuMemUnmap";
inline constexpr char kMemAddressFree[] = "cuMemAddressFree";

using Allocation =
    base::UniqueHandle<HandleTraits<api::MemoryHandle, &api::Functions::mem_release, kMemRelease>>;
using Reservation =
    base::UniqueHandle<RangeTraits<&api::Functions::mem_address_free, kMemAddressFree>>;
using MappedRange = base::UniqueHandle<RangeTraits<&api::Functions::mem_unmap, kMemUnmap>>;

/// Memory at addresses of its own.
struct DeviceMapping {
  Reservation reservation;
  MappedRange mapped;

  [[nodiscard]] api::DevicePointer address() const noexcept { return mapped.get().address; }
  [[nodiscard]] std::byte* data() const noexcept {
    return reinterpret_cast<std::byte*>(mapped.get().address);
  }
};

/// The least multiple of `unit_bytes` that holds so many. Codes: invalid_argument (0 bytes),
/// out_of_memory (more than memory can have).
[[nodiscard]] Result<std::uint64_t> rounded_size(const OpenDevice& device, std::uint64_t size_bytes,
                                                 std::uint64_t unit_bytes);
/// What the driver said to an allocation; of memory that is not there with the numbers.
[[nodiscard]] Error allocation_error(const OpenDevice& device, const char* call, api::Status status,
                                     std::uint64_t wanted_bytes);
/// What another process had there before is not shown to ours. The context is current; waits for
/// the GPU. Codes: driver, timed_out where a GPU stands still.
[[nodiscard]] Result<void> zero(OpenDevice& device, api::DevicePointer address,
                                std::uint64_t size_bytes);

class CudaMemory final : public backend::Memory {
 public:
  /// The context is current. Codes: as Backend::allocate, and timed_out where a GPU that stands
  /// still does not zero the memory.
  [[nodiscard]] static Result<std::unique_ptr<CudaMemory>> allocate(
      std::shared_ptr<OpenDevice> device, std::uint64_t size_bytes);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  [[nodiscard]] std::byte* data() const noexcept override { return parts_.mapping.data(); }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  [[nodiscard]] Result<os::UniqueFd> export_memory() const override;

 private:
  struct Parts {
    Allocation allocation;  ///< for exports
    DeviceMapping mapping;
  };
  CudaMemory(std::shared_ptr<OpenDevice> device, Parts parts, std::uint64_t size_bytes) noexcept
      : device_(std::move(device)), parts_(std::move(parts)), size_bytes_(size_bytes) {}

  std::shared_ptr<OpenDevice> device_;
  Parts parts_;
  std::uint64_t size_bytes_;
};

class CudaImport final : public backend::ImportedMemory {
 public:
  /// The context is current. Codes: as Backend::import_memory.
  [[nodiscard]] static Result<std::unique_ptr<CudaImport>> import(
      std::shared_ptr<OpenDevice> device, os::UniqueFd fd, std::uint64_t size_bytes,
      os::Access access);
  ~CudaImport() override;
  CudaImport(const CudaImport&) = delete;
  CudaImport& operator=(const CudaImport&) = delete;

  [[nodiscard]] std::byte* data() const noexcept override { return mapping_.data(); }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept override { return size_bytes_; }

 private:
  CudaImport(std::shared_ptr<OpenDevice> device, DeviceMapping mapping,
             std::uint64_t size_bytes) noexcept
      : device_(std::move(device)), mapping_(std::move(mapping)), size_bytes_(size_bytes) {}

  std::shared_ptr<OpenDevice> device_;
  DeviceMapping mapping_;
  std::uint64_t size_bytes_;
};

}  // namespace vramlink::cuda
