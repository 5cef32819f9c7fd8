// Every offset and size of wire version 1. A change here is a new wire version.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "backend/memory_handle.hpp"
#include "support/sample_segments.hpp"
#include "wire/layout_v1.hpp"
#include "wire/messages.hpp"

namespace vramlink::wire {
namespace {

#define VRAMLINK_PIN(Struct, member, offset) static_assert(offsetof(Struct, member) == (offset))

static_assert(kBroadcastBytes == 40960 && sizeof(Broadcast) == 40960 && alignof(Broadcast) == 64);
VRAMLINK_PIN(Broadcast, magic, 0);
VRAMLINK_PIN(Broadcast, wire, 4);
VRAMLINK_PIN(Broadcast, bytes, 8);
VRAMLINK_PIN(Broadcast, epoch, 16);
VRAMLINK_PIN(Broadcast, generation, 24);
VRAMLINK_PIN(Broadcast, slot_count, 32);
VRAMLINK_PIN(Broadcast, reserved, 36);
VRAMLINK_PIN(Broadcast, slot_pitch, 40);
VRAMLINK_PIN(Broadcast, first_sequence, 48);
VRAMLINK_PIN(Broadcast, format, 256);
VRAMLINK_PIN(Broadcast, newest, 1024);
VRAMLINK_PIN(Broadcast, state, 1088);
VRAMLINK_PIN(Broadcast, last_sequence, 1096);
VRAMLINK_PIN(Broadcast, claim_waiters, 1152);
VRAMLINK_PIN(Broadcast, recent, 1536);
VRAMLINK_PIN(Broadcast, slot, 4096);
VRAMLINK_PIN(Broadcast, ready, 36864);

static_assert(sizeof(SlotHeader) == 512 && alignof(SlotHeader) == 64);
VRAMLINK_PIN(SlotHeader, tag, 0);
VRAMLINK_PIN(SlotHeader, ticket, 8);
VRAMLINK_PIN(SlotHeader, publish_ns, 16);
VRAMLINK_PIN(SlotHeader, media_ns, 24);
VRAMLINK_PIN(SlotHeader, user_bytes, 32);
VRAMLINK_PIN(SlotHeader, flags, 36);
VRAMLINK_PIN(SlotHeader, user, 64);
static_assert(sizeof(SlotHeader::user) == 256 && sizeof(ReadyLine) == 64);
VRAMLINK_PIN(ReadyLine, ticket, 0);

static_assert(kPrivateBytes == 12288 && sizeof(Private) == 12288 && alignof(Private) == 64);
VRAMLINK_PIN(Private, magic, 0);
VRAMLINK_PIN(Private, wire, 4);
VRAMLINK_PIN(Private, bytes, 8);
VRAMLINK_PIN(Private, epoch, 16);
VRAMLINK_PIN(Private, generation, 24);
VRAMLINK_PIN(Private, first_ticket, 32);
VRAMLINK_PIN(Private, max_held, 40);
VRAMLINK_PIN(Private, depth, 44);
VRAMLINK_PIN(Private, bell, 64);
VRAMLINK_PIN(Private, cursor, 128);
VRAMLINK_PIN(Private, free_bell, 192);
VRAMLINK_PIN(Private, flags, 256);
VRAMLINK_PIN(Private, received, 320);
VRAMLINK_PIN(Private, skipped, 328);
VRAMLINK_PIN(Private, lost, 336);
VRAMLINK_PIN(Private, received_bytes, 344);
VRAMLINK_PIN(Private, held, 512);
VRAMLINK_PIN(Private, released, 4096);
VRAMLINK_PIN(Private, my_ready, 8192);

static_assert(sizeof(MessageHeader) == 16);
VRAMLINK_PIN(MessageHeader, magic, 0);
VRAMLINK_PIN(MessageHeader, wire, 4);
VRAMLINK_PIN(MessageHeader, type, 6);
VRAMLINK_PIN(MessageHeader, size_bytes, 8);
VRAMLINK_PIN(MessageHeader, fd_count, 12);

static_assert(sizeof(ProcessFacts) == 40);
VRAMLINK_PIN(ProcessFacts, boot_id, 0);
VRAMLINK_PIN(ProcessFacts, pid_namespace, 16);
VRAMLINK_PIN(ProcessFacts, pid, 24);
VRAMLINK_PIN(ProcessFacts, reserved, 28);
VRAMLINK_PIN(ProcessFacts, start_time, 32);

static_assert(sizeof(Hello) == 216);
VRAMLINK_PIN(Hello, role, 16);
VRAMLINK_PIN(Hello, flags, 20);
VRAMLINK_PIN(Hello, process, 24);
VRAMLINK_PIN(Hello, queue_depth, 64);
VRAMLINK_PIN(Hello, max_held, 68);
VRAMLINK_PIN(Hello, driver_version, 72);
VRAMLINK_PIN(Hello, name_bytes, 76);
VRAMLINK_PIN(Hello, device, 80);
VRAMLINK_PIN(Hello, name, 96);

static_assert(sizeof(Offer) == 136);
VRAMLINK_PIN(Offer, epoch, 16);
VRAMLINK_PIN(Offer, generation, 24);
VRAMLINK_PIN(Offer, broadcast_bytes, 32);
VRAMLINK_PIN(Offer, private_bytes, 40);
VRAMLINK_PIN(Offer, payload_bytes, 48);
VRAMLINK_PIN(Offer, slot_pitch, 56);
VRAMLINK_PIN(Offer, slot_count, 64);
VRAMLINK_PIN(Offer, memory_kind, 68);
VRAMLINK_PIN(Offer, granted_depth, 72);
VRAMLINK_PIN(Offer, granted_max_held, 76);
VRAMLINK_PIN(Offer, device, 80);
VRAMLINK_PIN(Offer, publisher, 96);

static_assert(sizeof(Mapped) == 24 && sizeof(Detached) == 24);
VRAMLINK_PIN(Mapped, generation, 16);
VRAMLINK_PIN(Detached, generation, 16);
static_assert(sizeof(Go) == 40);
VRAMLINK_PIN(Go, generation, 16);
VRAMLINK_PIN(Go, first_ticket, 24);
VRAMLINK_PIN(Go, cursor, 32);
static_assert(sizeof(Bye) == 32 && sizeof(Revoked) == 32);
VRAMLINK_PIN(Bye, generation, 16);
VRAMLINK_PIN(Bye, reason, 24);
VRAMLINK_PIN(Bye, reserved, 28);
VRAMLINK_PIN(Revoked, generation, 16);
VRAMLINK_PIN(Revoked, reason, 24);
VRAMLINK_PIN(Revoked, reserved, 28);
static_assert(sizeof(Failed) == 24 && sizeof(Query) == 24);
VRAMLINK_PIN(Failed, reason, 16);
VRAMLINK_PIN(Failed, reserved, 20);
VRAMLINK_PIN(Query, what, 16);
VRAMLINK_PIN(Query, reserved, 20);

static_assert(sizeof(Refused) == 200);
VRAMLINK_PIN(Refused, code, 16);
VRAMLINK_PIN(Refused, peer_pid, 20);
VRAMLINK_PIN(Refused, numbers, 24);
VRAMLINK_PIN(Refused, text, 40);

static_assert(sizeof(SubscriberStatus) == 56);
VRAMLINK_PIN(SubscriberStatus, pid, 0);
VRAMLINK_PIN(SubscriberStatus, depth, 4);
VRAMLINK_PIN(SubscriberStatus, held, 8);
VRAMLINK_PIN(SubscriberStatus, flags, 12);
VRAMLINK_PIN(SubscriberStatus, received, 16);
VRAMLINK_PIN(SubscriberStatus, skipped, 24);
VRAMLINK_PIN(SubscriberStatus, lost, 32);
VRAMLINK_PIN(SubscriberStatus, lag, 40);
VRAMLINK_PIN(SubscriberStatus, blocked_claims, 48);

static_assert(sizeof(Status) == 152 + 64 * 56);
VRAMLINK_PIN(Status, part, 16);
VRAMLINK_PIN(Status, parts, 20);
VRAMLINK_PIN(Status, published, 24);
VRAMLINK_PIN(Status, published_bytes, 32);
VRAMLINK_PIN(Status, refused_full, 40);
VRAMLINK_PIN(Status, timed_out, 48);
VRAMLINK_PIN(Status, abandoned, 56);
VRAMLINK_PIN(Status, subscribers_now, 64);
VRAMLINK_PIN(Status, subscribers_ever, 72);
VRAMLINK_PIN(Status, subscribers_died, 80);
VRAMLINK_PIN(Status, subscribers_revoked, 88);
VRAMLINK_PIN(Status, uptime_ns, 96);
VRAMLINK_PIN(Status, subscribers_evicted, 104);
VRAMLINK_PIN(Status, replacements, 112);
VRAMLINK_PIN(Status, growths, 120);
VRAMLINK_PIN(Status, legacy_imports, 128);
VRAMLINK_PIN(Status, slot_count_max, 136);
VRAMLINK_PIN(Status, slots_lost, 140);
VRAMLINK_PIN(Status, subscriber_count, 144);
VRAMLINK_PIN(Status, reserved, 148);
VRAMLINK_PIN(Status, subscribers, 152);

VRAMLINK_PIN(backend::MemoryHandle, magic, 0);
VRAMLINK_PIN(backend::MemoryHandle, wire, 4);
VRAMLINK_PIN(backend::MemoryHandle, offset_bytes, 8);
VRAMLINK_PIN(backend::MemoryHandle, allocation_bytes, 16);
VRAMLINK_PIN(backend::MemoryHandle, handle, 24);

TEST(WireLayout, ZeroPagesAreAnEmptySegment) {
  const auto broadcast_pages = std::make_unique<test::BroadcastPages>();
  Broadcast& broadcast = broadcast_at(broadcast_pages->bytes.data());
  EXPECT_EQ(static_cast<ChannelState>(broadcast.state.load()), ChannelState::open);
  EXPECT_EQ(broadcast.newest.load(), 0U);
  EXPECT_EQ(broadcast.slot[63].tag.load(), 0U);
  EXPECT_EQ(broadcast.ready[63].ticket.load(), 0U);
  const auto private_pages = std::make_unique<test::PrivatePages>();
  const Private& own = private_at(std::as_const(private_pages->bytes).data());
  EXPECT_EQ(own.held[63].load(), 0U);
  EXPECT_EQ(own.released[63].load(), 0U);
}

TEST(WireLayout, FieldsAreTheBytesOfTheSegment) {
  const auto pages = std::make_unique<test::BroadcastPages>();
  Broadcast& segment = broadcast_at(pages->bytes.data());
  segment.ready[3].ticket.store(0x0102);
  EXPECT_EQ(pages->bytes[36864 + 3 * 64], std::byte{0x02});
  EXPECT_EQ(pages->bytes[36864 + 3 * 64 + 1], std::byte{0x01});
  EXPECT_EQ(&broadcast_at(std::as_const(pages->bytes).data()), &segment);
}

TEST(WireLayout, NewestPacksSequenceAndSlot) {
  for (const std::uint64_t sequence : {std::uint64_t{1}, std::uint64_t{77}, kSequenceEnd - 1}) {
    for (const std::uint32_t slot : {0U, 1U, 63U}) {
      const std::uint64_t packed = pack_newest(sequence, slot);
      EXPECT_EQ(sequence_of(packed), sequence);
      EXPECT_EQ(slot_of(packed), slot);
    }
  }
  static_assert(pack_newest(1, 0) == 64);
}

TEST(WireLayout, MagicsReadAsText) {
  const auto text = [](std::uint32_t magic) {
    return std::string(reinterpret_cast<const char*>(&magic), sizeof(magic));
  };
  EXPECT_EQ(text(kBroadcastMagic), "VMLB");
  EXPECT_EQ(text(kPrivateMagic), "VMLP");
  EXPECT_EQ(text(kMessageMagic), "VMLM");
}

}  // namespace
}  // namespace vramlink::wire
