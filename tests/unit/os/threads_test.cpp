#include "os/threads.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "support/leak_check.hpp"

namespace vramlink {
namespace {

class Threads : public test::LeakCheck {};

TEST_F(Threads, RunWithTheirNameAndWithoutSignals) {
  std::string name;
  bool has_user_signals = true;
  bool has_faults = false;
  auto value = std::make_unique<int>(5);  // bodies may be move-only
  std::thread thread = os::start_thread("a name of more than 15", [&, value = std::move(value)] {
    std::array<char, 32> text{};
    ::pthread_getname_np(::pthread_self(), text.data(), text.size());
    name = text.data();
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    has_user_signals = false;
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF, SIGRTMIN}) {
      if (::sigismember(&blocked, signal) == 0) has_user_signals = true;
    }
    has_faults = true;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      if (::sigismember(&blocked, signal) == 1) has_faults = false;
    }
    EXPECT_EQ(*value, 5);
  });
  thread.join();
  EXPECT_EQ(name, "a name of more ");
  EXPECT_FALSE(has_user_signals);
  EXPECT_TRUE(has_faults);
}

TEST_F(Threads, TheStartersSignalsStayAsTheyWere) {
  sigset_t before;
  sigset_t after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  os::start_thread("short", [] {}).join();
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal)) << signal;
  }
}

TEST_F(Threads, NoThreadLeftIsAnError) {
  pthread_attr_t before;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  pthread_attr_t huge;
  ASSERT_EQ(::pthread_attr_init(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50U), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  auto thread = os::launch_thread("x", [] {});
  const bool has_thrown = [] {
    try {
      os::start_thread("x", [] {}).join();
      return false;
    } catch (const Exception& exception) {
      return exception.error().code() == Code::resource_exhausted;
    }
  }();
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  ::pthread_attr_destroy(&huge);
  ::pthread_attr_destroy(&before);
  ASSERT_TRUE(thread.failed_with(Code::resource_exhausted));
  EXPECT_EQ(thread.error().origin(), Origin::os);
  EXPECT_EQ(thread.error().native(), EAGAIN);
  EXPECT_EQ(thread.error().facts()->subject, "x");
  EXPECT_TRUE(has_thrown);
}

TEST_F(Threads, NapsEndAtTheirDeadline) {
  os::nap_until(Deadline::passed());
  os::nap_until(Deadline::at_ns(-1));
  const Deadline deadline = Deadline::after(std::chrono::microseconds(200));
  os::nap_until(deadline);
  EXPECT_TRUE(deadline.has_passed());
  os::cpu_relax();
}

}  // namespace
}  // namespace vramlink
