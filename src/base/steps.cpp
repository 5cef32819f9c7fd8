// base: the hook that tests install; empty in builds without named steps.
#include "base/steps.hpp"

#if VRAMLINK_STEPS

namespace vramlink::base {

std::atomic<StepHook> step_hook{nullptr};

}  // namespace vramlink::base

#endif
