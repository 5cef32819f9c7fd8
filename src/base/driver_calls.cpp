// See driver_calls.hpp.
#include "base/driver_calls.hpp"

#include "base/assert.hpp"

namespace vramlink::base {
namespace {

constinit thread_local bool driver_calls_forbidden = false;

}  // namespace

void forbid_driver_calls() noexcept { driver_calls_forbidden = true; }

#if VRAMLINK_STEPS
void expect_driver_calls_allowed() noexcept { VRAMLINK_ASSERT(!driver_calls_forbidden); }
#endif

}  // namespace vramlink::base
