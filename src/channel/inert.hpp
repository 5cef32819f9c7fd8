// Objects that a forked child inherited: nothing of them may run.
#pragma once

#include <memory>
#include <utility>

#include "os/fork_guard.hpp"

namespace vramlink::inline v0::channel {

/// In a forked child: gives the reference up without ending what it refers to, whose threads, locks
/// and mappings are the parent's. Returns whether that was so.
template <class T>
bool leak_if_forked(std::shared_ptr<T>& object) noexcept {
  if (!os::in_forked_child()) return false;
  alignas(std::shared_ptr<T>) std::byte grave[sizeof(std::shared_ptr<T>)];
  new (grave) std::shared_ptr<T>(std::move(object));  // never destroyed: the count stays above 0
  return true;
}

}  // namespace vramlink::inline v0::channel
