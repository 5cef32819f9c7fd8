// Stream-ordered memory: pools, what is allocated from them, and its way to other processes.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace vramlink::simcuda {

/// An import of more ends the importer, as with driver 580: 5248 MiB work, 5250 MiB do not.
inline constexpr std::uint64_t kPoolImportBytesMax = std::uint64_t{5248} << 20;

/// Takes an allocation of `size_bytes` away from its pool, when its range is freed.
void leave_pool(std::uint32_t pool, std::uint64_t size_bytes) noexcept;
/// Frees what streams have freed by now. Cheap where nothing was.
void sweep_frees() noexcept;
/// Pools that programs made or imported, and what lives of all pools.
std::uint32_t pool_count() noexcept;
std::uint32_t pool_allocation_count() noexcept;
/// The pool of an allocation, or null.
MemoryPoolHandle pool_of(const Range& range) noexcept;

}  // namespace vramlink::simcuda
