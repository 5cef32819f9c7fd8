#include "os/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink {
namespace {

using os::Life;
using os::life_of;
using os::ProcessIdentity;
using os::UniqueFd;

class Process : public test::LeakCheck {
 protected:
  static int idle(const test::ChildLink& parent) {
    parent.ready();
    parent.wait_forever();
  }
};

TEST_F(Process, KnowsItself) {
  const ProcessIdentity self = os::identify_self().value();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_NE(self.boot_id, (std::array<std::uint8_t, 16>{}));
  EXPECT_NE(self.pid_namespace, 0U);
  EXPECT_NE(self.start_time_ticks, 0U);
  EXPECT_EQ(self.reserved, 0U);
  EXPECT_EQ(self, os::identify_self().value());
  EXPECT_EQ(self, os::identify(::getpid()).value());
  EXPECT_EQ(life_of(self), Life::alive);
}

TEST_F(Process, EachPartOfAnIdentityCounts) {
  const ProcessIdentity self = os::identify_self().value();
  ProcessIdentity other = self;
  other.boot_id[0] ^= 1U;
  EXPECT_EQ(life_of(other), Life::dead);
  other = self;
  ++other.pid_namespace;
  EXPECT_EQ(life_of(other), Life::unknown);
  other = self;
  other.start_time_ticks += 1000;
  EXPECT_EQ(life_of(other), Life::dead) << "the pid belongs to another process";
  for (const std::int32_t pid : {0, -1}) {
    other = self;
    other.pid = pid;
    EXPECT_EQ(life_of(other), Life::unknown);
  }
}

TEST_F(Process, PidsBelowOneAreRefused) {
  for (const pid_t pid : {0, -1}) {
    EXPECT_TRUE(os::identify(pid).failed_with(Code::invalid_argument));
    EXPECT_TRUE(os::open_pidfd(pid).failed_with(Code::invalid_argument));
  }
}

TEST_F(Process, DeathIsSeenFromZombieOn) {
  test::ChildProcess child(idle);
  child.wait_ready();
  const ProcessIdentity identity = os::identify(child.pid()).value();
  EXPECT_EQ(life_of(identity), Life::alive);
  child.stop();
  EXPECT_EQ(life_of(identity), Life::alive) << "stopped is not dead";
  child.kill();
  child.wait_until_zombie();
  EXPECT_EQ(life_of(identity), Life::dead);
  EXPECT_TRUE(os::identify(child.pid()));
  (void)child.wait();
  EXPECT_EQ(life_of(identity), Life::dead);
  EXPECT_TRUE(os::identify(child.pid()).failed_with(Code::peer_gone));
  EXPECT_TRUE(os::open_pidfd(child.pid()).failed_with(Code::peer_gone));
  EXPECT_EQ(os::process_name(child.pid()), "");
}

TEST_F(Process, PidfdTellsWhenAProcessHasEnded) {
  test::ChildProcess child(idle);
  child.wait_ready();
  const UniqueFd pidfd = os::open_pidfd(child.pid()).value();
  EXPECT_EQ(::fcntl(pidfd.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_TRUE(os::is_pidfd(pidfd.get()));
  EXPECT_EQ(os::pid_of_pidfd(pidfd.get()).value(), child.pid());
  EXPECT_FALSE(os::pidfd_exited(pidfd.get()));
  child.stop();
  EXPECT_FALSE(os::pidfd_exited(pidfd.get()));
  child.kill();
  child.wait_until_zombie();
  EXPECT_TRUE(os::pidfd_exited(pidfd.get()));
  (void)child.wait();
  EXPECT_TRUE(os::pidfd_exited(pidfd.get()));
  EXPECT_TRUE(os::is_pidfd(pidfd.get()));
  EXPECT_EQ(os::pid_of_pidfd(pidfd.get()).value(), -1);
}

TEST_F(Process, OtherDescriptorsAreNoPidfds) {
  const UniqueFd event = os::event_fd().value();
  const UniqueFd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  const UniqueFd directory(::open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const int fd : {event.get(), file.get(), directory.get(), -1}) {
    EXPECT_FALSE(os::is_pidfd(fd));
    EXPECT_TRUE(os::pid_of_pidfd(fd).failed_with(Code::invalid_argument));
  }
  EXPECT_FALSE(os::pidfd_exited(-1));
}

TEST_F(Process, LimitOfDescriptorsProvesNothing) {
  const ProcessIdentity self = os::identify_self().value();
  const test::FileLimit limit;
  EXPECT_TRUE(os::identify_self().failed_with(Code::resource_exhausted));
  EXPECT_EQ(life_of(self), Life::unknown);
  EXPECT_TRUE(os::open_pidfd(::getpid()).failed_with(Code::resource_exhausted));
}

TEST_F(Process, NamesThatLookLikeFieldsDoNotConfuse) {
  test::ChildProcess child([](const test::ChildLink& parent) {
    const ProcessIdentity before = os::identify_self().value();
    for (const char* name : {"a) b (c", ") Z 1 1 1 1", "", "((((", "tab\there"}) {
      ::prctl(PR_SET_NAME, name);
      EXPECT_EQ(os::identify_self().value(), before) << name;
      EXPECT_EQ(life_of(before), Life::alive) << name;
    }
    EXPECT_EQ(os::process_name(::getpid()), "tab?here");
    return idle(parent);
  });
  child.wait_ready();
  EXPECT_EQ(os::process_name(child.pid()), "tab?here");
}

TEST_F(Process, AliveWhileAnyThreadIs) {
  test::ChildProcess child([](const test::ChildLink& parent) {
    std::thread([&parent] {
      (void)parent.wait_go();
      ::_exit(3);
    }).detach();
    parent.ready();
    ::syscall(SYS_exit, 0);  // the first thread ends, the process does not
    return 1;
  });
  child.wait_ready();
  const UniqueFd pidfd = os::open_pidfd(child.pid()).value();
  const ProcessIdentity identity = os::identify(child.pid()).value();
  const std::string stat_path = "/proc/" + std::to_string(child.pid()) + "/stat";
  for (std::string stat; stat.find(") Z ") == std::string::npos;) {
    std::getline(std::ifstream(stat_path), stat);
  }
  EXPECT_EQ(life_of(identity), Life::alive);
  EXPECT_FALSE(os::pidfd_exited(pidfd.get()));
  child.go();
  child.wait_until_zombie();
  EXPECT_EQ(life_of(identity), Life::dead);
  EXPECT_TRUE(os::pidfd_exited(pidfd.get()));
  EXPECT_EQ(child.wait(), 3);
}

constexpr int kNotAllowed = 77;

/// Runs `body` in a grandchild that lives in new namespaces, and returns its exit code.
template <class Body>
int run_in_namespaces(int flags, Body body) {
  test::ChildProcess child([&](const test::ChildLink&) {
    if (::unshare(flags) == -1) return kNotAllowed;
    if ((flags & CLONE_NEWTIME) != 0) {
      std::ofstream offsets("/proc/self/timens_offsets");
      offsets << "boottime 86400 5000000\n" << std::flush;
      if (!offsets) return kNotAllowed;
    }
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body() ? 0 : 1);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
  });
  return child.wait();
}

TEST_F(Process, TimeNamespacesDoNotKill) {
  const ProcessIdentity self = os::identify_self().value();
  const int code = run_in_namespaces(
      CLONE_NEWTIME, [&] { return os::identify_self() && life_of(self) == Life::alive; });
  if (code == kNotAllowed) GTEST_SKIP() << "this user may not make a time namespace";
  EXPECT_EQ(code, 0);
}

TEST_F(Process, ProcOfAnotherPidNamespaceProvesNothing) {
  const ProcessIdentity self = os::identify_self().value();
  const int code = run_in_namespaces(CLONE_NEWPID, [&] {
    return os::identify_self().failed_with(Code::unsupported) && life_of(self) == Life::unknown;
  });
  if (code == kNotAllowed) GTEST_SKIP() << "this user may not make a pid namespace";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace vramlink
