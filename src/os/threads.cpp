// os: threads that no signal handler runs on.
#include "os/threads.hpp"

#include <pthread.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "os/timespec.hpp"

namespace vramlink::os {

SignalsBlocked::SignalsBlocked() noexcept : before_{} {
  sigset_t blocked;
  ::sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    ::sigdelset(&blocked, fault);
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void name_this_thread(const char* name) noexcept {
  std::array<char, 16> cut{};  // the kernel refuses longer names
  std::strncpy(cut.data(), name, cut.size() - 1);
  ::pthread_setname_np(::pthread_self(), cut.data());
}

void nap_until(Deadline deadline) noexcept {
  const timespec until = to_timespec(deadline.time_ns());
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace vramlink::os
