// cli: SIGINT and SIGTERM as an orderly end.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace vramlink::cli {

/// Blocks SIGINT and SIGTERM in this thread and those started later, and takes them in a thread of
/// its own. Once one came, that thread calls the interrupt function and ends the main thread's
/// blocking system calls with EINTR, every 20 ms until told to stop: so no wait is missed that
/// began a moment too late. Another signal, half a second after the first or later, ends the
/// process at once. Make it first, in the main thread. Throws std::system_error if there are no
/// descriptors or threads for it.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  [[nodiscard]] bool stopped() const noexcept { return signal_.load() != 0; }
  /// kInterrupted or kTerminated; kSuccess if no signal came.
  [[nodiscard]] int exit_code() const noexcept;
  /// Waits until CLOCK_MONOTONIC reaches `time_ns`; false if a signal came first.
  [[nodiscard]] bool sleep_until(std::int64_t time_ns) const noexcept;

  /// While it lives, `interrupt` is called after a signal came, from the signal thread.
  class Interrupt {
   public:
    Interrupt(StopSignals& signals, std::function<void()> interrupt);
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;
    ~Interrupt();

   private:
    StopSignals& signals_;
  };

 private:
  void run();
  void set_interrupt(std::function<void()> interrupt);

  pthread_t main_thread_;
  std::atomic<int> signal_{0};
  int signal_fd_ = -1;
  int end_fd_ = -1;
  std::mutex mutex_;
  std::function<void()> interrupt_;
  std::thread thread_;
};

}  // namespace vramlink::cli
