// How the memory of a generation came, in the words of the statistics.
#pragma once

#include <vramlink/statistics.hpp>

#include "wire/messages.hpp"

namespace vramlink::inline v0::channel {

[[nodiscard]] constexpr MemoryPath path_of(wire::MemoryKind kind) noexcept {
  return kind == wire::MemoryKind::memfd    ? MemoryPath::shared_memory
         : kind == wire::MemoryKind::device ? MemoryPath::descriptor
                                            : MemoryPath::legacy_handle;
}

}  // namespace vramlink::inline v0::channel
