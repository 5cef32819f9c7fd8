// Which device memory lives on.
#ifndef VRAMLINK_DEVICE_HPP
#define VRAMLINK_DEVICE_HPP

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include <vramlink/export.hpp>
#include <vramlink/result.hpp>

namespace vramlink::inline v0 {

/// A GPU by its UUID, or the host. Ordinals are local to a process and never cross the wire.
struct DeviceId {
  std::array<std::uint8_t, 16> uuid{};  ///< all zero: the host

  [[nodiscard]] static constexpr DeviceId host() noexcept { return {}; }
  [[nodiscard]] constexpr bool is_host() const noexcept { return *this == DeviceId{}; }
  friend constexpr auto operator<=>(const DeviceId&, const DeviceId&) noexcept = default;
};

/// "host", or "GPU-8-4-4-4-12" with lower-case hexadecimal digits.
[[nodiscard]] VRAMLINK_API std::string to_string(const DeviceId& device);
/// The inverse of to_string. Codes: invalid_argument.
[[nodiscard]] VRAMLINK_API Result<DeviceId> parse_device(std::string_view text);

/// Whether the processes that use a GPU share it through MPS, NVIDIA's Multi-Process Service.
enum class Mps : std::uint8_t {
  unknown,  ///< the driver does not say: it is older than the question
  off,      ///< kernels of two processes take turns; a fault is its own process's alone
  on        ///< kernels run side by side; a fault is reported to all processes of that GPU
};

/// What the driver says of a GPU; 0, empty or unknown where it does not say.
struct GpuInfo {
  std::uint32_t ordinal = 0;             ///< in this process: CUDA_VISIBLE_DEVICES renumbers
  std::string pci_address;               ///< "0000:18:00.0"
  std::uint64_t memory_bytes = 0;        ///< all of it, used or not
  std::uint32_t compute_capability = 0;  ///< 90 is 9.0
  bool exclusive = false;                ///< one process at a time may use it, unless through MPS
  Mps mps = Mps::unknown;
};

/// One device as this process can use it.
struct DeviceInfo {
  DeviceId id;
  std::string name;  ///< for people
  bool usable = false;
  std::string why_not;  ///< empty when usable; else the reason and what to do
  GpuInfo gpu;          ///< of a GPU
};

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_DEVICE_HPP
