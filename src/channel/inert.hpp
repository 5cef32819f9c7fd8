// Objects that a forked child inherited: nothing of them may run, and what they know may be told.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
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

/// A value that its owner changes under a lock, and that can be told in a forked child, where that
/// lock may be one that another thread of the parent held. A fork in the midst of a change finds
/// the value of before or that of after it, and no mixture.
template <class T>
class ForkValue {
 public:
  ForkValue() noexcept = default;
  explicit ForkValue(const T& value) noexcept : places_{value, value} {}
  /// Under the owner's lock.
  void set(const T& value) noexcept {
    const std::size_t other = 1 - current_.load(std::memory_order_relaxed);
    places_[other] = value;
    current_.store(other, std::memory_order_release);  // pairs with the load in get()
  }
  /// Under the owner's lock, or in a forked child.
  [[nodiscard]] const T& get() const noexcept {
    return places_[current_.load(std::memory_order_acquire)];
  }

 private:
  std::array<T, 2> places_{};
  std::atomic<std::size_t> current_{0};
};

}  // namespace vramlink::inline v0::channel
