// Something that happens exactly at a named step, in the thread that reaches it: races without
// threads, the same every time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/steps.hpp"

#if VRAMLINK_STEPS

namespace vramlink::test {

/// While it lives, the first arrival at each of the steps runs its action. One at a time a process.
class StepActions {
 public:
  using Action = std::function<void()>;
  using List = std::vector<std::pair<const char*, Action>>;

  StepActions(const char* step, Action action) : StepActions(List{{step, std::move(action)}}) {}
  explicit StepActions(List list) : state_(keep(std::move(list))) {
    current().store(state_, std::memory_order_release);
    base::step_hook.store(&StepActions::on_step, std::memory_order_release);
  }
  StepActions(const StepActions&) = delete;
  StepActions& operator=(const StepActions&) = delete;
  /// No action starts after this but in a thread that is at a step now.
  ~StepActions() {
    base::step_hook.store(nullptr, std::memory_order_release);
    current().store(nullptr, std::memory_order_release);
  }

  /// Every action has begun.
  [[nodiscard]] bool all_done() const noexcept {
    for (const auto& done : state_->done) {
      if (!done.load(std::memory_order_acquire)) return false;
    }
    return true;
  }

 private:
  struct State {
    explicit State(List actions) : list(std::move(actions)), done(list.size()) {}
    const List list;
    std::vector<std::atomic<bool>> done;
  };

  /// Lives as long as the program: one of the library's threads may be looking at it still.
  static State* keep(List list) {
    static std::vector<std::unique_ptr<State>>& all = *new std::vector<std::unique_ptr<State>>;
    return all.emplace_back(std::make_unique<State>(std::move(list))).get();
  }
  static std::atomic<State*>& current() {
    static std::atomic<State*> state{nullptr};
    return state;
  }
  static void on_step(const char* step) {
    State* state = current().load(std::memory_order_acquire);
    if (state == nullptr) return;
    for (std::size_t i = 0; i < state->list.size(); ++i) {
      if (std::string_view(step) != state->list[i].first) continue;
      if (!state->done[i].exchange(true, std::memory_order_acq_rel)) {
        return state->list[i].second();
      }
    }
  }

  State* const state_;
};

}  // namespace vramlink::test

#endif
