#include "runtime/janitor.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <vector>

namespace vramlink {
namespace {

using runtime::Janitor;

TEST(Janitor, RunsJobsInOrderOnItsThread) {
  Janitor janitor;
  ASSERT_TRUE(janitor.start());
  ASSERT_TRUE(janitor.start()) << "again is nothing";
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    janitor.post([&, i] {
      EXPECT_TRUE(janitor.on_janitor_thread());
      order.push_back(i);
    });
  }
  janitor.drain();
  ASSERT_EQ(order.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_FALSE(janitor.on_janitor_thread());
}

TEST(Janitor, RunsAllThatIsQueuedBeforeItEnds) {
  int ran = 0;
  {
    Janitor janitor;
    ASSERT_TRUE(janitor.start());
    for (int i = 0; i < 50; ++i) janitor.post([&] { ++ran; });
    janitor.post([&] { janitor.post([&] { ran += 100; }); });
  }
  EXPECT_EQ(ran, 150);
}

TEST(Janitor, AWantOfMemoryEndsAJobAndNotTheThread) {
  Janitor janitor;
  ASSERT_TRUE(janitor.start());
  int ran = 0;
  janitor.post([] { throw std::bad_alloc(); });
  janitor.post([&] { ++ran; });
  janitor.drain();
  EXPECT_EQ(ran, 1);
}

TEST(Janitor, WhatAJobHoldsEndsWithIt) {
  Janitor janitor;
  ASSERT_TRUE(janitor.start());
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  // Its end posts: it must run outside the lock.
  struct PostsAtTheEnd {
    explicit PostsAtTheEnd(Janitor& target) : janitor(target) {}
    PostsAtTheEnd(const PostsAtTheEnd&) = delete;
    PostsAtTheEnd& operator=(const PostsAtTheEnd&) = delete;
    ~PostsAtTheEnd() {
      janitor.post([] {});
    }
    Janitor& janitor;
  };
  auto poster = std::make_shared<PostsAtTheEnd>(janitor);
  janitor.post([held = std::move(held), poster = std::move(poster)] {});
  janitor.drain();
  EXPECT_TRUE(alive.expired());
}

TEST(Janitor, RunsJobsOfALaterTimeInTheirOrder) {
  using std::chrono::milliseconds;
  Janitor janitor;
  ASSERT_TRUE(janitor.start());
  std::vector<int> order;
  std::promise<void> last;
  const Deadline second = Deadline::after(milliseconds(20));
  janitor.post_at(Deadline::after(milliseconds(25)), [&] {
    order.push_back(3);
    last.set_value();
  });
  janitor.post_at(second, [&] {
    EXPECT_TRUE(second.has_passed());
    order.push_back(2);
  });
  janitor.post([&] { order.push_back(1); });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Janitor, DropsJobsOfALaterTimeAtItsEnd) {
  bool ran = false;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = held;
  {
    Janitor janitor;
    ASSERT_TRUE(janitor.start());
    janitor.post_at(kForever, [&ran, held = std::move(held)] { ran = true; });
    janitor.drain();
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(ran);
}

TEST(Janitor, StopsWaitingForAJobThatHangs) {
  Janitor janitor;
  ASSERT_TRUE(janitor.start());
  std::promise<void> go_on;
  janitor.post([&] { go_on.get_future().wait(); });
  EXPECT_TRUE(janitor.drain_until(Deadline::after(std::chrono::milliseconds(1)))
                  .failed_with(Code::timed_out));
  go_on.set_value();
  EXPECT_TRUE(janitor.drain_until(kForever));
}

TEST(Janitor, WithoutAThreadItEndsToo) { const Janitor janitor; }

}  // namespace
}  // namespace vramlink
