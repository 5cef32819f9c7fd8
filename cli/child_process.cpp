// cli: starting, hearing and ending of children.
#include "child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace vramlink::cli {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";

void close_fd(int& fd) noexcept {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

// The child begins with no signal blocked, whatever this process blocks.
int spawn(pid_t& pid, char* const* arguments, int input_fd, int output_fd) noexcept {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawn(&pid, kThisProgram, &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

std::optional<ChildProcess> ChildProcess::start(const std::vector<std::string>& arguments) {
  std::string program = "vramlink";
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers{program.data()};
  for (std::string& each : copies) pointers.push_back(each.data());
  pointers.push_back(nullptr);

  std::array<int, 2> control{-1, -1};
  std::array<int, 2> report{-1, -1};
  if (::pipe2(control.data(), O_CLOEXEC) != 0) return std::nullopt;
  if (::pipe2(report.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    for (int& fd : control) close_fd(fd);
    errno = error;
    return std::nullopt;
  }
  pid_t pid = -1;
  const int error = spawn(pid, pointers.data(), control[0], report[1]);
  close_fd(control[0]);
  close_fd(report[1]);
  if (error != 0) {
    close_fd(control[1]);
    close_fd(report[0]);
    errno = error;
    return std::nullopt;
  }
  return ChildProcess(pid, control[1], report[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      control_fd_(std::exchange(other.control_fd_, -1)),
      report_fd_(std::exchange(other.report_fd_, -1)),
      exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    kill();
    pid_ = std::exchange(other.pid_, -1);
    control_fd_ = std::exchange(other.control_fd_, -1);
    report_fd_ = std::exchange(other.report_fd_, -1);
    exit_code_ = other.exit_code_;
  }
  return *this;
}

ChildProcess::~ChildProcess() { kill(); }

std::size_t ChildProcess::read_bytes(void* target, std::size_t size) noexcept {
  ssize_t count = 0;
  do {
    count = ::read(report_fd_, target, size);
  } while (count < 0 && errno == EINTR);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void ChildProcess::close_control() noexcept { close_fd(control_fd_); }

void ChildProcess::kill() noexcept {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  reap();
}

void ChildProcess::reap() noexcept {
  close_fd(control_fd_);
  close_fd(report_fd_);
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  exit_code_ = WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
  pid_ = -1;
}

}  // namespace vramlink::cli
