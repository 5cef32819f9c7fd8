#include "channel/subscriber_session.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "support/ring_fixture.hpp"
#include "support/step_action.hpp"

namespace vramlink {
namespace {

using Fate = channel::SubscriberSession::Fate;

class SubscriberSessionTest : public test::RingFixture {
 protected:
  Look look(const test::Reader& reader) {
    Taken taken;
    const bool queued = reader.session->granted().depth != 0;
    const Look found =
        queued ? reader.session->take_queued(taken) : reader.session->take_latest(taken);
    if (found == Look::taken) release(reader, taken);
    return found;
  }
  static std::uint64_t cursor(const test::Reader& reader) { return reader.words().cursor.load(); }
};

TEST_F(SubscriberSessionTest, LatestTakesTheNewestAndCountsWhatItPassed) {
  make_ring(4);
  const test::Reader reader = join();
  EXPECT_EQ(look(reader), Look::nothing);
  publish_frames(3);
  EXPECT_EQ(read(reader), 3U);
  EXPECT_EQ(cursor(reader), 3U);
  EXPECT_EQ(reader.session->skipped(), 2U);
  EXPECT_EQ(look(reader), Look::nothing);
  publish_frames(200);
  EXPECT_EQ(read(reader), 203U);
  EXPECT_EQ(reader.session->skipped(), 201U);
  EXPECT_EQ(reader.session->received(), 2U);
  EXPECT_EQ(reader.session->lost(), 0U);
  EXPECT_EQ(reader.words().received.load(), 2U);
  EXPECT_EQ(reader.words().skipped.load(), 201U);
}

TEST_F(SubscriberSessionTest, LatestTakesAnOlderFrameWhileTheNewestIsIncomplete) {
  make_ring(4);
  const test::Reader reader = join();
  publish_frames(1);
  const Claim second = claim();
  show(second);
  EXPECT_EQ(read(reader), 1U);
  EXPECT_EQ(look(reader), Look::pending);
  complete(second);
  EXPECT_EQ(read(reader), 2U);
}

TEST_F(SubscriberSessionTest, QueueTakesEachInOrder) {
  make_ring(4);
  const test::Reader reader = join(3);
  publish_frames(3);
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) EXPECT_EQ(read(reader), sequence);
  EXPECT_EQ(look(reader), Look::nothing);
  EXPECT_EQ(reader.session->lost(), 0U);
}

TEST_F(SubscriberSessionTest, QueueTakesNothingLaterBeforeAnIncompleteFrame) {
  make_ring(4);
  const test::Reader reader = join(3);
  const Claim first = claim();
  show(first);
  publish_frames(1);
  EXPECT_EQ(look(reader), Look::pending);
  EXPECT_EQ(cursor(reader), 0U);
  complete(first);
  EXPECT_EQ(read(reader), 1U);
  EXPECT_EQ(read(reader), 2U);
}

TEST_F(SubscriberSessionTest, QueueCountsAnOverrunAndGoesOnWithTheOldestLeft) {
  make_ring(4);
  const test::Reader reader = join(3);
  publish_frames(10);
  EXPECT_EQ(read(reader), 7U);
  EXPECT_EQ(reader.session->lost(), 6U);
  EXPECT_EQ(reader.words().lost.load(), 6U);
  for (std::uint64_t sequence = 8; sequence <= 10; ++sequence) EXPECT_EQ(read(reader), sequence);
  publish_frames(1000);  // the ring of entries goes round many times
  EXPECT_EQ(read(reader), 1007U);
  EXPECT_EQ(reader.session->lost(), 6U + 996U);
}

TEST_F(SubscriberSessionTest, QueueFindsAFrameBetweenOverwrittenOnes) {
  make_ring(4);
  const test::Reader reader = join(3);
  const test::Reader holder = join(3);
  publish_frames(2);
  EXPECT_EQ(read(holder), 1U);
  Taken taken;
  ASSERT_EQ(take(holder, taken), 2U);  // keeps 2 in its slot
  publish_frames(5);                   // 1, 3 and 4 are overwritten
  EXPECT_EQ(read(reader), 2U);
  EXPECT_EQ(read(reader), 5U);
  EXPECT_EQ(reader.session->lost(), 3U);
  release(holder, taken);
}

TEST_F(SubscriberSessionTest, TakesEachSequenceOnce) {
  make_ring(5);
  const test::Reader reader = join(4, 4);
  std::set<std::uint64_t> seen;
  std::vector<Taken> held;
  for (int round = 0; round < 50; ++round) {
    publish_frames(1);
    Taken taken;
    const std::uint64_t sequence = take(reader, taken);
    EXPECT_TRUE(seen.insert(sequence).second);
    held.push_back(taken);
    if (held.size() == 3) {
      release(reader, held.front());
      held.erase(held.begin());
    }
  }
  EXPECT_EQ(*seen.rbegin(), 50U);
  EXPECT_EQ(seen.size(), 50U);
  for (const Taken& taken : held) release(reader, taken);
}

TEST_F(SubscriberSessionTest, StopsAtTheLimitOfHeldFrames) {
  make_ring(4);
  const test::Reader reader = join(3, 2);
  publish_frames(3);
  Taken first;
  Taken second;
  ASSERT_EQ(take(reader, first), 1U);
  ASSERT_EQ(take(reader, second), 2U);
  EXPECT_EQ(look(reader), Look::full);
  EXPECT_EQ(cursor(reader), 2U);
  release(reader, first);
  EXPECT_EQ(read(reader), 3U);
  release(reader, second);
  EXPECT_EQ(look(reader), Look::nothing);
}

TEST_F(SubscriberSessionTest, EveryAttemptHasAFreshHoldNumber) {
  make_ring(3);
  const test::Reader reader = join(2);
  publish_frames(1);
  Taken first;
  ASSERT_EQ(take(reader, first), 1U);
  EXPECT_EQ(reader.words().held[first.slot_index].load(), first.hold_number);
  EXPECT_LT(reader.words().released[first.slot_index].load(), first.hold_number);
  release(reader, first);
  EXPECT_EQ(reader.words().released[first.slot_index].load(), first.hold_number);
  publish_frames(1);
  Taken second;
  ASSERT_EQ(take(reader, second), 2U);
  EXPECT_GT(second.hold_number, first.hold_number);
  release(reader, second);
}

TEST_F(SubscriberSessionTest, RefusesSlotsAndSequencesThatCannotBe) {
  make_ring(3);
  const test::Reader latest = join();
  const test::Reader queue = join(2);
  publish_frames(2);
  const std::uint64_t good = broadcast().newest.load();
  for (const std::uint64_t bad :
       {wire::pack_newest(2, 3), wire::pack_newest(2, 63),
        wire::pack_newest(wire::kSequenceEnd - 1, 63), ~std::uint64_t{0}}) {
    broadcast().newest.store(bad);
    EXPECT_EQ(look(latest), Look::corrupt) << bad;
    EXPECT_EQ(look(queue), Look::corrupt) << bad;
  }
  broadcast().newest.store(good);
  broadcast().recent[1].store(wire::pack_newest(1, 40));
  EXPECT_EQ(look(queue), Look::corrupt);
}

TEST_F(SubscriberSessionTest, DoesNotSpinOnEntriesThatContradictTheNewest) {
  make_ring(3);
  const test::Reader latest = join();
  const test::Reader queue = join(2);
  publish_frames(2);
  for (auto& entry : broadcast().recent) entry.store(0);
  EXPECT_EQ(look(queue), Look::corrupt) << "an entry older than a frame that was announced";
  for (auto& entry : broadcast().recent) entry.store(wire::pack_newest(1000, 1));
  EXPECT_NE(look(queue), Look::taken);
  EXPECT_EQ(look(latest), Look::taken) << "its own newest word says all about the newest";
}

#if VRAMLINK_STEPS

TEST_F(SubscriberSessionTest, AQueueFarBehindPassesAnEntryThatIsJustBeingReplaced) {
  make_ring(3);
  const test::Reader queue = join(2);
  publish_frames(70);
  // The entry of 7 says 71 already, the newest word still says 70: a publisher may stop here.
  const test::StepActions steps("publish.recent_set", [&] {
    EXPECT_EQ(wire::sequence_of(broadcast().newest.load()), 70U);
    EXPECT_EQ(read(queue), 69U);
    EXPECT_EQ(queue.session->lost(), 68U);
  });
  publish_frames(1);
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(read(queue), 70U);
  EXPECT_EQ(read(queue), 71U);
}

TEST_F(SubscriberSessionTest, WhatWasNotTakenBeforeTheNextGenerationIsCounted) {
  make_ring(4);
  const test::Reader queue = join(3);
  const test::Reader latest = join();
  const test::Reader next_queue = join(3);
  const test::Reader next_latest = join();
  publish_frames(3);
  EXPECT_EQ(read(queue), 1U);
  channel::SlotRing next(make_generation(2, 2), {});
  channel::WakeList wakes;
  bool in_place = false;
  EXPECT_TRUE(ring_->give_way(next, wakes, [&] { in_place = true; }));
  EXPECT_TRUE(in_place);
  EXPECT_EQ(next.last_sequence(), 3U) << "the sequence goes on";
  EXPECT_TRUE(queue.session->is_replaced());
  EXPECT_FALSE(queue.session->end()) << "that alone is no end";
  EXPECT_FALSE(queue.session->is_through(*next_queue.session));
  // As when the other two are never complete.
  next_queue.session->go_on_after(*queue.session);
  EXPECT_EQ(next_queue.session->lost(), 2U);
  Taken taken;
  EXPECT_EQ(next_queue.session->take_queued(taken), Look::nothing) << "it begins behind them";
  // Skipped are those that it passes over with the next frame.
  next_latest.session->go_on_after(*latest.session);
  EXPECT_EQ(read(next_latest), 3U);
  EXPECT_EQ(next_latest.session->skipped(), 2U);
}

TEST_F(SubscriberSessionTest, LatestLooksAgainWhenItWasOvertaken) {
  make_ring(2);
  const test::Reader reader = join();
  publish_frames(2);
  const test::StepActions steps("take.before_hold", [&] { publish_frames(2); });
  EXPECT_EQ(read(reader), 4U) << "2 was overwritten, but a complete frame was there all the time";
  EXPECT_TRUE(steps.all_done());
}

TEST_F(SubscriberSessionTest, AFrameWhoseClaimWasUndoneIsTakenAllTheSame) {
  make_ring(3);
  const test::Reader queue = join(2);
  publish_frames(2);
  const test::StepActions steps({{"take.before_hold", [&] { header(0).tag.store(0); }},
                                 {"take.given_up", [&] { header(0).tag.store(1); }}});
  EXPECT_EQ(read(queue), 1U);
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(queue.session->lost(), 0U);
}

TEST_F(SubscriberSessionTest, AFrameThatWasOverwrittenMeanwhileIsLost) {
  make_ring(3);
  const test::Reader queue = join(2);
  publish_frames(3);
  const test::StepActions steps("take.before_hold", [&] { publish_frames(1); });
  EXPECT_EQ(read(queue), 2U);
  EXPECT_EQ(queue.session->lost(), 1U);
  EXPECT_FALSE(ring_->views()[0].shown.held) << "the failed attempt was given up";
}

TEST_F(SubscriberSessionTest, AHoldIsSeenByTheNextClaim) {
  make_ring(2);
  const test::Reader queue = join(1);
  publish_frames(2);
  const test::StepActions steps("take.held", [&] {
    EXPECT_TRUE(ring_->try_claim().failed_with(Code::full)) << "1 is held, 2 is the newest";
  });
  EXPECT_EQ(read(queue), 1U);
  EXPECT_TRUE(steps.all_done());
}

TEST_F(SubscriberSessionTest, TheCursorIsSetBeforeTheLookForWaiters) {
  make_ring(2, WhenFull::block);
  const test::Reader queue = join(1);
  publish_frames(2);
  const test::StepActions steps("take.cursor_set", [&] {
    EXPECT_EQ(cursor(queue), 1U);
    ring_->add_claim_waiter();  // goes to sleep now, and must be woken
  });
  Taken taken;
  ASSERT_EQ(take(queue, taken), 1U);
  EXPECT_EQ(queue.words().free_bell.load(), 1U);
  ring_->remove_claim_waiter();
  release(queue, taken);
}

TEST_F(SubscriberSessionTest, TheReleaseIsSetBeforeTheLookForWaiters) {
  make_ring(2);
  const test::Reader queue = join(1);
  publish_frames(2);
  Taken taken;
  ASSERT_EQ(take(queue, taken), 1U);
  const test::StepActions steps("release.stored", [&] { ring_->add_claim_waiter(); });
  release(queue, taken);
  EXPECT_EQ(queue.words().free_bell.load(), 1U);
  ring_->remove_claim_waiter();
}

#endif

TEST_F(SubscriberSessionTest, RingsThePublisherOnlyIfItWaits) {
  make_ring(3);
  const test::Reader reader = join(2);
  publish_frames(2);
  EXPECT_EQ(read(reader), 1U);
  EXPECT_EQ(reader.words().free_bell.load(), 0U);
  ring_->add_claim_waiter();
  Taken taken;
  ASSERT_EQ(take(reader, taken), 2U);
  EXPECT_EQ(reader.words().free_bell.load(), 1U) << "the cursor moved";
  release(reader, taken);
  EXPECT_EQ(reader.words().free_bell.load(), 2U) << "a slot was given back";
  ring_->remove_claim_waiter();
}

TEST_F(SubscriberSessionTest, KnowsTheEnd) {
  make_ring(2);
  const test::Reader reader = join();
  EXPECT_FALSE(reader.session->end());
  EXPECT_FALSE(reader.session->has_news());
  channel::WakeList wakes;
  EXPECT_TRUE(ring_->end(wire::ChannelState::closed, wakes));
  ASSERT_TRUE(reader.session->end());
  EXPECT_EQ(reader.session->end()->code, Code::closed);
  EXPECT_FALSE(reader.session->end()->pending_too) << "work under way may still complete";
  EXPECT_TRUE(reader.session->has_news());
  EXPECT_TRUE(reader.session->has_complete_news(false));
  reader.session->set_fate(Fate::gone);
  EXPECT_EQ(reader.session->end()->code, Code::closed) << "it was announced";
  EXPECT_TRUE(reader.session->end()->pending_too);
}

TEST_F(SubscriberSessionTest, ThatThePublisherIsGoneWakesTheSleeper) {
  make_ring(2);
  const test::Reader reader = join();
  reader.session->bell().store(1);
  reader.session->set_fate(Fate::gone);
  EXPECT_EQ(reader.session->bell().load(), 0U);
  EXPECT_EQ(reader.session->end()->code, Code::peer_gone);
  EXPECT_TRUE(reader.session->has_news());
  reader.session->set_fate(Fate::revoked);
  EXPECT_EQ(reader.session->end()->code, Code::peer_gone) << "the first fate stands";
}

TEST_F(SubscriberSessionTest, AnAnnouncedEndIsNewsOnlyBehindWhatIsPending) {
  make_ring(4);
  const test::Reader reader = join();
  const Claim slow = claim();
  show(slow);
  channel::WakeList wakes;
  EXPECT_TRUE(ring_->end(wire::ChannelState::closed, wakes));
  EXPECT_FALSE(reader.session->has_complete_news(false)) << "a look would find nothing to hand out";
  EXPECT_FALSE(reader.session->has_complete_news(true));
  complete(slow);
  EXPECT_TRUE(reader.session->has_complete_news(true));
  EXPECT_EQ(read(reader), 1U);
  EXPECT_TRUE(reader.session->has_complete_news(true)) << "the end";
}

TEST_F(SubscriberSessionTest, ARevocationIsSeenInTheWordsAlready) {
  make_ring(2);
  const test::Reader reader = join();
  reader.words().flags.fetch_or(wire::kRevoked);
  ASSERT_TRUE(reader.session->end());
  EXPECT_EQ(reader.session->end()->code, Code::revoked);
}

TEST_F(SubscriberSessionTest, CompleteNewsAreInOrderWhereOrderCounts) {
  make_ring(4);
  const test::Reader reader = join();
  const Claim first = claim();
  show(first);
  EXPECT_TRUE(reader.session->has_news());
  EXPECT_FALSE(reader.session->has_complete_news(false));
  publish_frames(1);
  EXPECT_TRUE(reader.session->has_complete_news(false));
  EXPECT_FALSE(reader.session->has_complete_news(true));
  complete(first);
  EXPECT_TRUE(reader.session->has_complete_news(true));
  EXPECT_EQ(read(reader), 2U);
  EXPECT_FALSE(reader.session->has_complete_news(false));
  EXPECT_FALSE(reader.session->has_news());
}

}  // namespace
}  // namespace vramlink
