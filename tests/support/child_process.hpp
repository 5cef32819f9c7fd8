// A forked child that runs a function of the test. Nobody sleeps: both sides talk through pipes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>

namespace vramlink::test {

/// The child's end.
class ChildLink {
 public:
  ChildLink(int say_fd, int hear_fd) noexcept : say_fd_(say_fd), hear_fd_(hear_fd) {}

  /// Says one byte to the parent's wait_ready().
  void ready(std::uint8_t word = 1) const;
  /// Waits for the parent's go() and returns its byte; ends the child if the parent is gone.
  [[nodiscard]] std::uint8_t wait_go() const;
  /// Waits until it is killed.
  [[noreturn]] void wait_forever() const;

 private:
  int say_fd_;
  int hear_fd_;
};

/// Ends a child without the destructors of the program. What a build with VRAMLINK_COVERAGE has
/// counted is written first; of a child that is killed it is lost.
[[noreturn]] void end_child(int code);

enum class ChildKind : std::uint8_t {
  own_process,  ///< the library works in it, as if the program had been started anew
  forked        ///< what it is: a fork, in which the library's objects are inert
};

/// Owns one child. The destructor kills and reaps it. The child ends with its parent, and with an
/// error of its own when the watchdog's time has passed.
class ChildProcess {
 public:
  using Body = std::function<int(const ChildLink&)>;
  static constexpr std::chrono::seconds kWatchdog{60};
  /// What wait() returns if the body returned 0 but an EXPECT in the child failed.
  static constexpr int kFailedExpectation = 97;

  /// Runs `body` in a child and ends it with the code that it returns; no destructor runs there
  /// except those of the body's own objects. Start it before the test has threads.
  explicit ChildProcess(const Body& body, ChildKind kind = ChildKind::own_process);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Waits for the child's ready() and returns its byte; 0, and the test fails, if it ended first.
  std::uint8_t wait_ready();
  /// Lets wait_go() in the child return `word`.
  void go(std::uint8_t word = 1);

  /// SIGKILL. The child stays a zombie until wait().
  void kill();
  /// Waits until the child has ended, without reaping it.
  void wait_until_zombie();
  /// SIGSTOP; returns when the child has stopped.
  void stop();
  /// SIGCONT; returns when the child runs again.
  void resume();
  /// Waits for the end and reaps: the exit code, or 128 + the signal that ended it.
  int wait();

 private:
  pid_t pid_ = -1;
  int say_fd_ = -1;
  int hear_fd_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

}  // namespace vramlink::test
