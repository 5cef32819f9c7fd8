#include "support/spawned_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "support/pipes.hpp"

extern char** environ;

namespace vramlink::test {
namespace {

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

SpawnedProcess::SpawnedProcess(const std::string& role, const std::vector<std::string>& arguments,
                               int shared_fd) {
  const auto from_child = make_pipe();
  const auto to_child = make_pipe();
  std::vector<std::string> words{"/proc/self/exe", kRoleOption, role, std::to_string(::getpid())};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, from_child[1], kSayFd);
  ::posix_spawn_file_actions_adddup2(&actions, to_child[0], kHearFd);
  if (shared_fd >= 0) ::posix_spawn_file_actions_adddup2(&actions, shared_fd, kSharedFd);
  const int failure =
      ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  EXPECT_EQ(failure, 0) << std::strerror(failure);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(from_child[1]);
  ::close(to_child[0]);
  hear_fd_ = from_child[0];
  say_fd_ = to_child[1];
}

SpawnedProcess::~SpawnedProcess() {
  if (!reaped_) (void)kill_and_wait();
  ::close(hear_fd_);
  ::close(say_fd_);
}

void SpawnedProcess::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

std::uint8_t SpawnedProcess::wait_ready() {
  std::uint8_t word = 0;
  while (::read(hear_fd_, &word, 1) == -1 && errno == EINTR) {
  }
  return word;
}

std::uint8_t SpawnedProcess::poll_ready() {
  pollfd readable{hear_fd_, POLLIN, 0};
  return ::poll(&readable, 1, 0) == 1 && (readable.revents & POLLIN) != 0 ? wait_ready() : 0;
}

void SpawnedProcess::go(std::uint8_t word) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  while (::write(say_fd_, &word, 1) == -1 && errno == EINTR) {
  }
  ::signal(SIGPIPE, before);
}

SpawnedProcess::State SpawnedProcess::state() {
  if (reaped_) return State::ended;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid_) {
    if (WIFSTOPPED(status)) {
      stopped_ = true;
    } else if (WIFCONTINUED(status)) {
      stopped_ = false;
    } else {
      status_ = status;
      reaped_ = true;
      return State::ended;
    }
  }
  return stopped_ ? State::stopped : State::running;
}

void SpawnedProcess::resume() {
  signal(SIGCONT);
  int status = 0;
  while (!reaped_ && stopped_) {
    if (::waitpid(pid_, &status, WCONTINUED) != pid_) continue;
    stopped_ = false;
    if (!WIFCONTINUED(status)) {
      status_ = status;
      reaped_ = true;
    }
  }
}

int SpawnedProcess::kill_and_wait() {
  signal(SIGKILL);
  return wait();
}

int SpawnedProcess::wait() {
  while (!reaped_) {
    if (::waitpid(pid_, &status_, 0) == pid_) {
      reaped_ = true;
    } else if (errno != EINTR) {
      ADD_FAILURE() << "waitpid: " << std::strerror(errno);
      return -1;
    }
  }
  return exit_code_of(status_);
}

ChildLink enter_spawned_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  ::alarm(static_cast<unsigned>(SpawnedProcess::kWatchdog.count()));
  return {SpawnedProcess::kSayFd, SpawnedProcess::kHearFd};
}

}  // namespace vramlink::test
