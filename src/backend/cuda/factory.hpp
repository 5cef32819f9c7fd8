// The CUDA back end: GPU memory of the driver's virtual memory calls, shared as file descriptors;
// fences are words of registered host pages. Needs the driver alone, found at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/inspect.hpp>
#include <vramlink/result.hpp>

#include "backend/backend.hpp"

namespace vramlink::cuda {

struct Found {
  std::uint32_t driver_version = 0;  ///< the CUDA that the driver offers, 13000 is 13.0
  std::vector<DeviceInfo> devices;   ///< also those that cannot be used, with the reason
  /// One for each usable device. It makes no context before its first real work.
  std::vector<std::unique_ptr<backend::Backend>> backends;
  /// The same by legacy handles, also of devices whose memory goes by nothing else.
  std::vector<std::unique_ptr<backend::Backend>> legacy_backends;
};

/// What VRAMLINK_CUDA_LIBRARY names, else libcuda.so.1.
[[nodiscard]] std::string library_name();

/// What is at an address. Loads and starts the driver. Codes: as find_devices.
[[nodiscard]] Result<MemoryInfo> inspect_memory(const std::byte* address);

/// Loads and starts the driver. Codes: no_driver, no_device, unsupported, driver.
[[nodiscard]] Result<Found> find_devices();

}  // namespace vramlink::cuda
