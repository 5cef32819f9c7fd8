// Which threads may call a driver. The reactor may not: it has to run while every driver call of
// the process stands still, because only its store can end what they wait for.
#pragma once

namespace vramlink::base {

/// From here on the calling thread calls no driver.
void forbid_driver_calls() noexcept;

#if VRAMLINK_STEPS
/// Stands in every function of a back end that may call a driver, destructors included: ends the
/// process on a thread that must not be there. Looks in builds with tests only.
void expect_driver_calls_allowed() noexcept;
#else
inline void expect_driver_calls_allowed() noexcept {}
#endif

}  // namespace vramlink::base
