// Modules and the kernels that the stand-in knows by name.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "device_state.hpp"

namespace vramlink::simcuda {

/// A kernel: a host function that the device process runs in the order of its stream.
struct Kernel {
  const char* name;
  KernelStep step;
  std::span<const std::uint8_t> argument_bytes;  ///< the size of each argument, in order
};

/// All that exist; a new one is added to the table in kernels.cpp.
std::span<const Kernel> all_kernels() noexcept;

std::uint32_t module_count() noexcept;
/// Unloads what a context that goes has loaded.
void remove_modules_of(std::uint32_t context) noexcept;

}  // namespace vramlink::simcuda
