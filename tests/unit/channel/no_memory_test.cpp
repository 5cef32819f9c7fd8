// A publisher makes other slots, and one allocation in one of the library's threads fails: each of
// them in turn. Nothing waits for ever, and the channel goes on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <new>

#include "support/link_attacker.hpp"
#include "support/resize_fixture.hpp"
#include "support/sanitized.hpp"

#ifndef VRAMLINK_TEST_SANITIZED  // those have an allocator of their own

namespace {

std::atomic<int> failing_thread{0};
std::atomic<int> allocations_left{0};  ///< until one fails; 0: none does

bool fails_now() noexcept {
  thread_local const int thread = ::gettid();
  if (allocations_left.load(std::memory_order_relaxed) == 0) return false;
  if (failing_thread.load(std::memory_order_relaxed) != thread) return false;
  return allocations_left.fetch_sub(1, std::memory_order_relaxed) == 1;
}

}  // namespace

void* operator new(std::size_t size) {
  if (!fails_now()) {
    if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace vramlink {
namespace {

using test::kNow;
using test::RawSubscriber;
using test::soon;
using test::wait_until;

class NoMemoryTest : public test::ResizeFixture {
 protected:
  /// From now on: the `count`th allocation of that thread.
  static void fail_allocation(int thread, int count) {
    failing_thread = thread;
    allocations_left = count;
  }
  /// Whether it came to it.
  static bool stop_failing() { return allocations_left.exchange(0) == 0; }
  [[nodiscard]] int reactor_thread() const {
    std::promise<int> thread;
    process().reactor().post([&] { thread.set_value(::gettid()); });
    return thread.get_future().get();
  }
  [[nodiscard]] int janitor_thread() const {
    std::promise<int> thread;
    process().janitor().post([&] { thread.set_value(::gettid()); });
    return thread.get_future().get();
  }
  [[nodiscard]] RawSubscriber attach(std::uint32_t max_held = 1) const {
    RawSubscriber subscriber(directory_.path(), kName, max_held);
    subscriber.attach();
    return subscriber;
  }
  /// Answers OFFERs, which have rising numbers, until it is in the newest generation.
  static void come_after(const RawSubscriber& subscriber, std::uint64_t newest) {
    for (std::uint64_t last = 1; last < newest;) {
      const auto offered = subscriber.peer.next();
      ASSERT_TRUE(offered && offered->type() == wire::MessageType::offer);
      const std::uint64_t generation = offered->as<wire::Offer>()->generation;
      ASSERT_GT(generation, last);
      ASSERT_LE(generation, newest);
      ASSERT_TRUE(subscriber.peer.send(wire::Mapped{{}, generation}));
      const auto go = subscriber.peer.next();
      ASSERT_TRUE(go && go->type() == wire::MessageType::go);
      last = generation;
    }
  }
  /// Three slots, and a reader that holds all but the newest.
  struct Growing {
    explicit Growing(NoMemoryTest& test)
        : publisher(test.open_publisher({.slot_count = 3, .slot_count_max = 8})),
          holder(test.attach(2)) {
      for (std::uint64_t number = 1; number <= 3; ++number) test.publish_now(publisher, number);
      for (std::uint64_t slot = 0; slot < 2; ++slot) holder.words().held[slot].store(slot + 1);
    }
    Publisher publisher;
    RawSubscriber holder;
  };
  static void refuse(Publisher& publisher) {
    for (int i = 0; i < 3; ++i) static_cast<void>(publisher.try_claim(kNow));
  }
  void settle() const {
    for (int i = 0; i < 4; ++i) {
      drain_reactor();
      drain_janitor();
    }
  }
};

TEST_F(NoMemoryTest, AResizeFailsOrTakesPlaceAndNeverWaitsForEver) {
  const int reactor = reactor_thread();
  bool failed = true;
  int refused = 0;
  for (int count = 1; failed; ++count) {
    SCOPED_TRACE(count);
    Publisher publisher = open_publisher();
    const RawSubscriber one = attach();
    const RawSubscriber two = attach();
    fail_allocation(reactor, count);
    const Result<void> resized = publisher.resize(bytes(100), Deadline::passed());
    failed = stop_failing();
    if (!resized) {
      ASSERT_EQ(resized.error().code(), Code::out_of_memory) << to_string(resized.error());
      EXPECT_FALSE(resized.error().facts()->remedy.empty());
      EXPECT_EQ(publisher.format(), bytes(kBytes));
      EXPECT_EQ(publisher.statistics().resizes, 0U);
      ++refused;
    }
    ASSERT_TRUE(publisher.resize(bytes(200), Deadline::passed()));
    const std::uint64_t newest = resized ? 3 : 2;
    come_after(one, newest);
    come_after(two, newest);
    publish_now(publisher, 1);
    EXPECT_EQ(publisher.statistics().subscribers.size(), 2U);
  }
  EXPECT_GT(refused, 4) << "the tests are about nothing";
}

TEST_F(NoMemoryTest, WhoCannotBeLetInIsHungUpOn) {
  const int reactor = reactor_thread();
  bool failed = true;
  int hung_up = 0;
  for (int count = 1; failed; ++count) {
    SCOPED_TRACE(count);
    Publisher publisher = open_publisher({.slot_count = 2, .when_full = WhenFull::block});
    const RawSubscriber subscriber = attach();
    ASSERT_TRUE(publisher.resize(bytes(100), Deadline::passed()));
    ASSERT_TRUE(subscriber.peer.next());  // OFFER
    fail_allocation(reactor, count);
    ASSERT_TRUE(subscriber.peer.send(wire::Mapped{{}, 2}));
    const auto answer = subscriber.peer.next();  // in any case there is one, or the end
    failed = stop_failing();
    if (!answer) ++hung_up;
    EXPECT_TRUE(!answer || answer->type() == wire::MessageType::go);
    publish_now(publisher, 1);
  }
  EXPECT_GT(hung_up, 0) << "the test is about nothing";
}

TEST_F(NoMemoryTest, SlotsThatCannotBeMadeHoldNoResizeUp) {
  for (const int thread : {reactor_thread(), janitor_thread()}) {
    bool failed = true;
    int count = 0;
    while (failed) {
      SCOPED_TRACE(++count);
      Growing growing(*this);
      fail_allocation(thread, count);
      refuse(growing.publisher);
      settle();
      failed = stop_failing();
      // A step that was lost would keep the turn.
      const Result<void> resized =
          growing.publisher.resize(bytes(100), Deadline::after(std::chrono::seconds(5)),
                                   {.follow_within = std::chrono::nanoseconds(0)});
      ASSERT_TRUE(resized) << to_string(resized.error());
      publish_now(growing.publisher, 4);
    }
    EXPECT_GT(count, 4) << "the tests are about nothing";
  }
}

TEST_F(NoMemoryTest, SlotsThatCouldNotBeMadeAreTriedAgain) {
  for (const int thread : {reactor_thread(), janitor_thread()}) {
    Growing growing(*this);
    fail_allocation(thread, 2);
    refuse(growing.publisher);
    settle();
    ASSERT_TRUE(stop_failing());
    EXPECT_EQ(growing.publisher.statistics().growths, 0U);
    wait_until([&] {  // after a second
      refuse(growing.publisher);
      return growing.publisher.statistics().growths == 1;
    });
  }
}

}  // namespace
}  // namespace vramlink

#endif
