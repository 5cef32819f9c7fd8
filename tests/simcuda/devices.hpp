// The devices that this process sees, and the driver's life in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "functions.hpp"

namespace vramlink::simcuda {

struct DeviceSettings {
  int number = 0;  ///< on the host; ordinals count what CUDA_VISIBLE_DEVICES leaves
  api::Uuid uuid{};
};

/// fresh: cuInit was not called; owner: it was; forked: it was, by the process that this forked
/// from.
enum class Process : std::uint8_t { fresh, owner, forked };
Process this_process() noexcept;
int device_count() noexcept;
inline bool is_device(api::Device device) noexcept {
  return device >= 0 && device < device_count();
}
const DeviceSettings& device_settings(int ordinal) noexcept;
/// The ordinal of a host device here, or -1 if it is hidden.
int ordinal_of(int number) noexcept;
std::uint64_t device_memory_bytes() noexcept;
bool peer_access_possible() noexcept;
int driver_version() noexcept;
/// CUDA_ERROR_...; nullptr for a status that is not known.
const char* error_name(Status status) noexcept;

/// Sets how long the device lets each submission wait; see docs/testing.md.
void set_delay(std::uint64_t fixed_us, std::uint64_t random_max_us, std::uint64_t seed) noexcept;

}  // namespace vramlink::simcuda
