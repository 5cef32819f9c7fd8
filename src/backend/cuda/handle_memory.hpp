// GPU memory that goes to other processes by the driver's older handles (cuIpcGetMemHandle), for
// GPUs whose memory cannot be exported as a descriptor. docs/legacy_handles.md says what it costs.
//
// | handle        | closed by            | depends on                                             |
// |---------------|----------------------|--------------------------------------------------------|
// | Block         | cuMemFree            | the context; importers keep the memory on their own    |
// | OpenHandle    | cuIpcCloseMemHandle  | the context                                            |
// | HandleMemory  | its Block            | the OpenDevice, which it holds                         |
// | HandleImport  | OwnWork, once no     | the OpenDevice, which it holds                         |
// |               | copy of ours uses it |                                                        |
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/cuda/open_device.hpp"
#include "os/shared_segment.hpp"

namespace vramlink::cuda {

inline constexpr char kMemFree[] = "cuMemFree";
inline constexpr char kIpcCloseMemHandle[] = "cuIpcCloseMemHandle";

using Block =
    base::UniqueHandle<HandleTraits<api::DevicePointer, &api::Functions::mem_free, kMemFree>>;
using OpenHandle = base::UniqueHandle<
    HandleTraits<api::DevicePointer, &api::Functions::ipc_close_mem_handle, kIpcCloseMemHandle>>;

class HandleMemory final : public backend::Memory {
 public:
  /// The context is current. Codes: as CudaMemory::allocate, and unsupported where the driver has
  /// no handle for the memory.
  [[nodiscard]] static Result<std::unique_ptr<HandleMemory>> allocate(
      std::shared_ptr<OpenDevice> device, std::uint64_t size_bytes);
  /// Waits for all work of the device: cuMemFree does, so no grave of OwnWork may hold this.
  ~HandleMemory() override = default;
  HandleMemory(const HandleMemory&) = delete;
  HandleMemory& operator=(const HandleMemory&) = delete;

  [[nodiscard]] std::byte* data() const noexcept override {
    return reinterpret_cast<std::byte*>(block_.get().value);
  }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  [[nodiscard]] Result<os::UniqueFd> export_memory() const override;

 private:
  HandleMemory(std::shared_ptr<OpenDevice> device, Block block, std::uint64_t size_bytes) noexcept
      : device_(std::move(device)), block_(std::move(block)), size_bytes_(size_bytes) {}
  /// Codes: unsupported, driver, os.
  [[nodiscard]] Result<void> make_handle();

  std::shared_ptr<OpenDevice> device_;
  Block block_;
  std::uint64_t size_bytes_;
  os::SharedSegment handle_;  ///< one, so that all exports are the same file
};

class HandleImport final : public backend::ImportedMemory {
 public:
  /// The context is current. Codes: as Backend::import_memory; unsupported also where the driver
  /// opens no such handle here.
  [[nodiscard]] static Result<std::unique_ptr<HandleImport>> import(
      std::shared_ptr<OpenDevice> device, os::UniqueFd fd, std::uint64_t size_bytes);
  ~HandleImport() override;
  HandleImport(const HandleImport&) = delete;
  HandleImport& operator=(const HandleImport&) = delete;

  [[nodiscard]] std::byte* data() const noexcept override { return data_; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept override { return size_bytes_; }

 private:
  HandleImport(std::shared_ptr<OpenDevice> device, OpenHandle opened, std::byte* data,
               std::uint64_t size_bytes) noexcept
      : device_(std::move(device)),
        opened_(std::move(opened)),
        data_(data),
        size_bytes_(size_bytes) {}

  std::shared_ptr<OpenDevice> device_;
  OpenHandle opened_;
  std::byte* data_;
  std::uint64_t size_bytes_;
};

}  // namespace vramlink::cuda
