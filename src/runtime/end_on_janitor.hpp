// Objects whose end may call a driver: wherever their last owner lets go, they end on the janitor's
// thread, and whoever let go waits for nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <memory>
#include <utility>

#include <vramlink/deadline.hpp>

#include "os/fork_guard.hpp"
#include "runtime/call.hpp"
#include "runtime/process_state.hpp"

namespace vramlink::runtime {

/// Must not end before the janitor, which asks again and again, was told true.
template <class T>
concept Lingers = requires(T& object) {
  { object.may_end() } -> std::same_as<bool>;
};
/// Wants to know when its last owner lets go, on that owner's thread.
template <class T>
concept HearsOfTheEnd = requires(T& object) {
  object.let_go();
};

/// The deleter of such an object. Keeps the process's state until the object has ended.
class EndOnJanitor {
 public:
  explicit EndOnJanitor(std::shared_ptr<ProcessState> process) noexcept
      : process_(std::move(process)) {}

  template <class T>
  void operator()(T* object) noexcept {
    // Out of here: a weak reference keeps the deleter, and is not to keep the process's state.
    const std::shared_ptr<ProcessState> process = std::move(process_);
    if (os::in_forked_child()) return;  // what it has is the parent's
    if constexpr (HearsOfTheEnd<T>) object->let_go();
    std::shared_ptr<std::unique_ptr<T>> held;
    persist([&] { held = std::make_shared<std::unique_ptr<T>>(); });
    held->reset(object);
    persist([&] { process->janitor().post(Job<T>{held, process, kNapFirst}); });
  }

 private:
  static constexpr std::chrono::milliseconds kNapFirst{1};
  static constexpr std::chrono::milliseconds kNapLast{50};

  template <class T>
  struct Job {
    /// Emptied by the job itself: whoever has a copy of it for a moment longer ends nothing.
    std::shared_ptr<std::unique_ptr<T>> held;
    std::shared_ptr<ProcessState> process;
    std::chrono::milliseconds nap;

    void operator()() {
      if constexpr (Lingers<T>) {
        if (!(*held)->may_end()) {
          const auto next = std::min(2 * nap, kNapLast);
          return persist([&] { process->janitor().post_at(nap, Job{held, process, next}); });
        }
      }
      held->reset();
      process.reset();
    }
  };

  std::shared_ptr<ProcessState> process_;
};

template <class T>
[[nodiscard]] std::shared_ptr<T> ends_on_janitor(std::shared_ptr<ProcessState> process,
                                                 std::unique_ptr<T> object) {
  return std::shared_ptr<T>(object.release(), EndOnJanitor(std::move(process)));
}

}  // namespace vramlink::runtime
