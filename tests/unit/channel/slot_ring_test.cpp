#include "channel/slot_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "support/ring_fixture.hpp"
#include "support/step_action.hpp"

namespace vramlink {
namespace {

using channel::WakeList;

class SlotRingTest : public test::RingFixture {};

TEST_F(SlotRingTest, GivesWayToTheNextOneOnce) {
  make_ring(4, WhenFull::block);
  publish_frames(2);
  const Claim early = claim();
  const auto generation = make_generation(2, 2);
  channel::SlotRing next(generation, {WhenFull::block});
  const auto make_member = [] {
    auto member = std::make_shared<channel::Member>();
    auto pages = std::make_shared<test::PrivatePages>();
    member->queue_depth = 1;
    member->words = &wire::private_at(pages->bytes.data());
    member->pages.view = {pages, pages->bytes.data(), pages->bytes.size()};
    return member;
  };
  const auto late = make_member();
  late->expected = true;
  next.expect(late);
  EXPECT_TRUE(next.expects());
  channel::WakeList wakes;
  EXPECT_TRUE(ring_->give_way(next, wakes, [] {}));
  EXPECT_FALSE(ring_->give_way(next, wakes, [] {})) << "once";
  EXPECT_FALSE(ring_->end(wire::ChannelState::closed, wakes)) << "that is the next one's";
  EXPECT_EQ(broadcast().state, static_cast<std::uint32_t>(wire::ChannelState::replaced));
  EXPECT_EQ(broadcast().last_sequence, 2U);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::stale));
  complete(early);
  EXPECT_TRUE(ring_->publish(early, {}, 1, wakes).failed_with(Code::stale));
  EXPECT_EQ(wire::sequence_of(broadcast().newest.load()), 2U);
  // Both of its slots, and none of them again before the late one has come.
  for (std::uint64_t sequence = 3; sequence <= 4; ++sequence) {
    const Claim claim = next.try_claim().value();
    EXPECT_EQ(claim.ticket, sequence - 2) << "tickets begin anew";
    generation->broadcast->ready[claim.slot_index].ticket = claim.ticket;
    EXPECT_EQ(next.publish(claim, {}, 1, wakes).value(), sequence);
  }
  EXPECT_TRUE(next.try_claim().failed_with(Code::full));
  EXPECT_FALSE(next.is_drained());
  const auto member = make_member();
  ASSERT_TRUE(next.join(*late, member));
  EXPECT_TRUE(next.expects()) << "its GO is not on its way";
  member->welcomed = true;
  EXPECT_FALSE(next.expects());
  EXPECT_EQ(member->first_cursor, 2U);
  EXPECT_EQ(member->first_ticket, 3U);
  EXPECT_TRUE(next.join(*late, member).failed_with(Code::closed)) << "it has come";
  member->words->cursor = 3;
  const Claim last = next.try_claim().value();
  EXPECT_EQ(last.slot_index, 0U);
  next.abandon(last, false);
  generation->broadcast->ready[0].ticket = last.ticket;
}

TEST_F(SlotRingTest, HandsOutFreeSlotsWithRisingTickets) {
  make_ring(3);
  std::uint64_t last_ticket = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Claim claimed = claim();
    EXPECT_EQ(claimed.slot_index, i);
    EXPECT_GT(claimed.ticket, last_ticket);
    last_ticket = claimed.ticket;
  }
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
}

TEST_F(SlotRingTest, NumbersFramesFromOne) {
  make_ring(2);
  for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) {
    EXPECT_EQ(publish(claim()), sequence);
    EXPECT_EQ(ring_->last_sequence(), sequence);
    const std::uint64_t newest = broadcast().newest.load();
    EXPECT_EQ(wire::sequence_of(newest), sequence);
    EXPECT_EQ(broadcast().recent[sequence % 64].load(), newest);
    EXPECT_EQ(header(wire::slot_of(newest)).tag.load(), sequence);
  }
}

TEST_F(SlotRingTest, NeverClaimsTheNewestCompleteFrame) {
  make_ring(2);
  publish_frames(2);  // 1 in slot 0, 2 in slot 1
  const Claim other = claim();
  EXPECT_EQ(other.slot_index, 0U);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_EQ(header(1).tag.load(), 2U);
  publish(other);
  EXPECT_EQ(claim().slot_index, 1U);
}

TEST_F(SlotRingTest, ProtectsAnOlderFrameWhileTheNewestIsIncomplete) {
  make_ring(3);
  publish_frames(1);             // 1 in slot 0, complete
  const Claim second = claim();  // slot 1
  show(second);                  // 2, incomplete
  EXPECT_EQ(claim().slot_index, 2U);
  channel::SlotRing::Look look;
  EXPECT_TRUE(ring_->try_claim(look).failed_with(Code::full)) << "slot 0 is all a newcomer has";
  EXPECT_TRUE(look.work_pending) << "who sleeps for a slot now is rung by nobody";
  complete(second);
  EXPECT_EQ(claim().slot_index, 0U);
}

TEST_F(SlotRingTest, NeverClaimsASlotWhoseOwnWorkIsIncomplete) {
  make_ring(3);
  const Claim first = claim();
  show(first);        // 1 in slot 0, incomplete
  publish_frames(2);  // 2 and 3, complete
  EXPECT_EQ(claim().slot_index, 1U) << "2 is older than the newest, 1 is not complete";
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  complete(first);
  EXPECT_EQ(claim().slot_index, 0U);
}

TEST_F(SlotRingTest, TakesFreeThenAbandonedThenTheOldestFrame) {
  make_ring(5);
  publish_frames(3);            // slots 0 to 2
  const Claim third = claim();  // slot 3
  complete(third);
  ring_->abandon(third, false);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 4; ++i) order.push_back(claim().slot_index);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{4, 3, 0, 1}));
}

TEST_F(SlotRingTest, AnAbandonedSlotIsVoidAndWaitsForItsWork) {
  make_ring(2);
  publish_frames(1);
  const Claim dropped = claim();
  ring_->abandon(dropped, false);
  EXPECT_EQ(header(dropped.slot_index).tag.load(), 0U);
  channel::SlotRing::Look look;
  EXPECT_TRUE(ring_->try_claim(look).failed_with(Code::full));
  EXPECT_TRUE(look.work_pending);
  complete(dropped);
  const Claim again = claim();
  EXPECT_EQ(again.slot_index, dropped.slot_index);
  EXPECT_GT(again.ticket, dropped.ticket);
}

TEST_F(SlotRingTest, ALostSlotNeverComesBack) {
  make_ring(2);
  publish_frames(1);
  const Claim lost = claim();
  ring_->abandon(lost, true);
  complete(lost);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
}

TEST_F(SlotRingTest, LeavesHeldSlotsAlone) {
  make_ring(3);
  const test::Reader reader = join();
  publish_frames(1);
  Taken taken;
  ASSERT_EQ(take(reader, taken), 1U);
  for (int i = 0; i < 20; ++i) {
    const Claim claimed = claim();
    EXPECT_NE(claimed.slot_index, taken.slot_index);
    publish(claimed);
    EXPECT_EQ(header(taken.slot_index).tag.load(), 1U) << "the tag of a held slot flickered";
  }
  EXPECT_EQ(ring_->views().front().shown.held, 1U);
  release(reader, taken);
  EXPECT_EQ(ring_->views().front().shown.held, 0U);
  EXPECT_EQ(claim().slot_index, taken.slot_index) << "it is the oldest";
}

TEST_F(SlotRingTest, BlockKeepsWhatAQueueHasNotTaken) {
  make_ring(4, WhenFull::block);
  const test::Reader queue = join(2);
  const test::Reader latest = join();
  publish_frames(4);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_EQ(ring_->views()[0].shown.blocked_claims, 1U);
  EXPECT_EQ(ring_->views()[1].shown.blocked_claims, 0U) << "a latest subscriber blocks nobody";
  EXPECT_EQ(ring_->views()[0].shown.lag, 4U);
  EXPECT_EQ(read(queue), 1U);
  const Claim first = claim();
  EXPECT_EQ(first.slot_index, 0U);
  publish(first);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  ring_->remove(*queue.member);
  EXPECT_EQ(claim().slot_index, 1U) << "who is gone is waited for no more";
}

TEST_F(SlotRingTest, BlockDoesNotWaitForALeavingQueue) {
  make_ring(2, WhenFull::block);
  const test::Reader queue = join(1);
  publish_frames(2);
  ASSERT_TRUE(ring_->try_claim().failed_with(Code::full));
  queue.member->leaving.store(true);
  EXPECT_EQ(claim().slot_index, 0U);
}

TEST_F(SlotRingTest, DropDoesNotWaitForQueues) {
  make_ring(4);
  const test::Reader queue = join(3);
  publish_frames(100);
  EXPECT_EQ(ring_->last_sequence(), 100U);
  EXPECT_EQ(read(queue), 97U);
}

TEST_F(SlotRingTest, AFailedClaimIsCountedOnceForEachMemberInItsWay) {
  make_ring(2, WhenFull::block);
  const test::Reader holder = join();
  const test::Reader idle = join();
  publish_frames(1);
  Taken taken;
  ASSERT_EQ(take(holder, taken), 1U);
  publish_frames(1);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  // The same claim looks again after it was woken.
  channel::SlotRing::Look again{.first = false};
  EXPECT_TRUE(ring_->try_claim(again).failed_with(Code::full));
  EXPECT_EQ(ring_->views()[0].shown.blocked_claims, 1U);
  EXPECT_EQ(ring_->views()[1].shown.blocked_claims, 0U);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_EQ(ring_->views()[0].shown.blocked_claims, 2U);
}

#if VRAMLINK_STEPS

TEST_F(SlotRingTest, AClaimThatMeetsAHoldIsUndone) {
  make_ring(2);
  const test::Reader reader = join();
  publish_frames(2);
  Taken taken;
  EXPECT_EQ(read(reader), 2U);
  const test::Reader other = join(1);  // its cursor is 1: it may take 2
  publish(claim());                    // 3 in slot 0; 2 in slot 1 is the only candidate
  const test::StepActions steps("claim.before_tag", [&] { EXPECT_EQ(take(other, taken), 2U); });
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(header(1).tag.load(), 2U) << "the frame is visible again";
  EXPECT_EQ(ring_->views()[1].shown.blocked_claims, 1U);
  release(other, taken);
  EXPECT_EQ(claim().slot_index, 1U);
}

TEST_F(SlotRingTest, TheTagOfAHeldSlotDoesNotFlicker) {
  make_ring(3);
  const test::Reader queue = join(2);
  publish_frames(3);
  Taken taken;
  ASSERT_EQ(take(queue, taken), 1U);  // the oldest, which a claim would try first
  const test::StepActions steps("claim.tag_cleared", [&] { EXPECT_EQ(header(0).tag.load(), 1U); });
  EXPECT_EQ(claim().slot_index, 1U);
  EXPECT_TRUE(steps.all_done());
  release(queue, taken);
}

TEST_F(SlotRingTest, AnUndoneClaimGoesOnToTheNextSlot) {
  make_ring(3);
  const test::Reader queue = join(2);
  publish_frames(3);
  Taken taken;
  const test::StepActions steps("claim.before_tag", [&] { EXPECT_EQ(take(queue, taken), 1U); });
  EXPECT_EQ(claim().slot_index, 1U);
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(header(0).tag.load(), 1U);
}

TEST_F(SlotRingTest, ATakeDuringAClaimFindsNothing) {
  make_ring(2);
  const test::Reader queue = join(1);
  publish_frames(2);
  const test::StepActions steps("claim.tag_cleared", [&] {
    // 1 is being taken back; 2 is the newest and is there.
    EXPECT_EQ(read(queue), 2U);
    EXPECT_EQ(queue.session->lost(), 1U);
  });
  EXPECT_EQ(claim().slot_index, 0U);
  EXPECT_TRUE(steps.all_done());
}

TEST_F(SlotRingTest, TheLastSequenceIsThereBeforeTheState) {
  make_ring(2);
  publish_frames(2);
  const test::StepActions steps("close.last_sequence_set", [&] {
    EXPECT_EQ(broadcast().last_sequence.load(), 2U);
    EXPECT_EQ(broadcast().state.load(), 0U);
  });
  WakeList wakes;
  EXPECT_TRUE(ring_->end(wire::ChannelState::closed, wakes));
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(broadcast().state.load(), static_cast<std::uint32_t>(wire::ChannelState::closed));
}

TEST_F(SlotRingTest, TheHeaderIsThereBeforeTheTag) {
  make_ring(2);
  const Claim first = claim();
  complete(first);
  const test::StepActions steps("publish.header_written", [&] {
    EXPECT_EQ(header(0).tag.load(), 0U);
    EXPECT_EQ(header(0).ticket.load(), first.ticket);
    EXPECT_EQ(header(0).media_ns.load(), -5);
    EXPECT_EQ(broadcast().newest.load(), 0U);
  });
  show(first, {.media_ns = -5});
  EXPECT_TRUE(steps.all_done());
}

#endif

TEST_F(SlotRingTest, WritesEveryLengthOfUserData) {
  make_ring(2);
  std::array<std::byte, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const Claim claimed = claim();
    complete(claimed);
    show(claimed, {.media_ns = static_cast<std::int64_t>(size),
                   .user_data = std::span(bytes).first(size),
                   .flags = 0x8000'0000U + static_cast<std::uint32_t>(size)});
    const wire::SlotHeader& written = header(claimed.slot_index);
    EXPECT_EQ(written.user_bytes.load(), size);
    EXPECT_EQ(written.flags.load(), 0x8000'0000U + size);
    EXPECT_EQ(written.publish_ns.load(), 1U);
    EXPECT_EQ(std::memcmp(written.user, bytes.data(), size), 0) << size;
  }
}

TEST_F(SlotRingTest, RingsSleepersAlone) {
  make_ring(2);
  const test::Reader asleep = join();
  const test::Reader awake = join();
  asleep.words().bell.store(1);
  publish_frames(1);
  EXPECT_EQ(asleep.words().bell.load(), 0U);
  awake.words().bell.store(1);
  WakeList wakes;
  EXPECT_TRUE(ring_->end(wire::ChannelState::closed, wakes));
  EXPECT_EQ(awake.words().bell.load(), 0U);
  asleep.words().bell.store(17);  // a value that only a broken subscriber writes
  EXPECT_TRUE(ring_->end(wire::ChannelState::closed, wakes));
  EXPECT_EQ(asleep.words().bell.load(), 17U);
}

TEST_F(SlotRingTest, NamesWhoHoldsTooMuch) {
  make_ring(4);
  const test::Reader honest = join();
  const test::Reader greedy = join(0, 1);
  publish_frames(4);
  EXPECT_FALSE(ring_->found_trouble());
  for (std::uint32_t i = 0; i < 4; ++i) greedy.words().held[i].store(9);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_TRUE(ring_->found_trouble());
  const auto offenders = ring_->take_offenders();
  ASSERT_EQ(offenders.size(), 1U);
  EXPECT_EQ(offenders.front(), greedy.member);
  EXPECT_FALSE(ring_->found_trouble());
  EXPECT_TRUE(ring_->take_offenders().empty());
  ring_->remove(*greedy.member);
  EXPECT_EQ(claim().slot_index, 0U) << "its holds ended with it";
}

TEST_F(SlotRingTest, NamesWhoHoldsEverythingUnderEverNewNumbers) {
  make_ring(16);
  const test::Reader greedy = join(0, 1);
  publish_frames(16);
  std::atomic<bool> stop{false};
  for (std::uint32_t i = 0; i < 16; ++i) greedy.words().held[i].store(1);
  std::thread writer([&] {
    for (std::uint64_t number = 2; !stop; ++number) {
      for (std::uint32_t i = 0; i < 16; ++i) greedy.words().held[i].store(number);
    }
  });
  for (int claims = 0; claims < 1000 && !ring_->found_trouble(); ++claims) {
    EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  }
  stop = true;
  writer.join();
  EXPECT_EQ(ring_->take_offenders().size(), 1U);
}

TEST_F(SlotRingTest, AllowsOneHoldBeyondTheLimitForAnAttemptUnderWay) {
  make_ring(3);
  const test::Reader reader = join(0, 1);
  publish_frames(3);
  reader.words().held[0].store(1);
  reader.words().held[1].store(2);
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::full));
  EXPECT_FALSE(ring_->found_trouble());
}

TEST_F(SlotRingTest, NamesWhoTookWhatWasNeverPublished) {
  make_ring(2, WhenFull::block);
  const test::Reader liar = join(1);
  publish_frames(1);
  liar.words().cursor.store(2);
  publish(claim());
  liar.words().cursor.store(1000);
  static_cast<void>(claim());
  EXPECT_TRUE(ring_->found_trouble());
  ASSERT_EQ(ring_->take_offenders().size(), 1U);
}

TEST_F(SlotRingTest, ANewcomerStartsAtTheNewestFrame) {
  make_ring(3);
  EXPECT_EQ(join().words().cursor.load(), 0U);
  publish_frames(5);
  const Claim sixth = claim();
  const test::Reader reader = join(2);
  EXPECT_EQ(reader.words().cursor.load(), 4U);
  EXPECT_EQ(reader.member->first_ticket, sixth.ticket + 1);
  EXPECT_EQ(reader.words().first_ticket, sixth.ticket + 1);
  EXPECT_EQ(read(reader), 5U);
  EXPECT_EQ(reader.session->lost(), 0U);
}

TEST_F(SlotRingTest, AfterTheEndNothingBegins) {
  make_ring(2);
  publish_frames(1);
  const Claim under_way = claim();
  WakeList wakes;
  EXPECT_FALSE(ring_->ended());
  EXPECT_TRUE(ring_->end(wire::ChannelState::closed, wakes));
  EXPECT_TRUE(ring_->ended());
  EXPECT_TRUE(ring_->try_claim().failed_with(Code::closed));
  complete(under_way);
  EXPECT_TRUE(ring_->publish(under_way, {}, 1, wakes).failed_with(Code::closed));
  EXPECT_EQ(wire::sequence_of(broadcast().newest.load()), 1U);
  EXPECT_EQ(ring_->last_sequence(), 1U);
  EXPECT_TRUE(ring_->add(std::make_shared<channel::Member>()).failed_with(Code::closed));
  EXPECT_TRUE(ring_->end(wire::ChannelState::failed, wakes));
  EXPECT_EQ(broadcast().state.load(), static_cast<std::uint32_t>(wire::ChannelState::closed))
      << "the first end stands";
}

TEST_F(SlotRingTest, CountsWaiters) {
  make_ring(2);
  ring_->add_claim_waiter();
  ring_->add_claim_waiter();
  EXPECT_EQ(broadcast().claim_waiters.load(), 2U);
  ring_->remove_claim_waiter();
  ring_->remove_claim_waiter();
  EXPECT_EQ(broadcast().claim_waiters.load(), 0U);
}

TEST_F(SlotRingTest, AListOfMembersStaysAsItWas) {
  make_ring(2);
  const test::Reader first = join();
  const auto before = ring_->members();
  const test::Reader second = join();
  EXPECT_EQ(before->size(), 1U);
  EXPECT_EQ(ring_->members()->size(), 2U);
  ring_->remove(*first.member);
  ring_->remove(*first.member);
  EXPECT_EQ(before->size(), 1U);
  ASSERT_EQ(ring_->members()->size(), 1U);
  EXPECT_EQ(ring_->members()->front(), second.member);
}

}  // namespace
}  // namespace vramlink
