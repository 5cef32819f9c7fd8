#include "os/epoll.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink {
namespace {

using os::Epoll;
using os::UniqueFd;

/// With the nanoseconds of the kernel, and with the milliseconds of older ones.
class Polling : public test::LeakCheck, public ::testing::WithParamInterface<bool> {
 protected:
  Polling() { os::pretend_epoll_pwait2_missing(GetParam()); }
  void TearDown() override { os::pretend_epoll_pwait2_missing(false); }

  Result<std::size_t> wait(Deadline deadline) { return epoll_.wait(events_, deadline); }

  Epoll epoll_ = Epoll::create().value();
  UniqueFd first_ = os::event_fd().value();
  UniqueFd second_ = os::event_fd().value();
  std::array<epoll_event, 4> events_{};
};

TEST_P(Polling, SaysWhatIsReady) {
  ASSERT_TRUE(epoll_.add(first_.get(), EPOLLIN, 11));
  ASSERT_TRUE(epoll_.add(second_.get(), EPOLLIN, 22));
  EXPECT_EQ(wait(Deadline::passed()).value(), 0U);
  os::signal_event(second_.get());
  ASSERT_EQ(wait(kForever).value(), 1U);
  EXPECT_EQ(events_[0].data.u64, 22U);
  EXPECT_EQ(events_[0].events, static_cast<std::uint32_t>(EPOLLIN));
  os::signal_event(first_.get());
  EXPECT_EQ(wait(kForever).value(), 2U);
}

TEST_P(Polling, EndsAtItsDeadlineAndNotBefore) {
  for (const auto time : {std::chrono::nanoseconds(1), std::chrono::nanoseconds(2'300'000)}) {
    const Deadline deadline = Deadline::after(time);
    EXPECT_EQ(wait(deadline).value(), 0U);
    EXPECT_TRUE(deadline.has_passed());
  }
  EXPECT_EQ(wait(Deadline::at_ns(-1)).value(), 0U);
}

TEST_P(Polling, WatchesCanChangeAndEnd) {
  ASSERT_TRUE(epoll_.add(first_.get(), EPOLLIN, 1));
  os::signal_event(first_.get());
  ASSERT_TRUE(epoll_.modify(first_.get(), EPOLLOUT, 2));
  ASSERT_EQ(wait(kForever).value(), 1U);
  EXPECT_EQ(events_[0].data.u64, 2U);
  ASSERT_TRUE(epoll_.remove(first_.get()));
  EXPECT_EQ(wait(Deadline::passed()).value(), 0U);
}

TEST_P(Polling, MistakesAreTold) {
  ASSERT_TRUE(epoll_.add(first_.get(), EPOLLIN, 1));
  EXPECT_TRUE(epoll_.add(first_.get(), EPOLLIN, 1).failed_with(Code::already_exists));
  EXPECT_TRUE(epoll_.modify(second_.get(), EPOLLIN, 1).failed_with(Code::not_found));
  EXPECT_TRUE(epoll_.remove(second_.get()).failed_with(Code::not_found));
  EXPECT_TRUE(epoll_.add(-1, EPOLLIN, 1).failed_with(Code::os));
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(epoll_.add(file.get(), EPOLLIN, 1).failed_with(Code::permission_denied));
  const Epoll none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.wait(events_, Deadline::passed()).failed_with(Code::os));
  EXPECT_TRUE(epoll_.wait({}, Deadline::passed()).failed_with(Code::os));
}

TEST_P(Polling, LimitOfDescriptorsIsAnError) {
  const test::FileLimit limit;
  EXPECT_TRUE(Epoll::create().failed_with(Code::resource_exhausted));
}

TEST_P(Polling, AnotherThreadEndsTheWait) {
  ASSERT_TRUE(epoll_.add(first_.get(), EPOLLIN, 1));
  std::thread ringer([&] { os::signal_event(first_.get()); });
  EXPECT_EQ(wait(kForever).value(), 1U);
  ringer.join();
}

TEST_P(Polling, ASignalEndsTheWait) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> is_done{false};
  std::thread sleeper([&] {
    EXPECT_EQ(wait(kForever).value(), 0U);
    is_done.store(true);  // pairs with the load below
  });
  while (!is_done.load()) {
    ::pthread_kill(sleeper.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  sleeper.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Polling, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Older" : "Newer"; });

}  // namespace
}  // namespace vramlink
