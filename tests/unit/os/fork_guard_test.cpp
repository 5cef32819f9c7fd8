#include "os/fork_guard.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

class ForkGuard : public test::LeakCheck {};

TEST_F(ForkGuard, TheProcessItselfIsNoChild) {
  EXPECT_FALSE(os::in_forked_child());
  EXPECT_TRUE(os::require_not_forked("open"));
  EXPECT_TRUE(os::arm_fork_guard());
  EXPECT_FALSE(os::in_forked_child());
}

TEST_F(ForkGuard, ChildrenAndTheirChildrenAre) {
  ASSERT_TRUE(os::arm_fork_guard());
  test::ChildProcess child(
      [](const test::ChildLink&) {
        EXPECT_TRUE(os::in_forked_child());
        const auto required = os::require_not_forked("open");
        EXPECT_TRUE(required.failed_with(Code::wrong_state));
        EXPECT_STREQ(required.error().operation(), "open");
        EXPECT_FALSE(required.error().facts()->remedy.empty());
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(os::in_forked_child() ? 0 : 1);
        int status = -1;
        ::waitpid(pid, &status, 0);
        return status;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(os::in_forked_child());
}

TEST_F(ForkGuard, AChildCanBecomeAProcessOfItsOwn) {
  ASSERT_TRUE(os::arm_fork_guard());
  test::ChildProcess child([](const test::ChildLink&) {
    EXPECT_FALSE(os::in_forked_child());
    EXPECT_TRUE(os::require_not_forked("open"));
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(os::in_forked_child() ? 0 : 1);
    int status = -1;
    ::waitpid(pid, &status, 0);
    return status;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ForkGuard, ThreadsMayArmItTogether) {
  constexpr int kThreadCount = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreadCount);
  for (int i = 0; i < kThreadCount; ++i) {
    threads.emplace_back([] {
      EXPECT_TRUE(os::arm_fork_guard());
      EXPECT_FALSE(os::in_forked_child());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vramlink
