// Whether addresses can be read, without the risk of a fault.
#pragma once

#include <cstddef>

namespace vramlink::os {

/// False if the first or the last of the bytes is in no mapping that can be read: memory that was
/// freed, or that only a device reaches. True where the kernel does not tell. One system call.
[[nodiscard]] bool is_readable(const std::byte* data, std::size_t size_bytes) noexcept;

}  // namespace vramlink::os
