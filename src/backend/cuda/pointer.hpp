// What an address that a program passes really is.
#pragma once

#include <cstddef>
#include <cstdint>

#include <vramlink/inspect.hpp>
#include <vramlink/result.hpp>

#include "backend/cuda/open_device.hpp"

namespace vramlink::cuda {

/// An address as the driver's calls take it.
[[nodiscard]] inline api::DevicePointer device_pointer(const std::byte* address) noexcept {
  return reinterpret_cast<api::DevicePointer>(address);
}

enum class PointerKind : std::uint8_t {
  device,   ///< memory of a GPU
  pinned,   ///< host memory that the driver knows
  managed,  ///< moves between host and GPU
  unknown   ///< not the driver's: ordinary host memory, or what was freed
};

struct PointerInfo {
  api::Status status = api::Status::success;  ///< what the driver said when it was asked
  PointerKind kind = PointerKind::unknown;
  int device = -1;                 ///< of device memory
  api::Context context = nullptr;  ///< it was allocated in; null for the virtual memory calls
  std::uint64_t buffer_id = 0;     ///< of the allocation, never used twice; 0 if unknown
  std::uint64_t offset_bytes = 0;  ///< of the address in its memory; 0 if unknown
  std::uint64_t left_bytes = 0;    ///< from the address to the end of its memory; 0 if unknown
  bool reachable = true;           ///< by the device that check_copy_side() asked for
};

/// What the driver does not know is unknown; so is everything if it could not say.
[[nodiscard]] PointerInfo describe(const Driver& driver, const std::byte* address) noexcept;

/// What is at an address, for people and for who wants to export it. Needs no context.
/// Codes: driver.
[[nodiscard]] Result<MemoryInfo> inspect(const Driver& driver, const std::byte* address);

/// Which end of a copy an address is.
enum class CopySide : std::uint8_t { source, target };

/// Whether `size_bytes` at `address` can take part in a copy on this device. Unregistered host
/// memory is allowed only where `pageable` says so: a stream that waits would block the caller, or
/// read the bytes too late. So is memory of another GPU that this one cannot reach, by `across`;
/// then it is not `reachable`. The context is current.
/// Codes: invalid_argument (names what the address is), driver.
[[nodiscard]] Result<PointerInfo> check_copy_side(const OpenDevice& device, CopySide side,
                                                  const std::byte* address,
                                                  std::uint64_t size_bytes, bool pageable,
                                                  bool across = false);

}  // namespace vramlink::cuda
