// One generation of a channel without connections to other processes: the publisher's ring and
// subscribers' sessions over the same words, each call made by the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "channel/slot_ring.hpp"
#include "channel/subscriber_session.hpp"
#include "runtime/process_state.hpp"
#include "support/leak_check.hpp"
#include "support/sample_segments.hpp"
#include "wire/segment_check.hpp"

namespace vramlink::test {

/// A subscriber as both sides see it.
struct Reader {
  std::shared_ptr<channel::Member> member;
  std::shared_ptr<channel::SubscriberSession> session;
  os::Socket publisher_end;

  [[nodiscard]] wire::Private& words() const { return *member->words; }
};

class RingFixture : public LeakCheck {
 protected:
  using Claim = channel::Claim;
  using Look = channel::SubscriberSession::Look;
  using Taken = channel::Taken;

  RingFixture() : process_(runtime::ProcessState::acquire().value()) {}
  RingFixture(const RingFixture&) = delete;
  RingFixture& operator=(const RingFixture&) = delete;
  ~RingFixture() override {
    ring_.reset();
    if (!generation_) return;
    // Work that the test did not complete is none: no device is at it.
    generation_->awaited = {};
    generation_->lost_work = false;
  }

  /// The ring that the test is about.
  channel::SlotRing& make_ring(std::uint32_t slot_count, WhenFull when_full = WhenFull::drop) {
    return make_ring(slot_count, channel::FullPolicy{when_full});
  }
  channel::SlotRing& make_ring(std::uint32_t slot_count, const channel::FullPolicy& policy) {
    generation_ = make_generation(slot_count, 1);
    ring_.emplace(generation_, policy);
    return *ring_;
  }
  /// The memory and the words of one.
  [[nodiscard]] std::shared_ptr<channel::Generation> make_generation(
      std::uint32_t slot_count, std::uint64_t generation) const {
    channel::Generation::Shape shape;
    shape.format = Format::bytes(64).value();
    shape.epoch = 7;
    shape.generation = generation;
    shape.slot_count = slot_count;
    backend::Backend* backend = process_->backends().find(DeviceId::host()).value();
    return channel::Generation::create(process_, *backend, shape,
                                       std::make_shared<channel::Parking>(process_->janitor()))
        .value();
  }

  Reader join(std::uint32_t queue_depth = 0, std::uint32_t held_count_max = 2) {
    Reader reader;
    auto pages = std::make_shared<PrivatePages>();
    reader.member = std::make_shared<channel::Member>();
    reader.member->queue_depth = queue_depth;
    reader.member->held_count_max = held_count_max;
    reader.member->queue_depth_wanted = queue_depth;
    reader.member->held_count_wanted = held_count_max;
    reader.member->words = &wire::private_at(pages->bytes.data());
    reader.member->pages.view = {pages, pages->bytes.data(), pages->bytes.size()};
    EXPECT_TRUE(ring_->add(reader.member));
    auto [ours, publishers] = os::Socket::pair().value();
    reader.publisher_end = std::move(publishers);
    channel::SubscriberSession::Parts parts;
    parts.process = process_;
    parts.link = std::make_shared<channel::SessionLink>(
        link::Connection::open(process_->reactor(), std::move(ours), {}).value());
    parts.broadcast = generation_->view;
    parts.words = reader.member->pages.view;
    parts.payload = {generation_->memory, generation_->memory->data(),
                     generation_->memory->size_bytes()};
    parts.facts =
        wire::check_broadcast(generation_->view.data, generation_->view.size_bytes).value();
    parts.first_cursor = reader.member->first_cursor;
    parts.granted = {7, 1, reader.member->first_ticket, held_count_max, queue_depth};
    reader.session = channel::SubscriberSession::make(std::move(parts));
    return reader;
  }

  [[nodiscard]] wire::Broadcast& broadcast() const { return *generation_->broadcast; }
  [[nodiscard]] wire::SlotHeader& header(std::uint32_t slot) const {
    return broadcast().slot[slot];
  }

  Claim claim() { return ring_->try_claim().value(); }
  /// All work of the claim is complete.
  void complete(const Claim& claim) const {
    broadcast().ready[claim.slot_index].ticket.store(claim.ticket, std::memory_order_release);
  }
  /// Makes the frame visible, complete or not.
  std::uint64_t show(const Claim& claim, const FrameInfo& info = {}) {
    channel::WakeList wakes;
    const std::uint64_t sequence = ring_->publish(claim, info, 1, wakes).value();
    wakes.wake();
    return sequence;
  }
  std::uint64_t publish(const Claim& claim) {
    complete(claim);
    return show(claim);
  }
  /// Publishes so many complete frames.
  void publish_frames(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) publish(claim());
  }
  /// The sequence that was taken, or 0 and a failure.
  static std::uint64_t take(const Reader& reader, Taken& taken) {
    const bool queued = reader.session->granted().depth != 0;
    const Look look =
        queued ? reader.session->take_queued(taken) : reader.session->take_latest(taken);
    EXPECT_EQ(look, Look::taken);
    return look == Look::taken ? taken.sequence : 0;
  }
  static void release(const Reader& reader, const Taken& taken) {
    reader.session->release(taken.slot_index, taken.hold_number);
  }
  /// Takes and gives back at once.
  static std::uint64_t read(const Reader& reader) {
    Taken taken;
    const std::uint64_t sequence = take(reader, taken);
    if (sequence != 0) release(reader, taken);
    return sequence;
  }

  std::shared_ptr<runtime::ProcessState> process_;
  std::shared_ptr<channel::Generation> generation_;
  std::optional<channel::SlotRing> ring_;
};

}  // namespace vramlink::test
