#include "runtime/reactor.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <vector>

#include "os/fd.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using runtime::Reactor;
using runtime::WatchId;

class ReactorTest : public test::LeakCheck {
 protected:
  /// Returns when everything posted before has run.
  void settle() {
    std::promise<void> reached;
    reactor_->post([&] { reached.set_value(); });
    reached.get_future().wait();
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::start().value();
};

TEST_F(ReactorTest, RunsPostsInOrderOnItsThread) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    reactor_->post([&, i] {
      EXPECT_TRUE(reactor_->on_reactor_thread());
      order.push_back(i);
    });
  }
  settle();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_FALSE(reactor_->on_reactor_thread());
}

TEST_F(ReactorTest, RunsTheFirstTaskBeforeAllElse) {
  std::vector<int> order;
  reactor_ = Reactor::start([&] { order.push_back(1); }).value();
  reactor_->post([&] { order.push_back(2); });
  settle();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(ReactorTest, StopsOneOfManyTimersOfOneTime) {
  const Deadline when = Deadline::at_ns(std::numeric_limits<std::int64_t>::min());
  std::vector<int> order;
  std::promise<void> reached;
  reactor_->post([&] {
    std::vector<WatchId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(reactor_->at(when, [&, i] { order.push_back(i); }));
    reactor_->unwatch(ids[1]);
    reactor_->at(Deadline::passed(), [&] { reached.set_value(); });
  });
  reached.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 2, 3}));
}

TEST_F(ReactorTest, RunsWhatATaskPosts) {
  std::promise<void> reached;
  reactor_->post([&] { reactor_->post([&] { reached.set_value(); }); });
  reached.get_future().wait();
}

TEST_F(ReactorTest, RunsTimersInOrderOfTheirTimeAndNeverEarly) {
  std::vector<int> order;
  std::promise<void> reached;
  const std::int64_t now_ns = monotonic_ns();
  std::int64_t ran_ns = 0;
  reactor_->at(Deadline::at_ns(now_ns + 3'000'000), [&] {
    order.push_back(3);
    ran_ns = monotonic_ns();
    reached.set_value();
  });
  reactor_->at(Deadline::at_ns(now_ns + 1'000'000), [&] { order.push_back(1); });
  reactor_->at(Deadline::at_ns(now_ns + 2'000'000), [&] { order.push_back(2); });
  reached.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(ran_ns, now_ns + 3'000'000);
}

TEST_F(ReactorTest, ATimerThatWasStoppedDoesNotRun) {
  bool ran = false;
  const WatchId far = reactor_->at(kForever, [&] { ran = true; });
  const WatchId near = reactor_->at(Deadline::after(std::chrono::hours(1)), [&] { ran = true; });
  reactor_->unwatch(far);
  reactor_->unwatch(near);
  reactor_->unwatch(near);
  reactor_->unwatch(12'345);
  settle();
  EXPECT_FALSE(ran);
}

TEST_F(ReactorTest, ATimerThatIsDueAtOnceWithTheOneThatStopsItDoesNotRun) {
  bool ran = false;
  std::promise<void> last;
  reactor_->post([&] {
    const Deadline when = Deadline::passed();
    auto victim = std::make_shared<WatchId>(0);
    reactor_->at(when, [&, victim] { reactor_->unwatch(*victim); });
    *victim = reactor_->at(when, [&] { ran = true; });
    reactor_->at(when, [&] { last.set_value(); });
  });
  last.get_future().wait();
  settle();
  EXPECT_FALSE(ran);
}

TEST_F(ReactorTest, AWantOfMemoryEndsATaskAndNotTheThread) {
  std::promise<void> after;
  reactor_->post([] { throw std::bad_alloc(); });
  reactor_->at(Deadline::passed(), [] { throw std::bad_alloc(); });
  reactor_->at(Deadline::passed(), [&] { after.set_value(); });
  after.get_future().wait();
}

TEST_F(ReactorTest, ATimerOfAHandlerRuns) {
  std::promise<void> reached;
  reactor_->post([&] { reactor_->at(Deadline::passed(), [&] { reached.set_value(); }); });
  reached.get_future().wait();
}

TEST_F(ReactorTest, TellsOfAReadableDescriptorUntilItIsDrained) {
  const os::UniqueFd event = os::event_fd().value();
  int calls = 0;
  std::promise<void> reached;
  const WatchId id = reactor_
                         ->watch(event.get(), EPOLLIN,
                                 [&](std::uint32_t events) {
                                   EXPECT_NE(events & EPOLLIN, 0U);
                                   if (++calls < 3) return;  // level-triggered: it comes again
                                   os::drain_event(event.get());
                                   reached.set_value();
                                 })
                         .value();
  os::signal_event(event.get());
  reached.get_future().wait();
  settle();
  EXPECT_EQ(calls, 3);
  reactor_->unwatch(id);
  os::signal_event(event.get());
  settle();
  EXPECT_EQ(calls, 3);
}

TEST_F(ReactorTest, RefusesADescriptorTwice) {
  const os::UniqueFd event = os::event_fd().value();
  const WatchId id = reactor_->watch(event.get(), EPOLLIN, [](std::uint32_t) {}).value();
  EXPECT_TRUE(reactor_->watch(event.get(), EPOLLIN, [](std::uint32_t) {})
                  .failed_with(Code::already_exists));
  reactor_->unwatch(id);
  reactor_->unwatch(reactor_->watch(event.get(), EPOLLIN, [](std::uint32_t) {}).value());
}

TEST_F(ReactorTest, AHandlerMayStopItselfAndOthers) {
  const os::UniqueFd first = os::event_fd().value();
  const os::UniqueFd second = os::event_fd().value();
  WatchId first_id = 0;
  WatchId second_id = 0;
  int calls = 0;
  // Both are ready at once: whichever runs first stops both.
  const auto stop_both = [&](std::uint32_t) {
    ++calls;
    reactor_->unwatch(first_id);
    reactor_->unwatch(second_id);
  };
  std::promise<void> ready;
  reactor_->post([&] {
    first_id = reactor_->watch(first.get(), EPOLLIN, stop_both).value();
    second_id = reactor_->watch(second.get(), EPOLLIN, stop_both).value();
    os::signal_event(first.get());
    os::signal_event(second.get());
    ready.set_value();
  });
  ready.get_future().wait();
  settle();
  settle();
  EXPECT_EQ(calls, 1);
}

TEST_F(ReactorTest, WhatAHandlerHoldsEndsWithItsWatch) {
  const os::UniqueFd event = os::event_fd().value();
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  const WatchId id = reactor_->watch(event.get(), EPOLLIN, [held](std::uint32_t) {}).value();
  held.reset();
  EXPECT_FALSE(alive.expired());
  reactor_->unwatch(id);
  EXPECT_TRUE(alive.expired());
}

TEST_F(ReactorTest, EndsWithTimersWatchesAndTasksLeft) {
  const os::UniqueFd event = os::event_fd().value();
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  static_cast<void>(reactor_->watch(event.get(), EPOLLIN, [held](std::uint32_t) {}).value());
  reactor_->at(kForever, [held] {});
  reactor_->post([held] {});
  held.reset();
  reactor_.reset();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace vramlink
