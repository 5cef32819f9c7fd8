#include "os/futex.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "os/shared_segment.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using os::FutexWaiter;
using os::Woken;
using Word = std::atomic<std::uint32_t>;

class Futex : public test::LeakCheck {
 protected:
  Futex() {
    for (std::size_t i = 0; i < os::kFutexWaitersMax; ++i)
      words_[i] = new (mapping_.data() + 64 * i) Word(0);
  }
  void TearDown() override { os::pretend_futex_wait_any_missing(false); }

  [[nodiscard]] std::vector<FutexWaiter> waiters(std::size_t count) const {
    std::vector<FutexWaiter> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back({words_[i], 0});
    return all;
  }
  /// Wakes once a sleeper is there.
  static void wake_one(const Word& word) {
    while (os::futex_wake(word, 1) == 0) std::this_thread::yield();
  }

  os::SharedSegment segment_ =
      os::SharedSegment::create("vramlink-test", 64 * os::kFutexWaitersMax).value();
  os::Mapping mapping_ = segment_.map(os::Access::read_write, os::Inherit::yes).value();
  std::array<Word*, os::kFutexWaitersMax> words_{};
};

TEST_F(Futex, DoesNotSleepOnAChangedWord) {
  EXPECT_EQ(os::futex_wait(*words_[0], 1, kForever), Woken::changed);
  EXPECT_EQ(os::futex_wait(*words_[0], 1, Deadline::passed()), Woken::changed);
}

TEST_F(Futex, EndsAtItsDeadlineAndNotBefore) {
  EXPECT_EQ(os::futex_wait(*words_[0], 0, Deadline::passed()), Woken::timed_out);
  EXPECT_EQ(os::futex_wait(*words_[0], 0, Deadline::at_ns(-5)), Woken::timed_out);
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(2));
  Woken woken = Woken::interrupted;
  while (woken == Woken::interrupted) woken = os::futex_wait(*words_[0], 0, deadline);
  EXPECT_EQ(woken, Woken::timed_out);
  EXPECT_TRUE(deadline.has_passed());
}

TEST_F(Futex, WakeWithoutSleepersWakesNobody) { EXPECT_EQ(os::futex_wake(*words_[0], 1), 0); }

TEST_F(Futex, AThreadWakesAnother) {
  std::thread waker([&] { wake_one(*words_[0]); });
  EXPECT_EQ(os::futex_wait(*words_[0], 0, kForever), Woken::woken);
  waker.join();
}

TEST_F(Futex, AProcessWakesAnother) {
  test::ChildProcess child([&](const test::ChildLink&) {
    return os::futex_wait(*words_[0], 0, kForever) == Woken::woken ? 0 : 1;
  });
  wake_one(*words_[0]);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Futex, SleepsOnAReadOnlyMappingAtAnotherAddress) {
  const os::Mapping view = segment_.map(os::Access::read_only, os::Inherit::yes).value();
  ASSERT_NE(view.data(), mapping_.data());
  const auto& word = *std::launder(reinterpret_cast<const Word*>(view.data()));
  test::ChildProcess child([&](const test::ChildLink&) {
    return os::futex_wait(word, 0, kForever) == Woken::woken ? 0 : 1;
  });
  wake_one(*words_[0]);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Futex, WakesAsManyAsItIsTold) {
  constexpr int kSleeperCount = 3;
  std::vector<std::thread> sleepers;
  sleepers.reserve(kSleeperCount);
  for (int i = 0; i < kSleeperCount; ++i) {
    sleepers.emplace_back(
        [&] { EXPECT_EQ(os::futex_wait(*words_[0], 0, kForever), Woken::woken); });
  }
  wake_one(*words_[0]);
  int woken = 1;
  while (woken < kSleeperCount) woken += os::futex_wake(*words_[0], kSleeperCount);
  EXPECT_EQ(woken, kSleeperCount);
  for (std::thread& sleeper : sleepers) sleeper.join();
}

/// Interrupts a thread with signals until it says that it is done.
template <class Wait>
Woken interrupt_wait(Wait wait) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> is_done{false};
  Woken woken = Woken::woken;
  std::thread sleeper([&] {
    woken = wait();
    is_done.store(true);  // pairs with the load below
  });
  while (!is_done.load()) {
    ::pthread_kill(sleeper.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  sleeper.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  return woken;
}

TEST_F(Futex, ASignalInterrupts) {
  // A wait with a timeout is not restarted by the kernel.
  const Deadline deadline = Deadline::after(std::chrono::hours(1));
  EXPECT_EQ(interrupt_wait([&] { return os::futex_wait(*words_[0], 0, deadline); }),
            Woken::interrupted);
  if (!os::futex_wait_any_supported()) GTEST_SKIP() << "this kernel has no futex_waitv";
  EXPECT_EQ(interrupt_wait([&] { return os::futex_wait_any(waiters(2), deadline); }),
            Woken::interrupted);
}

class FutexAny : public Futex, public ::testing::WithParamInterface<bool> {
 protected:
  FutexAny() { os::pretend_futex_wait_any_missing(GetParam()); }
  /// Loops as callers do. Without kernel support a wake-up is only seen by its change of the word.
  static Woken wait_until_changed(std::span<const FutexWaiter> waiters, Deadline deadline) {
    Woken woken = Woken::interrupted;
    while (woken == Woken::interrupted || woken == Woken::woken) {
      woken = os::futex_wait_any(waiters, deadline);
    }
    return woken;
  }
};

TEST_P(FutexAny, SaysWhetherTheKernelHelps) {
  const bool is_supported = os::futex_wait_any_supported();
  if (GetParam()) {
    EXPECT_FALSE(is_supported);
  }
  EXPECT_EQ(os::futex_wait_any_supported(), is_supported);
}

TEST_P(FutexAny, SeesAChangeOfAnyWord) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{65}, os::kFutexWaitersMax}) {
    for (const std::size_t changed : {std::size_t{0}, count / 2, count - 1}) {
      words_[changed]->store(1);
      EXPECT_EQ(os::futex_wait_any(waiters(count), kForever), Woken::changed);
      words_[changed]->store(0);
    }
  }
}

TEST_P(FutexAny, EndsAtItsDeadlineAndNotBefore) {
  EXPECT_EQ(os::futex_wait_any(waiters(3), Deadline::passed()), Woken::timed_out);
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(3));
  EXPECT_EQ(wait_until_changed(waiters(3), deadline), Woken::timed_out);
  EXPECT_TRUE(deadline.has_passed());
}

TEST_P(FutexAny, AnyWordOfAnotherProcessEndsIt) {
  constexpr std::size_t kCount = 5;
  for (std::size_t rung = 0; rung < kCount; ++rung) {
    test::ChildProcess child([&](const test::ChildLink& parent) {
      (void)parent.wait_go();
      words_[rung]->store(1);
      os::futex_wake(*words_[rung], 1);
      return 0;
    });
    child.go();
    EXPECT_EQ(wait_until_changed(waiters(kCount), kForever), Woken::changed);
    words_[rung]->store(0);
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST_F(Futex, AnyWordWakes) {
  if (!os::futex_wait_any_supported()) GTEST_SKIP() << "this kernel has no futex_waitv";
  for (std::size_t rung = 0; rung < 3; ++rung) {
    std::thread waker([&] { wake_one(*words_[rung]); });
    EXPECT_EQ(os::futex_wait_any(waiters(3), kForever), Woken::woken);
    waker.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Support, FutexAny, ::testing::Bool(), [](const auto& each) {
  return each.param ? "Missing" : "AsTheKernelHas";
});

}  // namespace
}  // namespace vramlink
