// Named steps of the protocols, so that tests can kill or stop a process exactly there.
//
// A step costs one relaxed load where VRAMLINK_STEPS is 1 (builds with tests) and nothing
// elsewhere.
#pragma once

#if VRAMLINK_STEPS

#include <atomic>

namespace vramlink::base {

using StepHook = void (*)(const char* step);
/// Set by tests before other threads start; null: no hook.
extern std::atomic<StepHook> step_hook;

inline void step(const char* name) noexcept {
  if (StepHook hook = step_hook.load(std::memory_order_relaxed)) [[unlikely]]
    hook(name);
}

}  // namespace vramlink::base

#define VRAMLINK_STEP(name) ::vramlink::base::step(name)
#else
#define VRAMLINK_STEP(name) void(0)
#endif
