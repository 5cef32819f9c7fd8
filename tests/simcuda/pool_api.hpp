// The part of the driver's API about memory pools, which the library does not use. Beside cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/driver_api.hpp"

namespace vramlink::simcuda {

struct MemoryPoolTag;
/// CUmemoryPool.
using MemoryPoolHandle = MemoryPoolTag*;

/// CUmemPoolProps.
struct PoolProperties {
  cuda::api::AllocationType type;
  cuda::api::HandleType handle_types;
  cuda::api::Location location;
  void* win32_security_attributes;
  std::size_t size_bytes_max;
  unsigned short usage;
  unsigned char reserved[54];
};

/// CUmemPoolPtrExportData.
struct PoolPointer {
  unsigned char bytes[64];
};

/// CUmemPool_attribute.
enum class PoolAttribute : int {
  reuse_follow_event_dependencies = 1,
  reuse_allow_opportunistic = 2,
  reuse_allow_internal_dependencies = 3,
  release_threshold = 4,
  reserved_mem_current = 5,
  reserved_mem_high = 6,
  used_mem_current = 7,
  used_mem_high = 8,
};

/// CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE.
inline constexpr auto kPoolOfPointer = static_cast<cuda::api::PointerAttribute>(17);
/// CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED and MEMPOOL_SUPPORTED_HANDLE_TYPES.
inline constexpr auto kPoolsSupported = static_cast<cuda::api::DeviceAttribute>(115);
inline constexpr auto kPoolHandleTypes = static_cast<cuda::api::DeviceAttribute>(119);

}  // namespace vramlink::simcuda
