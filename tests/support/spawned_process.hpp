// A child that is this test program started anew, in a role of its own. Unlike a fork it may be
// started while the test has threads.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/child_process.hpp"

namespace vramlink::test {

/// Owns one child. The destructor kills and reaps it.
class SpawnedProcess {
 public:
  /// argv[1] of a child; main() hands it to child_link() and runs the role.
  static constexpr const char* kRoleOption = "--role";

  /// Starts `role` with `arguments`; descriptor `shared_fd` of ours becomes kSharedFd there.
  SpawnedProcess(const std::string& role, const std::vector<std::string>& arguments, int shared_fd);
  SpawnedProcess(const SpawnedProcess&) = delete;
  SpawnedProcess& operator=(const SpawnedProcess&) = delete;
  ~SpawnedProcess();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  /// Waits for the child's ready() and returns its byte; 0 if it ended first.
  std::uint8_t wait_ready();
  /// The byte of a ready() that was said already, or 0.
  std::uint8_t poll_ready();
  void go(std::uint8_t word = 1);

  enum class State : std::uint8_t { running, stopped, ended };
  /// Never blocks. A stop is reported until resume().
  [[nodiscard]] State state();
  /// SIGCONT; returns when it runs again.
  void resume();
  /// SIGKILL, unless it has ended; waits for the end. Exit code, or 128 + the signal.
  int kill_and_wait();
  /// Waits for the end.
  int wait();

  static constexpr int kSayFd = 100;
  static constexpr int kHearFd = 101;
  static constexpr int kSharedFd = 102;
  static constexpr std::chrono::seconds kWatchdog{120};

 private:
  pid_t pid_ = -1;
  int say_fd_ = -1;
  int hear_fd_ = -1;
  int status_ = 0;
  bool stopped_ = false;
  bool reaped_ = false;
};

/// In a spawned child, first of all: it ends with its parent and after the watchdog's time.
[[nodiscard]] ChildLink enter_spawned_child();

}  // namespace vramlink::test
