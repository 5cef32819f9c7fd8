// The device process of this client: how it starts, is woken and waited for, and how it ends.
//
// Submitted work must outlive a client that is stopped or killed, until the client's pidfd fires,
// and nothing may be written after that. So a device is a process of its own that shares the
// client's address space: clone() with CLONE_VM and without CLONE_THREAD. Two things make its end
// exact:
//   * The client has one more thread, the keeper, that only sleeps. The device traces it. A process
//     whose traced thread is an unreaped zombie is not reaped itself and its pidfd does not fire;
//     so after SIGKILL the client's descriptors are closed at once (peers see the end of a socket),
//     the device works on for VRAMLINK_SIMCUDA_TEARDOWN_US, and only when the kernel has taken the
//     device away does the pidfd fire: as with a real GPU.
//   * Where tracing is not permitted, the kernel kills the device when the keeper dies
//     (PR_SET_PDEATHSIG): a little before the pidfd fires, so work ends early and never late.
// A forked child has neither keeper nor device: its calls say not_initialized.
#pragma once

#include <cstdint>

#include "device_state.hpp"
#include "sys.hpp"

namespace vramlink::simcuda {

enum class DeathProof : std::uint8_t { none, traced, killed_with_keeper };

/// Starts the device process; once. False if the kernel refuses. A debugger cannot attach to a
/// client whose keeper is traced.
bool start_device(bool trace_keeper) noexcept;
/// Ends the device process and reaps it; at exit.
void stop_device() noexcept;
/// How the end of the device is tied to the client's.
DeathProof death_proof() noexcept;
/// The device's process id.
int device_pid() noexcept;
/// Whether the device still runs.
bool device_lives() noexcept;
/// The same without a system call: a device that was killed from outside is not noticed.
bool device_seems_alive() noexcept;
/// After submissions: wakes the device if it sleeps.
void ring_bell() noexcept;

/// The lock around all of the driver's own data. Held in every call, but not while one waits.
extern sys::Lock driver_lock;

inline constexpr std::uint64_t kLookNs = 100'000'000;

/// Waits without the lock until `complete()` holds or the device is gone; called and returns with
/// the lock held. `look_ns`: how often it looks though this device did nothing.
template <class Complete>
bool wait_for_device(const Complete& complete, std::uint64_t look_ns = kLookNs) noexcept {
  driver_lock.unlock();
  device_state.waiter_count.fetch_add(1);
  bool done = false;
  for (;;) {
    const std::uint32_t progress = device_state.progress.load();
    done = complete();
    if (done || !device_lives()) break;
    sys::futex_wait(device_state.progress, progress, look_ns);
  }
  device_state.waiter_count.fetch_sub(1);
  driver_lock.lock();
  return done;
}

}  // namespace vramlink::simcuda
