// The watchdog's rules, one by one: section 8 of the protocol.
#include "channel/stream_work.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "support/step_action.hpp"
#include "support/stream_fixture.hpp"

namespace vramlink {
namespace {

using channel::StreamWork;
using std::chrono::milliseconds;

class StreamWorkTest : public test::StreamFixture {
 protected:
  static constexpr std::uint32_t kSlot = 1;
  static constexpr std::uint64_t kTicket = 40;

  StreamWorkTest() {
    StreamWork::Parts parts;
    parts.process = runtime_.state()->process();
    parts.backend = &device_;
    broadcast_segment_ = segment(sizeof(wire::Broadcast), parts.broadcast);
    private_segment_ = segment(sizeof(wire::Private), parts.words.view);
    broadcast_ = &wire::broadcast_at(parts.broadcast.data);
    words_ = &wire::private_at(parts.words.view.data);
    parts.my_ready = registered(words_->my_ready);
    parts.released = registered(words_->released);
    parts.slot_count = 4;
    work_ = std::make_shared<StreamWork>(std::move(parts));
  }
  StreamWorkTest(const StreamWorkTest&) = delete;
  StreamWorkTest& operator=(const StreamWorkTest&) = delete;
  ~StreamWorkTest() override { device_.run(); }  // while its words are mapped

  Result<void> wait(Deadline deadline = test::soon(), std::uint64_t ticket = kTicket) {
    return work_->wait(device_.stream(kRead), kSlot, ticket, deadline);
  }
  [[nodiscard]] bool aborted() const { return work_->verdict(kSlot)->aborted.load(); }
  [[nodiscard]] std::atomic<std::uint64_t>& my_ready() { return words_->my_ready[kSlot]; }
  [[nodiscard]] std::atomic<std::uint64_t>& ready() { return broadcast_->ready[kSlot].ticket; }
  [[nodiscard]] bool stream_waits() {
    device_.run();
    return device_.pending(kRead) != 0;
  }

  wire::Broadcast* broadcast_ = nullptr;
  wire::Private* words_ = nullptr;
  std::shared_ptr<StreamWork> work_;

 private:
  static os::SharedSegment segment(std::uint64_t size_bytes, runtime::SharedView& view) {
    os::SharedSegment made = os::SharedSegment::create("test", size_bytes).value();
    auto mapping = std::make_shared<os::Mapping>(made.map(os::Access::read_write).value());
    view = {mapping, mapping->data(), mapping->size_bytes()};
    return made;
  }
  template <class Word>
  std::shared_ptr<backend::RegisteredWords> registered(Word& first) {
    return device_.register_words({reinterpret_cast<std::byte*>(&first), wire::kPageBytes}).value();
  }
  os::SharedSegment broadcast_segment_;
  os::SharedSegment private_segment_;
};

TEST_F(StreamWorkTest, AFrameThatComesEndsTheWait) {
  ASSERT_TRUE(wait());
  EXPECT_TRUE(stream_waits());
  EXPECT_FALSE(work_->is_idle());
  my_ready().store(kTicket);
  ready().store(kTicket);
  EXPECT_FALSE(stream_waits());
  EXPECT_TRUE(work_->is_idle());
  work_->set_gone();
  EXPECT_FALSE(aborted());
}

TEST_F(StreamWorkTest, TheEndOfThePublisherEndsAllWaits) {
  ASSERT_TRUE(wait());
  ASSERT_TRUE(work_->wait(device_.stream(kOther), 0, 41, test::soon()));
  work_->set_gone();
  EXPECT_FALSE(stream_waits());
  EXPECT_EQ(device_.pending(kOther), 0U);
  EXPECT_TRUE(aborted());
  EXPECT_EQ(my_ready().load(), kTicket) << "no larger value: the comparison is cyclic";
  EXPECT_EQ(words_->my_ready[0].load(), 41U);
  EXPECT_EQ(work_->aborted_count(), 2U);
  EXPECT_TRUE(work_->is_idle());
}

TEST_F(StreamWorkTest, AWaitThatComesAfterTheEndOfThePublisherEndsAtOnce) {
  work_->set_gone();
  ASSERT_TRUE(wait());
  EXPECT_FALSE(stream_waits());
  EXPECT_TRUE(aborted());
}

TEST_F(StreamWorkTest, AnOldWordDoesNotEndAWaitByItsSize) {
  // What a device compares is the difference, with its sign.
  my_ready().store(~std::uint64_t{0});
  ASSERT_TRUE(wait());
  EXPECT_TRUE(stream_waits());
  work_->set_gone();
  EXPECT_FALSE(stream_waits());
  EXPECT_TRUE(aborted());
}

TEST_F(StreamWorkTest, WhatIsReadyIsLeftToTheStream) {
  ASSERT_TRUE(wait());
  my_ready().store(kTicket);
  ready().store(kTicket);
  work_->set_gone();
  EXPECT_FALSE(aborted());
  EXPECT_FALSE(stream_waits());
}

TEST_F(StreamWorkTest, AReadyWithoutItsWordIsNoExcuse) {
  ASSERT_TRUE(wait());
  ready().store(kTicket);  // a publisher that keeps to no order
  work_->set_gone();
  EXPECT_FALSE(stream_waits());
  EXPECT_TRUE(aborted());
}

TEST_F(StreamWorkTest, TheVerdictStandsWhateverTheWordSaysLater) {
  ASSERT_TRUE(wait());
  work_->set_gone();
  my_ready().store(kTicket);  // a device that was just dying
  ready().store(kTicket);
  work_->set_gone();
  EXPECT_TRUE(aborted());
}

TEST_F(StreamWorkTest, AWaitThatCannotBeEnqueuedIsForgotten) {
  device_.fail("wait", Code::wrong_state);
  EXPECT_TRUE(wait().failed_with(Code::wrong_state));
  EXPECT_TRUE(work_->is_idle());
  work_->set_gone();
  EXPECT_EQ(work_->aborted_count(), 0U);
}

TEST_F(StreamWorkTest, AWaitThatTheDriverRefusedLateEndsAtItsDeadline) {
  device_.fail_late("wait");
  EXPECT_TRUE(wait(milliseconds(5)).failed_with(Code::driver));
  EXPECT_TRUE(stream_waits()) << "whatever the driver said";
  EXPECT_FALSE(work_->is_idle());
  test::wait_until([&] { return !stream_waits(); });
  EXPECT_TRUE(work_->is_idle());
}

TEST_F(StreamWorkTest, AWaitThatTheDriverRefusedLateEndsWithThePublisher) {
  device_.fail_late("wait");
  EXPECT_TRUE(wait().failed_with(Code::driver));
  work_->set_gone();
  EXPECT_FALSE(stream_waits());
  device_.fail_late("wait");
  EXPECT_TRUE(wait(test::soon(), kTicket + 1).failed_with(Code::driver));
  EXPECT_FALSE(stream_waits()) << "it was gone before";
}

TEST_F(StreamWorkTest, AnEarlierDeadlineIsNotMissedBehindALaterOne) {
  ASSERT_TRUE(work_->wait(device_.stream(kOther), 0, 41, test::soon()));
  ASSERT_TRUE(wait(milliseconds(1)));
  test::wait_until([&] { return aborted(); });
  EXPECT_FALSE(stream_waits());
  EXPECT_EQ(device_.pending(kOther), 1U);
  work_->set_gone();
  device_.run();
}

TEST_F(StreamWorkTest, AWordThatWasTurnedBackDoesNotHoldUpTheNextWait) {
  ASSERT_TRUE(wait(milliseconds(1)));
  test::wait_until([&] { return my_ready().load() == kTicket; });
  my_ready().store(1);  // a hostile publisher, before the stream looked
  EXPECT_TRUE(stream_waits());
  ASSERT_TRUE(wait(milliseconds(1), kTicket + 1));
  test::wait_until([&] { return !stream_waits(); });
}

#if VRAMLINK_STEPS

TEST_F(StreamWorkTest, TheFlagIsSetBeforeTheWord) {
  ASSERT_TRUE(wait());
  const test::StepActions steps("watchdog.flag_set", [&] { EXPECT_TRUE(stream_waits()); });
  work_->set_gone();
  EXPECT_TRUE(steps.all_done());
  EXPECT_FALSE(stream_waits());
}

TEST_F(StreamWorkTest, AWordThatWentOnMeanwhileIsNotTurnedBack) {
  ASSERT_TRUE(wait());
  // READY came after the look, the slot was released, claimed and written anew.
  const test::StepActions steps("watchdog.flag_set", [&] { my_ready().store(kTicket + 7); });
  work_->set_gone();
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(my_ready().load(), kTicket + 7);
  EXPECT_FALSE(stream_waits());
}

TEST_F(StreamWorkTest, TheEndOfThePublisherBetweenListingAndEnqueueingIsSeen) {
  const test::StepActions steps("receive.wait_listed", [&] { work_->set_gone(); });
  ASSERT_TRUE(wait());
  EXPECT_TRUE(steps.all_done());
  EXPECT_FALSE(stream_waits());
  EXPECT_TRUE(aborted());
}

TEST_F(StreamWorkTest, TheEndOfThePublisherAfterTheEnqueueIsSeen) {
  const test::StepActions steps("receive.wait_enqueued", [&] { work_->set_gone(); });
  ASSERT_TRUE(wait());
  EXPECT_FALSE(stream_waits());
}

TEST_F(StreamWorkTest, TheFlagForNapsIsSetBeforeTheReleaseIsEnqueued) {
  EXPECT_EQ(words_->flags.load(), 0U);
  const test::StepActions steps("release.before_enqueue", [&] {
    EXPECT_EQ(words_->flags.load(), wire::kReleasesByStream);
    EXPECT_TRUE(work_->has_pending_releases());
  });
  ASSERT_TRUE(work_->release(test::kNow, device_.stream(kRead), kSlot, 9));
  EXPECT_TRUE(steps.all_done());
  EXPECT_EQ(work_->reap(), 0U);
  device_.run();
  EXPECT_TRUE(work_->has_released(kSlot, 9));
  EXPECT_EQ(work_->reap(), 1U);
  EXPECT_EQ(work_->reap(), 0U);
  EXPECT_TRUE(work_->is_idle());
}

#endif

TEST_F(StreamWorkTest, VerdictsAreReusedOnceNobodyHasThem) {
  std::set<const channel::Verdict*> seen;
  for (std::uint64_t ticket = 1; ticket <= 50; ++ticket) {
    ASSERT_TRUE(wait(test::soon(), ticket));
    seen.insert(work_->verdict(kSlot).get());
    my_ready().store(ticket);
    ready().store(ticket);
  }
  EXPECT_LE(seen.size(), 4U);
  std::vector<std::shared_ptr<const channel::Verdict>> kept;
  for (std::uint64_t ticket = 51; ticket <= 60; ++ticket) {
    ASSERT_TRUE(wait(test::soon(), ticket));
    kept.push_back(work_->verdict(kSlot));
    my_ready().store(ticket);
    ready().store(ticket);
  }
  EXPECT_EQ(std::set(kept.begin(), kept.end()).size(), 10U);
  device_.run();
}

TEST_F(StreamWorkTest, ASlotThatAStreamHasYetToReleaseIsNotTakenAgain) {
  EXPECT_FALSE(work_->is_releasing(kSlot));
  ASSERT_TRUE(work_->release(test::kNow, device_.stream(kRead), kSlot, 9));
  EXPECT_TRUE(work_->is_releasing(kSlot));
  device_.run();
  EXPECT_FALSE(work_->is_releasing(kSlot));
  device_.fail("signal");
  EXPECT_FALSE(work_->release(test::kNow, device_.stream(kRead), kSlot, 10));
  EXPECT_FALSE(work_->is_releasing(kSlot)) << "it is held still";
  EXPECT_EQ(work_->reap(), 1U);
}

TEST_F(StreamWorkTest, AForsakenHoldIsNeverIdle) {
  work_->forsake(kSlot, 3);
  EXPECT_FALSE(work_->is_idle());
  EXPECT_TRUE(work_->has_work_since(kForever.time_ns()));
  words_->released[kSlot].store(3);
  EXPECT_TRUE(work_->is_idle());
}

}  // namespace
}  // namespace vramlink
