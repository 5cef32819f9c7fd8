// Calls on threads of our own, which no exception may leave.
#pragma once

#include <new>

#include "base/log.hpp"

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

}  // namespace vramlink::runtime
