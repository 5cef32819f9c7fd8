// Which GPUs the driver shows to this process, and what keeps one from being used.
#pragma once

#include <memory>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/result.hpp>

#include "backend/cuda/driver.hpp"

namespace vramlink::cuda {

struct ListedDevice {
  DeviceInfo info;  ///< usable as far as its attributes tell: no context is made for this
  bool shares_handles = false;  ///< legacy handles of its memory may do, as far as attributes tell
  api::Device device = 0;
};

/// In the driver's order; what CUDA_VISIBLE_DEVICES hides is not there. Codes: driver.
[[nodiscard]] Result<std::vector<ListedDevice>> list_devices(const Driver& driver);

/// The identity of a device by its number in this process; the host's if the driver knows none.
[[nodiscard]] DeviceId id_of(const Driver& driver, api::Device device) noexcept;

}  // namespace vramlink::cuda
