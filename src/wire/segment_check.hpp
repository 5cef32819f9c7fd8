// What a received control segment says about itself, copied once and checked.
//
// Before this the caller has checked the seals and the length of the file. Afterwards it uses the
// copies alone: the bytes stay the peer's.
#pragma once

#include <cstddef>
#include <cstdint>

#include <vramlink/format.hpp>

namespace vramlink::wire {

struct BroadcastFacts {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  std::uint32_t slot_count = 0;
  std::uint64_t slot_pitch = 0;
  std::uint64_t first_sequence = 0;
  Format format;
};

struct PrivateFacts {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  std::uint64_t first_ticket = 0;
  std::uint32_t max_held = 0;
  std::uint32_t depth = 0;
};

/// `base` is 64-byte aligned, `size_bytes` the length of the mapping. Codes: incompatible with both
/// wire versions; corrupt with the field.
[[nodiscard]] Result<BroadcastFacts> check_broadcast(const std::byte* base, std::size_t size_bytes);
[[nodiscard]] Result<PrivateFacts> check_private(const std::byte* base, std::size_t size_bytes);

}  // namespace vramlink::wire
