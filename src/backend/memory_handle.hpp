// What stands for memory that goes by a handle of the driver instead of a descriptor.
//
// A sealed segment of exactly this, in the place of the payload descriptor of an OFFER whose memory
// kind is legacy_handle: whoever was not sent it does not learn the handle. docs/wire_format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace vramlink::backend {

inline constexpr std::uint32_t kMemoryHandleMagic = 0x48'4c'4d'56;  ///< "VMLH" in memory

struct MemoryHandle {
  std::uint32_t magic;
  std::uint32_t wire;              ///< kWireVersion
  std::uint64_t offset_bytes;      ///< where the slots begin in what the handle stands for
  std::uint64_t allocation_bytes;  ///< of what it stands for
  std::array<char, 64> handle;     ///< CUipcMemHandle
};
static_assert(sizeof(MemoryHandle) == 88);
static_assert(std::is_trivially_copyable_v<MemoryHandle>);

}  // namespace vramlink::backend
