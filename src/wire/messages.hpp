// The messages of a link: one struct is one SEQPACKET message, little-endian, padding spelled out.
//
// The first 8 bytes mean the same in every wire version, so that a mismatch can be named. Structs
// are made by value-initialisation, filled, and sent through wire/codec.hpp, which writes `header`.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <vramlink/error.hpp>

#include "wire/limits.hpp"

namespace vramlink::wire {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

/// The table of messages: X(struct, enumerator, number, least fds, most fds).
#define VRAMLINK_WIRE_MESSAGES(X) \
  X(Hello, hello, 1, 0, 1)        \
  X(Offer, offer, 2, 1, 3)        \
  X(Mapped, mapped, 3, 0, 0)      \
  X(Go, go, 4, 0, 0)              \
  X(Bye, bye, 5, 0, 0)            \
  X(Detached, detached, 6, 0, 0)  \
  X(Revoked, revoked, 7, 0, 0)    \
  X(Failed, failed, 8, 0, 0)      \
  X(Refused, refused, 9, 0, 0)    \
  X(Query, query, 10, 0, 0)       \
  X(Status, status, 11, 0, 0)

enum class MessageType : std::uint16_t {
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) enumerator = (number),
  VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
};

inline constexpr std::uint32_t kMessageMagic = 0x4d'4c'4d'56;  ///< "VMLM" in memory

struct MessageHeader {
  std::uint32_t magic;
  std::uint16_t wire;
  MessageType type;
  std::uint32_t size_bytes;  ///< of the whole message
  std::uint32_t fd_count;
};

using Uuid = std::array<std::uint8_t, 16>;

/// Names one process of one boot; a pid alone is reused.
struct ProcessFacts {
  Uuid boot_id;
  std::uint64_t pid_namespace;
  std::int32_t pid;  ///< in its own namespace
  std::uint32_t reserved;
  std::uint64_t start_time;
};

/// The connecting side of a link; the listener is the publisher.
enum class Role : std::uint32_t { subscriber = 1, observer = 2 };
/// What the payload descriptor of an OFFER is: host memory itself; memory of a GPU; or a segment
/// that names memory of a GPU by the driver's older handle (backend/memory_handle.hpp).
enum class MemoryKind : std::uint32_t { memfd = 1, device = 2, legacy_handle = 3 };
enum class ByeReason : std::uint32_t { drained = 1, failed = 2, leaving = 3 };
enum class RevokeReason : std::uint32_t { lease = 1, corrupt = 2, closed = 3 };
enum class QueryKind : std::uint32_t { status = 1 };

/// Bits of Hello::flags.
inline constexpr std::uint32_t kHelloStreamOrder = 1;  ///< wants receive(stream)
inline constexpr std::uint32_t kHelloPidfd = 2;        ///< a pidfd of the sender is attached

/// Bits of SubscriberStatus::flags.
inline constexpr std::uint32_t kStatusStreamOrdered = 1;
inline constexpr std::uint32_t kStatusRevoked = 2;
inline constexpr std::uint32_t kStatusDisconnected = 4;  ///< hung up; its holds still count

/// First message, from the connecting side. fds: the sender's pidfd if kHelloPidfd.
struct Hello {
  MessageHeader header;
  Role role;
  std::uint32_t flags;
  ProcessFacts process;
  std::uint32_t queue_depth;  ///< 0: latest frame only
  std::uint32_t max_held;     ///< 0 for observers
  std::uint32_t driver_version;
  std::uint32_t name_bytes;
  Uuid device;  ///< all zero: the host
  std::array<char, kNameBytesMax> name;
};

/// A generation, from the publisher. fds: broadcast; for subscribers also private and payload.
struct Offer {
  MessageHeader header;
  std::uint64_t epoch;
  std::uint64_t generation;
  std::uint64_t broadcast_bytes;
  std::uint64_t private_bytes;  ///< 0 for observers
  std::uint64_t payload_bytes;  ///< all slots together
  std::uint64_t slot_pitch;
  std::uint32_t slot_count;
  MemoryKind memory_kind;
  std::uint32_t granted_depth;
  std::uint32_t granted_max_held;  ///< 0 for observers
  Uuid device;
  ProcessFacts publisher;
};

/// The subscriber has mapped its private segment; the publisher may seal it.
struct Mapped {
  MessageHeader header;
  std::uint64_t generation;
};

/// The subscriber is a member; takes are allowed.
struct Go {
  MessageHeader header;
  std::uint64_t generation;
  std::uint64_t first_ticket;
  std::uint64_t cursor;
};

/// The subscriber leaves. drained: it holds nothing any more. leaving: it takes no new frames, and
/// a drained follows when it has let go of the last one. failed: its holds end, its device is lost.
struct Bye {
  MessageHeader header;
  std::uint64_t generation;
  ByeReason reason;
  std::uint32_t reserved;
};

/// The subscriber has left a replaced generation.
struct Detached {
  MessageHeader header;
  std::uint64_t generation;
};

/// The publisher took the subscriber's rights back.
struct Revoked {
  MessageHeader header;
  std::uint64_t generation;
  RevokeReason reason;
  std::uint32_t reserved;
};

/// The publisher cannot go on. `reason` is a Code.
struct Failed {
  MessageHeader header;
  std::uint32_t reason;
  std::uint32_t reserved;
};

/// The publisher's answer to a HELLO that it does not admit. `code` is a Code.
struct Refused {
  MessageHeader header;
  std::uint32_t code;
  std::int32_t peer_pid;
  std::array<std::uint64_t, 2> numbers;
  std::array<char, kTextBytes> text;  ///< printable ASCII, then zeros
};

struct Query {
  MessageHeader header;
  QueryKind what;
  std::uint32_t reserved;
};

struct SubscriberStatus {
  std::int32_t pid;
  std::uint32_t depth;
  std::uint32_t held;
  std::uint32_t flags;
  std::uint64_t received;
  std::uint64_t skipped;
  std::uint64_t lost;
  std::uint64_t lag;  ///< newest sequence - cursor
  std::uint64_t blocked_claims;
};

/// The answer to Query. Numbers are for display: they come from other processes unchecked.
struct Status {
  MessageHeader header;
  std::uint32_t part;   ///< from 0
  std::uint32_t parts;  ///< 1 in this version
  std::uint64_t published;
  std::uint64_t published_bytes;
  std::uint64_t refused_full;
  std::uint64_t timed_out;
  std::uint64_t abandoned;
  std::uint64_t subscribers_now;
  std::uint64_t subscribers_ever;
  std::uint64_t subscribers_died;
  std::uint64_t subscribers_revoked;
  std::uint64_t uptime_ns;
  std::uint64_t subscribers_evicted;
  std::uint64_t replacements;
  std::uint64_t growths;
  std::uint64_t legacy_imports;
  std::uint32_t slot_count_max;
  std::uint32_t slots_lost;
  std::uint32_t subscriber_count;  ///< entries used below
  std::uint32_t reserved;
  std::array<SubscriberStatus, kSubscriberCountMax> subscribers;
};

template <class M>
struct MessageTraits;

#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max)       \
  template <>                                                        \
  struct MessageTraits<Struct> {                                     \
    static constexpr MessageType kType = MessageType::enumerator;    \
    static constexpr std::uint32_t kFdCountMin = (fd_min);           \
    static constexpr std::uint32_t kFdCountMax = (fd_max);           \
    static constexpr const char* kName = #enumerator;                \
    static_assert(std::is_trivially_copyable_v<Struct>);             \
    static_assert(std::has_unique_object_representations_v<Struct>); \
    static_assert(sizeof(Struct) <= kMessageBytesMax);               \
    static_assert(kFdCountMax <= kMessageFdCountMax);                \
  };
VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X

}  // namespace vramlink::wire
