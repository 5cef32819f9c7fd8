// Sleepers that another than the usual ringer must wake. Nobody's wait has a limit here: a missed
// ring hangs, and the watchdog says so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "os/futex.hpp"
#include "support/asleep.hpp"
#include "support/channel_fixture.hpp"
#include "support/ring_fixture.hpp"
#include "support/step_action.hpp"

namespace vramlink {
namespace {

using test::kNow;

#if VRAMLINK_STEPS

class ClaimWakeTest : public test::ChannelFixture {};

TEST_F(ClaimWakeTest, APublishedFrameFreesTheSlotBeforeItForAnotherThreadsClaim) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(test::publish_number(publisher, 1));
  WritableFrame second = publisher.try_claim(kNow).value();
  // One slot is being written and the other has the newest frame: a claim must wait. Nobody
  // subscribed, so nobody but the publishing thread can ring.
  std::atomic<bool> waits{false};
  test::StepActions waiting("claim.waiting", [&] {
    waits = true;
    waits.notify_one();
  });
  std::thread claimer([&] { EXPECT_TRUE(publisher.claim(kNow, kForever)); });
  waits.wait(false);
  EXPECT_TRUE(publisher.publish(std::move(second), kNow));
  claimer.join();
}

#endif

class OwnBellTest : public test::RingFixture {};

TEST_F(OwnBellTest, WakesASleeperWhoseRingWasTakenOverByADeadPublisher) {
  make_ring(2);
  const test::Reader reader = join();
  wire::AtomicU32& bell = reader.words().bell;
  bell = 1;
  std::atomic<pid_t> thread{0};
  std::thread sleeper([&] {
    thread = ::gettid();
    thread.notify_one();
    // As receive() does, from the moment that the bell was set.
    while (os::futex_wait(bell, 1, kForever) == os::Woken::interrupted) {
    }
  });
  thread.wait(0);
  test::wait_until_asleep(thread);
  // A publisher takes the ring over and dies before it makes the system call.
  EXPECT_EQ(bell.exchange(0), 1U);
  reader.session->set_fate(channel::SubscriberSession::Fate::gone);
  sleeper.join();
}

}  // namespace
}  // namespace vramlink
