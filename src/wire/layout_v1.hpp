// The two control segments of a channel, wire version 1, as structs (docs/wire_format.md).
//
// Plain members are written before the segment's fd or GO is sent and read through
// wire/segment_check.hpp. Atomic members live: a reader treats their values as untrusted.
// tests/unit/wire/wire_layout_test.cpp pins every offset.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "wire/limits.hpp"

namespace vramlink::wire {

using AtomicU32 = std::atomic<std::uint32_t>;
using AtomicU64 = std::atomic<std::uint64_t>;
using AtomicI64 = std::atomic<std::int64_t>;

static_assert(AtomicU32::is_always_lock_free && sizeof(AtomicU32) == 4);
static_assert(AtomicU64::is_always_lock_free && sizeof(AtomicU64) == 8);
static_assert(AtomicI64::is_always_lock_free && sizeof(AtomicI64) == 8);
static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr std::uint32_t kBroadcastMagic = 0x42'4c'4d'56;  ///< "VMLB" in memory
inline constexpr std::uint32_t kPrivateMagic = 0x50'4c'4d'56;    ///< "VMLP" in memory

enum class ChannelState : std::uint32_t { open = 0, replaced = 1, closed = 2, failed = 3 };

/// Bits of Private::flags.
inline constexpr std::uint32_t kReleasesByStream = 1;  ///< set by the subscriber
inline constexpr std::uint32_t kRevoked = 2;           ///< set by the publisher
inline constexpr std::uint32_t kLeaseOver = 4;         ///< with it: that is why; the holds count

/// What the publisher says about the frame in a slot. Void while tag is 0.
struct alignas(64) SlotHeader {
  AtomicU64 tag;  ///< sequence; 0: claimed or void
  AtomicU64 ticket;
  AtomicU64 publish_ns;
  AtomicI64 media_ns;
  AtomicU32 user_bytes;
  AtomicU32 flags;
  std::byte padding_40[24];
  AtomicU64 user[kUserBytesMax / 8];
  std::byte padding_320[192];
};

/// The last completed ticket of a slot, alone on its cache line. A GPU may write it.
struct alignas(64) ReadyLine {
  AtomicU64 ticket;
  std::byte padding_8[56];
};

/// One per generation. The publisher writes, everyone else maps it read-only.
struct alignas(64) Broadcast {
  std::uint32_t magic;
  std::uint32_t wire;
  std::uint64_t bytes;  ///< of this segment
  std::uint64_t epoch;
  std::uint64_t generation;
  std::uint32_t slot_count;
  std::uint32_t reserved;
  std::uint64_t slot_pitch;  ///< bytes from slot to slot in the payload
  std::uint64_t first_sequence;
  std::byte padding_56[200];

  std::byte format[kFormatBlockBytes];  ///< wire/format_block.hpp

  AtomicU64 newest;  ///< pack_newest(); 0: none yet
  std::byte padding_1032[56];

  AtomicU32 state;  ///< ChannelState; last_sequence is stored before it
  std::uint32_t padding_1092;
  AtomicU64 last_sequence;
  std::byte padding_1104[48];

  AtomicU32 claim_waiters;  ///< threads asleep in claim
  std::byte padding_1156[380];

  AtomicU64 recent[kSlotCountMax];  ///< entry (sequence mod 64): pack_newest()
  std::byte padding_2048[2048];

  SlotHeader slot[kSlotCountMax];
  ReadyLine ready[kSlotCountMax];
};

/// One per subscriber and generation. Both sides write; each distrusts the other's values.
struct alignas(64) Private {
  std::uint32_t magic;
  std::uint32_t wire;
  std::uint64_t bytes;  ///< of this segment
  std::uint64_t epoch;
  std::uint64_t generation;
  std::uint64_t first_ticket;
  std::uint32_t max_held;
  std::uint32_t depth;
  std::byte padding_48[16];

  AtomicU32 bell;  ///< futex; 1: the subscriber sleeps on it
  std::byte padding_68[60];

  AtomicU64 cursor;  ///< last sequence taken
  std::byte padding_136[56];

  AtomicU32 free_bell;  ///< futex that the publisher sleeps on
  std::byte padding_196[60];

  AtomicU32 flags;  ///< kReleasesByStream, kRevoked, kLeaseOver
  std::byte padding_260[60];

  // Statistics of the subscriber: written relaxed, for display alone.
  AtomicU64 received;
  AtomicU64 skipped;
  AtomicU64 lost;
  AtomicU64 received_bytes;
  std::byte padding_352[160];

  AtomicU64 held[kSlotCountMax];
  std::byte padding_1024[3072];

  AtomicU64 released[kSlotCountMax];  ///< its own page: a GPU of the subscriber may write it
  std::byte padding_4608[3584];

  AtomicU64 my_ready[kSlotCountMax];  ///< its own page: a GPU of the publisher may write it
  std::byte padding_8704[3584];
};

static_assert(sizeof(Broadcast) == kBroadcastBytes);
static_assert(sizeof(Private) == kPrivateBytes);

/// The segment that starts at `base`: a whole, page-aligned mapping of the right size. All bytes
/// zero is a valid, empty segment, so nothing is constructed and nothing is destroyed. The only
/// place that turns mapped bytes into these structs; the lifetime is the mapping's.
[[nodiscard]] inline Broadcast& broadcast_at(std::byte* base) noexcept {
  return *reinterpret_cast<Broadcast*>(base);
}
[[nodiscard]] inline const Broadcast& broadcast_at(const std::byte* base) noexcept {
  return *reinterpret_cast<const Broadcast*>(base);
}
[[nodiscard]] inline Private& private_at(std::byte* base) noexcept {
  return *reinterpret_cast<Private*>(base);
}
[[nodiscard]] inline const Private& private_at(const std::byte* base) noexcept {
  return *reinterpret_cast<const Private*>(base);
}

/// Needs sequence < kSequenceEnd and slot < kSlotCountMax.
[[nodiscard]] constexpr std::uint64_t pack_newest(std::uint64_t sequence,
                                                  std::uint32_t slot) noexcept {
  return sequence * kSlotCountMax + slot;
}
[[nodiscard]] constexpr std::uint64_t sequence_of(std::uint64_t packed) noexcept {
  return packed / kSlotCountMax;
}
[[nodiscard]] constexpr std::uint32_t slot_of(std::uint64_t packed) noexcept {
  return static_cast<std::uint32_t>(packed % kSlotCountMax);
}

}  // namespace vramlink::wire
