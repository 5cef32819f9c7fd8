#include "support/child_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "os/fork_guard.hpp"
#include "support/pipes.hpp"

#ifdef VRAMLINK_COVERAGE
extern "C" void __gcov_dump();  // NOLINT: the compiler's name; its header does not say extern "C"
#endif

namespace vramlink::test {
namespace {

constexpr int kParentGone = 98;

/// The byte, or -1 at the end of the pipe.
int read_byte(int fd) {
  std::uint8_t byte = 0;
  for (;;) {
    const ssize_t count = ::read(fd, &byte, 1);
    if (count == 1) return byte;
    if (count == 0 || errno != EINTR) return -1;
  }
}

void write_byte(int fd, std::uint8_t byte) {
  while (::write(fd, &byte, 1) == -1 && errno == EINTR) {
  }
}

[[noreturn]] void run_child(const ChildProcess::Body& body, ChildKind kind, const ChildLink& link,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kParentGone);
  ::signal(SIGPIPE, SIG_IGN);  // a parent that is gone is noticed by wait_go()
  ::alarm(static_cast<unsigned>(ChildProcess::kWatchdog.count()));
  if (kind == ChildKind::own_process) os::become_own_process();
  const bool had_failed = ::testing::Test::HasFailure();
  int code = body(link);
  if (code == 0 && !had_failed && ::testing::Test::HasFailure()) {
    code = ChildProcess::kFailedExpectation;
  }
  end_child(code);
}

}  // namespace

void end_child(int code) {
  std::fflush(nullptr);
#ifdef VRAMLINK_COVERAGE
  ::__gcov_dump();
#endif
  ::_exit(code);
}

void ChildLink::ready(std::uint8_t word) const { write_byte(say_fd_, word); }

std::uint8_t ChildLink::wait_go() const {
  const int word = read_byte(hear_fd_);
  if (word < 0) ::_exit(kParentGone);
  return static_cast<std::uint8_t>(word);
}

void ChildLink::wait_forever() const {
  for (;;) ::pause();
}

ChildProcess::ChildProcess(const Body& body, ChildKind kind) {
  const auto from_child = make_pipe();
  const auto to_child = make_pipe();
  std::fflush(nullptr);  // else the child writes the parent's pending output once more
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(from_child[0]);
    ::close(to_child[1]);
    run_child(body, kind, ChildLink(from_child[1], to_child[0]), parent);
  }
  EXPECT_GT(pid_, 0) << std::strerror(errno);
  ::close(from_child[1]);
  ::close(to_child[0]);
  hear_fd_ = from_child[0];
  say_fd_ = to_child[1];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !reaped_) {
    kill();
    (void)wait();
  }
  ::close(hear_fd_);
  ::close(say_fd_);
}

std::uint8_t ChildProcess::wait_ready() {
  const int limit_ms =
      static_cast<int>(std::chrono::milliseconds(kWatchdog + std::chrono::seconds(5)).count());
  pollfd readable{hear_fd_, POLLIN, 0};
  int count = 0;
  do {
    count = ::poll(&readable, 1, limit_ms);
  } while (count == -1 && errno == EINTR);
  const int word = count == 1 ? read_byte(hear_fd_) : -1;
  if (word >= 0) return static_cast<std::uint8_t>(word);
  ADD_FAILURE() << "child " << pid_ << (count == 1 ? " ended" : " hung") << " before it was ready";
  return 0;
}

void ChildProcess::go(std::uint8_t word) {
  // MSG_NOSIGNAL is for sockets only: a child that ended must not end the test program.
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  write_byte(say_fd_, word);
  ::signal(SIGPIPE, before);
}

void ChildProcess::kill() {
  if (!reaped_) ::kill(pid_, SIGKILL);
}

void ChildProcess::wait_until_zombie() {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == -1 &&
         errno == EINTR) {
  }
}

void ChildProcess::stop() {
  ::kill(pid_, SIGSTOP);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT) == -1 &&
         errno == EINTR) {
  }
  EXPECT_EQ(info.si_code, CLD_STOPPED) << "child " << pid_ << " ended instead of stopping";
}

void ChildProcess::resume() {
  ::kill(pid_, SIGCONT);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WCONTINUED | WEXITED | WNOWAIT) == -1 &&
         errno == EINTR) {
  }
}

int ChildProcess::wait() {
  while (!reaped_) {
    if (::waitpid(pid_, &status_, 0) == pid_) {
      reaped_ = true;
    } else if (errno != EINTR) {
      ADD_FAILURE() << "waitpid: " << std::strerror(errno);
      return -1;
    }
  }
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

}  // namespace vramlink::test
