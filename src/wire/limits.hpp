// The maxima of wire version 1. Every number that a peer writes is held against one of these before
// it is used. wire: bytes that both sides agree on; no system calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vramlink::wire {

inline constexpr std::uint32_t kSlotCountMin = 2;
inline constexpr std::uint32_t kSlotCountMax = 64;
inline constexpr std::uint32_t kSubscriberCountMax = 64;
/// Of all subscribers; each adds one word to every READY.
inline constexpr std::uint32_t kStreamOrderedCountMax = 16;
/// Frames that one subscriber may hold.
inline constexpr std::uint32_t kMaxHeldMax = kSlotCountMax;
/// The newest frames a queue subscriber may still get; the slot being written is not one of them.
inline constexpr std::uint32_t kQueueDepthMax = kSlotCountMax - 1;

inline constexpr std::uint32_t kUserBytesMax = 256;
/// Of one slot allocation: all slots together.
inline constexpr std::uint64_t kPayloadBytesMax = std::uint64_t{1} << 46;
/// Every slot starts on a page.
inline constexpr std::uint64_t kSlotPitchUnitBytes = 4096;

/// None of these counters ever wraps; larger values are corrupt.
inline constexpr std::uint64_t kSequenceEnd = std::uint64_t{1} << 58;
inline constexpr std::uint64_t kTicketEnd = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kHoldEnd = std::uint64_t{1} << 62;

inline constexpr std::size_t kNameBytesMax = 120;
/// With the terminating zero.
inline constexpr std::size_t kTextBytes = 160;
inline constexpr std::size_t kMessageBytesMax = 8192;
inline constexpr std::uint32_t kMessageFdCountMax = 8;

/// Of the pages that a device may write.
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kBroadcastBytes = 40960;
inline constexpr std::size_t kPrivateBytes = 12288;
inline constexpr std::size_t kFormatBlockBytes = 768;

}  // namespace vramlink::wire
