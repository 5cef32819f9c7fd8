// cli: which device the user means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <vramlink/channel.hpp>
#include <vramlink/device.hpp>
#include <vramlink/runtime.hpp>

namespace vramlink::cli {

/// The value of --device or --gpu.
struct DeviceWish {
  enum class Kind : std::uint8_t {
    automatic,      ///< the first GPU that can be used, else the host
    automatic_gpu,  ///< the same, but never the host
    number,         ///< of a GPU, as the driver counts them in this process
    id              ///< by UUID, or the host
  };
  Kind kind = Kind::automatic;
  std::uint32_t number = 0;
  DeviceId id{};

  [[nodiscard]] static DeviceWish host() noexcept { return {Kind::id, 0, DeviceId::host()}; }
};

/// "auto", "host", "0" or "GPU-...": --device. Nothing for other text.
[[nodiscard]] std::optional<DeviceWish> parse_device_wish(std::string_view text);
/// "auto", "0" or "GPU-...": --gpu.
[[nodiscard]] std::optional<DeviceWish> parse_gpu_wish(std::string_view text);

/// The device that is meant. Codes: no_driver, no_device (names those that are there), unsupported
/// (with the reason). With legacy handles a GPU that is named may be one that only they serve:
/// whether they do the channel tells.
[[nodiscard]] Result<DeviceInfo> choose_device(const Runtime& runtime, const DeviceWish& wish,
                                               LegacyHandles legacy = LegacyHandles::never);

/// "host memory", or "GPU 0 (NVIDIA H200)".
[[nodiscard]] std::string device_text(const DeviceInfo& device);

}  // namespace vramlink::cli
