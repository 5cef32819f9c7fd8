// Format as the 768 bytes of a broadcast segment.
#pragma once

#include <cstddef>
#include <span>

#include <vramlink/format.hpp>

#include "wire/limits.hpp"

namespace vramlink::wire {

/// Writes every byte of the block. Needs a format that validate() accepts.
void encode_format(const Format& format, std::span<std::byte, kFormatBlockBytes> block) noexcept;

/// Bytes that a peer may have written become a format that validate() accepts, with payload_bytes
/// at most kPayloadBytesMax. `block` must be the caller's own copy. Codes: corrupt with the field.
[[nodiscard]] Result<Format> decode_format(std::span<const std::byte, kFormatBlockBytes> block);

}  // namespace vramlink::wire
