// Calls on threads of our own, which no exception may leave.
#pragma once

#include <chrono>
#include <new>

#include <vramlink/deadline.hpp>

#include "base/log.hpp"
#include "os/threads.hpp"

namespace vramlink::runtime {

/// Runs it; false if there was no memory for it. Then what it was to do is not done or done in
/// part: one peer waits until its deadline, or a page stays, and the process goes on. Nothing else
/// throws.
template <class Work>
bool call(const Work& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    base::report_failure("work for a peer", Error(Code::out_of_memory, "allocate"));
    return false;
  }
}

/// Runs it, again and again until there is memory for it: for what can neither fail nor be left
/// undone, as the end of an object. What throws must have changed nothing.
template <class Work>
void persist(const Work& work) noexcept {
  constexpr std::chrono::milliseconds kNap{1};
  while (true) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      os::nap_until(Deadline::after(kNap));
    }
  }
}

}  // namespace vramlink::runtime
