// cli: the signal thread.
#include "stop_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>

#include <vramlink/deadline.hpp>

#include "exit_status.hpp"
#include "timespec.hpp"

namespace vramlink::cli {
namespace {

constexpr int kRepeatMilliseconds = 20;
constexpr std::int64_t kOneSignalNs = 500'000'000;

void wake_only(int) {}

sigset_t stop_set() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() : main_thread_(::pthread_self()) {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  struct sigaction wake {};
  wake.sa_handler = wake_only;  // without SA_RESTART: it ends blocking calls
  ::sigaction(SIGUSR1, &wake, nullptr);
  signal_fd_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  end_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (signal_fd_ < 0 || end_fd_ < 0) {
    throw std::system_error(errno, std::generic_category(), "take signals");
  }
  thread_ = std::thread([this] { run(); });
}

StopSignals::~StopSignals() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(end_fd_, &one, sizeof one));
  thread_.join();
  ::close(signal_fd_);
  ::close(end_fd_);
}

int StopSignals::exit_code() const noexcept {
  if (!stopped()) return kSuccess;
  return signal_.load() == SIGTERM ? kTerminated : kInterrupted;
}

bool StopSignals::sleep_until(std::int64_t time_ns) const noexcept {
  const std::timespec until = to_timespec(time_ns);
  while (!stopped()) {
    if (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != EINTR) {
      return !stopped();
    }
  }
  return false;
}

void StopSignals::run() {
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &wake, nullptr);
  std::int64_t first_ns = 0;
  while (true) {
    std::array<pollfd, 2> fds{{{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), stopped() ? kRepeatMilliseconds : -1);
    if (ready < 0 && errno != EINTR) std::abort();
    if (ready > 0 && (fds[1].revents & POLLIN) != 0) return;
    if (ready > 0 && (fds[0].revents & POLLIN) != 0) {
      signalfd_siginfo info{};
      if (::read(signal_fd_, &info, sizeof info) == sizeof info) {
        // Who sends one to a process and its group (GNU timeout does) means one.
        if (stopped() && monotonic_ns() - first_ns > kOneSignalNs) ::_exit(exit_code());
        if (!stopped()) first_ns = monotonic_ns();
        signal_.store(static_cast<int>(info.ssi_signo));
      }
    }
    if (!stopped()) continue;
    ::pthread_kill(main_thread_, SIGUSR1);
    const std::lock_guard lock(mutex_);
    if (interrupt_) interrupt_();
  }
}

void StopSignals::set_interrupt(std::function<void()> interrupt) {
  const std::lock_guard lock(mutex_);
  interrupt_ = std::move(interrupt);
}

StopSignals::Interrupt::Interrupt(StopSignals& signals, std::function<void()> interrupt)
    : signals_(signals) {
  signals_.set_interrupt(std::move(interrupt));
}

StopSignals::Interrupt::~Interrupt() { signals_.set_interrupt({}); }

}  // namespace vramlink::cli
