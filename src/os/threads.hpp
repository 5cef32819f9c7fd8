// The library's own threads, and short sleeps.
#pragma once

#include <csignal>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include <vramlink/deadline.hpp>
#include <vramlink/result.hpp>

namespace vramlink::os {

/// Blocks signals in the calling thread while it lives, so that a thread started meanwhile begins
/// with them blocked: the program's handlers never run on our threads. Signals that a fault raises
/// stay as they are, for crash reporters.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked();

 private:
  sigset_t before_;
};

/// Names the calling thread in ps and debuggers: the first 15 bytes of `name`.
void name_this_thread(const char* name) noexcept;

/// Starts a thread that runs `body`, with its name set and signals blocked. `name` is static text;
/// `body` must not throw. `resource_exhausted` if the system has no thread left.
template <class Body>
[[nodiscard]] Result<std::thread> launch_thread(const char* name, Body&& body) {
  const SignalsBlocked blocked;
  try {
    return std::thread([name, run = std::decay_t<Body>(std::forward<Body>(body))]() mutable {
      name_this_thread(name);
      run();
    });
  } catch (const std::system_error& failure) {
    return Error(Code::resource_exhausted, "start_thread")
        .about(name)
        .because(failure.code().message())
        .remedy("raise the limit of processes (ulimit -u, pids.max of the cgroup)")
        .from(Origin::os, failure.code().value());
  }
}

/// launch_thread() for callers that cannot go on without the thread: throws Exception.
template <class Body>
[[nodiscard]] std::thread start_thread(const char* name, Body&& body) {
  return launch_thread(name, std::forward<Body>(body)).value();
}

/// Sleeps until the deadline, signals notwithstanding.
void nap_until(Deadline deadline) noexcept;

/// One turn of a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace vramlink::os
