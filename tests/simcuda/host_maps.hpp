// What the process has mapped where, as the kernel tells it.
#pragma once

#include <cstdint>

namespace vramlink::simcuda {

struct HostMapping {
  bool is_readable = false;    ///< every page of the run
  bool is_writable = false;    ///< every page
  bool is_one_shared = false;  ///< the run lies in one mapping, and that is a shared one
};

HostMapping look_up_host_mapping(std::uint64_t address, std::uint64_t size_bytes) noexcept;

}  // namespace vramlink::simcuda
