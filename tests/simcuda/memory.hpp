// Device memory: a memfd for each allocation, shared by all processes that hold it.
#pragma once

#include <cstdint>

#include "budget.hpp"
#include "driver.hpp"

namespace vramlink::simcuda {

inline constexpr std::uint64_t kGranularityBytes = std::uint64_t{2} << 20;

/// New memory on a device, counted on the host-wide account. out_of_memory, operating_system.
Status create_memory(std::uint64_t size_bytes, int device, Memory*& memory) noexcept;
/// The memory that an exported fd stands for; the fd stays the caller's. unknown: it is none.
Status import_memory(int fd, Memory*& memory) noexcept;
/// A place in the fd of a pool.
struct Part {
  int fd = -1;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};
/// As create_memory(), in a place of its own there. out_of_memory, operating_system.
Status create_part(const Part& part, int device, Memory*& memory) noexcept;
/// Another process's place. invalid_value: nobody has it any more.
Status join_part(const Part& part, int device, const AccountEntry& account,
                 Memory*& memory) noexcept;
/// Gives it back when neither a handle nor a mapping is left.
void drop_if_unused(Memory& memory) noexcept;
/// Where the device reads and writes it; nullptr if the process has no room for it.
std::byte* map_alias(const Memory& memory, std::uint64_t size_bytes) noexcept;

/// Frees what a range stands for: plain device memory, pinned memory, a registration.
void free_range(Range& range) noexcept;

}  // namespace vramlink::simcuda
