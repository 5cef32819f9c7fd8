// What a ring does about claims that find no slot: leases, slots that evictions take, and when it
// asks for other ones.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "channel/slot_ring.hpp"
#include "support/ring_fixture.hpp"

namespace vramlink {
namespace {

using channel::FullPolicy;
using channel::Member;
using channel::SlotRing;
using std::chrono::hours;
using std::chrono::nanoseconds;

/// Over as soon as a hold is met for the second time.
constexpr FullPolicy kShortLease{WhenFull::evict, nanoseconds(1)};
constexpr FullPolicy kLongLease{WhenFull::evict, hours(1)};

class SlotRingFullTest : public test::RingFixture {
 protected:
  static FullPolicy grows_to(std::uint32_t slot_count_max, WhenFull when_full = WhenFull::drop) {
    return {when_full, nanoseconds(0), slot_count_max};
  }
  /// Publishes until the frame that the reader took is the oldest, and then some.
  void publish_past(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) publish(claim());
  }
  /// Claims all that can be had, and lets it be.
  std::vector<Claim> claim_all() {
    std::vector<Claim> claims;
    while (true) {
      const Result<Claim> one = ring_->try_claim();
      if (!one) return claims;
      claims.push_back(*one);
    }
  }
  /// A claim that must find none, and what it saw.
  SlotRing::Look refused() {
    SlotRing::Look look;
    EXPECT_TRUE(ring_->try_claim(look).failed_with(Code::full));
    return look;
  }
};

TEST_F(SlotRingFullTest, AHoldIsOverdueALeaseAfterAClaimMetItFirst) {
  make_ring(3, kShortLease);
  const test::Reader reader = join();
  publish_frames(1);
  Taken taken;
  take(reader, taken);
  publish_past(2);
  EXPECT_TRUE(ring_->take_overdue().empty()) << "nobody wanted its slot";
  publish(claim());
  EXPECT_FALSE(ring_->found_trouble()) << "met for the first time: the lease begins";
  publish(claim());
  ASSERT_TRUE(ring_->found_trouble());
  const auto overdue = ring_->take_overdue();
  ASSERT_EQ(overdue.size(), 1U);
  EXPECT_EQ(overdue.front(), reader.member);
  publish(claim());
  EXPECT_TRUE(ring_->take_overdue().empty()) << "named once";
  EXPECT_TRUE(ring_->evict(*reader.member));
  EXPECT_TRUE(reader.member->evicted);
  EXPECT_TRUE(reader.member->leaving);
  release(reader, taken);
}

TEST_F(SlotRingFullTest, ALeaseIsThatOfOneHold) {
  make_ring(2, kShortLease);
  const test::Reader reader = join();
  publish_frames(1);
  for (int turn = 0; turn < 20; ++turn) {
    Taken taken;
    take(reader, taken);
    publish(claim());
    refused();  // meets it
    release(reader, taken);
    const Claim next = claim();
    EXPECT_EQ(next.slot_index, taken.slot_index) << "turn " << turn;
    publish(next);  // the same slot, and another hold of it
  }
  EXPECT_FALSE(ring_->found_trouble());
  EXPECT_TRUE(ring_->take_overdue().empty());
}

TEST_F(SlotRingFullTest, WhoLetGoInTheMeantimeIsNotEvicted) {
  make_ring(3, kShortLease);
  const test::Reader reader = join();
  publish_frames(1);
  Taken taken;
  take(reader, taken);
  publish_past(4);
  ASSERT_EQ(ring_->take_overdue().size(), 1U);
  release(reader, taken);
  EXPECT_FALSE(ring_->evict(*reader.member));
  EXPECT_FALSE(reader.member->evicted);
  take(reader, taken);
  publish_past(4);
  EXPECT_EQ(ring_->take_overdue().size(), 1U) << "the next hold has a lease of its own";
  release(reader, taken);
}

TEST_F(SlotRingFullTest, AClaimThatFindsNoSlotSaysWhenTheFirstLeaseEnds) {
  make_ring(2, kLongLease);
  const test::Reader reader = join();
  publish_frames(1);
  Taken taken;
  take(reader, taken);
  publish(claim());
  const Deadline before = Deadline::after(hours(1));
  const SlotRing::Look first = refused();
  EXPECT_GE(first.lease_end, before);
  EXPECT_LE(first.lease_end, Deadline::after(hours(1)));
  EXPECT_EQ(refused().lease_end, first.lease_end) << "a second look does not begin it anew";
  EXPECT_FALSE(ring_->found_trouble());
  release(reader, taken);
  SlotRing::Look look;
  ASSERT_TRUE(ring_->try_claim(look));
  EXPECT_TRUE(look.lease_end.is_never());
}

TEST_F(SlotRingFullTest, WithoutThePolicyNobodyIsOverdue) {
  make_ring(2, WhenFull::drop);
  const test::Reader reader = join();
  publish_frames(1);
  Taken taken;
  take(reader, taken);
  publish(claim());
  for (int turn = 0; turn < 5; ++turn) EXPECT_TRUE(refused().lease_end.is_never());
  EXPECT_FALSE(ring_->found_trouble());
  EXPECT_EQ(ring_->take_want().slot_count, 0U);
  release(reader, taken);
}

TEST_F(SlotRingFullTest, WhatAnEvictedOneHoldsIsNeverClaimedAndComesBackWhenItLetsGo) {
  make_ring(4, kShortLease);
  const test::Reader reader = join();
  publish_frames(1);
  Taken one;
  take(reader, one);
  publish_frames(1);
  Taken two;
  take(reader, two);
  publish_past(4);
  ASSERT_EQ(ring_->take_overdue().size(), 1U);
  ASSERT_TRUE(ring_->evict(*reader.member));
  EXPECT_EQ(ring_->lost_slots(), 2U);
  for (int turn = 0; turn < 20; ++turn) {
    const Claim claimed = claim();
    EXPECT_NE(claimed.slot_index, one.slot_index);
    EXPECT_NE(claimed.slot_index, two.slot_index);
    publish(claimed);
  }
  EXPECT_EQ(header(one.slot_index).tag.load(), one.sequence);
  EXPECT_EQ(header(two.slot_index).tag.load(), two.sequence);
  release(reader, one);
  EXPECT_EQ(ring_->lost_slots(), 1U) << "each release counts";
  EXPECT_EQ(claim().slot_index, one.slot_index) << "the oldest frame";
  ring_->remove(*reader.member);
  EXPECT_EQ(ring_->lost_slots(), 0U) << "its end is proven";
  release(reader, two);
}

TEST_F(SlotRingFullTest, AnEvictedOneIsWaitedForByNobody) {
  make_ring(3, kShortLease);
  const test::Reader reader = join(2);
  publish_frames(1);
  Taken taken;
  take(reader, taken);
  publish_past(4);
  EXPECT_FALSE(ring_->is_drained());
  ASSERT_EQ(ring_->take_overdue().size(), 1U);
  ASSERT_TRUE(ring_->evict(*reader.member));
  EXPECT_TRUE(ring_->is_drained());
  EXPECT_TRUE(ring_->views().front().shown.evicted);
  release(reader, taken);
}

TEST_F(SlotRingFullTest, AsksForAsManyNewSlotsWhenFewerThanTwoAreLeft) {
  make_ring(3, kShortLease);
  const test::Reader reader = join();
  publish_frames(1);
  Taken one;
  take(reader, one);
  publish_frames(1);
  Taken two;
  take(reader, two);
  publish(claim());
  refused();
  EXPECT_EQ(ring_->take_want().slot_count, 0U) << "they may come back in time";
  refused();
  ASSERT_EQ(ring_->take_overdue().size(), 1U);
  ASSERT_TRUE(ring_->evict(*reader.member));
  const SlotRing::Want want = ring_->take_want();
  EXPECT_EQ(want.slot_count, 3U);
  EXPECT_FALSE(want.grows);
  EXPECT_EQ(ring_->take_want().slot_count, 0U) << "once";
  EXPECT_FALSE(refused().hopeless) << "they are on their way";
  ring_->deny(Deadline::after(hours(1)));
  EXPECT_EQ(ring_->take_want().slot_count, 0U);
  EXPECT_TRUE(refused().hopeless);
  ring_->deny(Deadline::passed());
  static_cast<void>(ring_->found_trouble());
  EXPECT_FALSE(refused().hopeless);
  EXPECT_TRUE(ring_->found_trouble()) << "asked for again";
  EXPECT_EQ(ring_->take_want().slot_count, 3U);
  ring_->deny(Deadline::passed());
  release(reader, one);
  EXPECT_EQ(ring_->take_want().slot_count, 0U) << "two are enough";
  release(reader, two);
}

TEST_F(SlotRingFullTest, ASlotWhoseWorkCannotBeKnownIsMissingToo) {
  make_ring(2, kLongLease);
  ring_->abandon(claim(), true);
  publish(claim());
  EXPECT_FALSE(refused().hopeless);
  EXPECT_TRUE(ring_->found_trouble());
  EXPECT_EQ(ring_->take_want().slot_count, 2U);
}

TEST_F(SlotRingFullTest, AsksForMoreSlotsWhenClaimsAreRefusedForWhatIsHeld) {
  make_ring(3, grows_to(16));
  const test::Reader reader = join(0, 2);
  publish_frames(1);
  Taken one;
  take(reader, one);
  publish_frames(1);
  Taken two;
  take(reader, two);
  publish(claim());
  refused();
  refused();
  EXPECT_EQ(ring_->take_want().slot_count, 0U) << "now and then is no reason";
  refused();
  EXPECT_TRUE(ring_->found_trouble());
  const SlotRing::Want want = ring_->take_want();
  EXPECT_EQ(want.slot_count, 4U) << "the newest, two that are held, and one to write to";
  EXPECT_TRUE(want.grows);
  refused();
  EXPECT_FALSE(ring_->found_trouble()) << "once";
  release(reader, one);
  release(reader, two);
}

TEST_F(SlotRingFullTest, DoesNotGrowBeyondItsBoundOrTwiceItsSize) {
  const auto wants = [&](std::uint32_t slot_count_max, std::uint32_t held_count_wanted) {
    make_ring(2, grows_to(slot_count_max));
    const test::Reader reader = join(0, 1);
    reader.member->held_count_wanted = held_count_wanted;
    publish_frames(1);
    Taken taken;
    take(reader, taken);
    publish(claim());
    for (int turn = 0; turn < 3; ++turn) refused();
    const std::uint32_t wanted = ring_->take_want().slot_count;
    release(reader, taken);
    return wanted;
  };
  EXPECT_EQ(wants(64, 40), 4U);
  EXPECT_EQ(wants(3, 40), 3U);
  EXPECT_EQ(wants(2, 40), 0U);
  EXPECT_EQ(wants(0, 40), 0U);
}

TEST_F(SlotRingFullTest, RefusalsLongAgoDoNotCount) {
  make_ring(2, grows_to(16));
  const test::Reader reader = join(0, 1);
  publish_frames(1);
  for (int turn = 0; turn < 6; ++turn) {
    Taken taken;
    publish(claim());
    take(reader, taken);
    publish(claim());
    refused();
    release(reader, taken);
    EXPECT_EQ(ring_->take_want().slot_count, 0U) << turn;
    publish_frames(300);
  }
}

TEST_F(SlotRingFullTest, DoesNotGrowForWorkOrClaimsAlone) {
  make_ring(3, grows_to(16));
  const test::Reader reader = join(0, 1);
  claim_all();
  for (int turn = 0; turn < 10; ++turn) refused();
  EXPECT_FALSE(ring_->found_trouble());
  EXPECT_EQ(ring_->take_want().slot_count, 0U);
}

TEST_F(SlotRingFullTest, UnderBlockItGrowsForWhatAQueueAskedFor) {
  make_ring(4, grows_to(64, WhenFull::block));
  const test::Reader reader = join(3, 1);
  reader.member->queue_depth_wanted = 10;
  publish_frames(4);
  SlotRing::Look again{.first = false};
  for (int turn = 0; turn < 3; ++turn) {
    refused();
    EXPECT_TRUE(ring_->try_claim(again).failed_with(Code::full)) << "not a claim of its own";
  }
  EXPECT_EQ(ring_->take_want().slot_count, 8U);
}

TEST_F(SlotRingFullTest, GivesWayWhenNothingIsClaimed) {
  make_ring(3, kLongLease);
  const Claim claimed = claim();
  SlotRing next(make_generation(3, 2), kLongLease);
  channel::WakeList wakes;
  EXPECT_FALSE(ring_->give_way(
      next, wakes, [] {}, true));
  EXPECT_FALSE(ring_->ended());
  publish(claimed);
  EXPECT_TRUE(ring_->give_way(
      next, wakes, [] {}, true));
  EXPECT_TRUE(ring_->ended());
}

}  // namespace
}  // namespace vramlink
