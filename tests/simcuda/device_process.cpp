#include "device_process.hpp"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <array>

#include "device_loop.hpp"

namespace vramlink::simcuda {

DeviceState device_state;
sys::Lock driver_lock;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr unsigned kAllDescriptors = UINT32_MAX;

alignas(64) std::array<std::byte, 32 * 1024> keeper_stack;
alignas(64) std::array<std::byte, 256 * 1024> device_stack;
std::atomic<int> keeper_tid{0};
std::atomic<int> device_tid{0};
std::atomic<int> client_pid{0};
std::atomic<bool> may_trace{true};
std::atomic<DeathProof> proof{DeathProof::none};

// Steps of the start, in order; a futex.
enum Start : std::uint32_t { kBegun, kDeviceMade, kReady, kFailed };
std::atomic<std::uint32_t> start_step{kBegun};

void set_step(std::uint32_t step) noexcept {
  start_step.store(step);
  sys::futex_wake(start_step, INT_MAX);
}

std::uint32_t wait_for_step_after(std::uint32_t step) noexcept {
  while (start_step.load() == step) sys::futex_wait(start_step, step, kSecondNs);
  return start_step.load();
}

/// The device holds copies of the client's descriptors; kept, they would hide its end from peers.
void close_descriptors() noexcept {
  static constexpr long kLongAgoMax = 65536;
  if (sys::call(SYS_close_range, 0, kAllDescriptors, 0) == 0) return;
  for (long fd = 0; fd < kLongAgoMax; ++fd) sys::call(SYS_close, fd);  // before Linux 5.9
}

void device_main() noexcept {
  close_descriptors();
  set_up_device_signals();
  static constexpr char kName[] = "simcuda-device";
  sys::call(SYS_prctl, PR_SET_NAME, sys::arg(kName));
  // A crash of the device must not write gigabytes of core, and not take seconds.
  const struct { unsigned long soft, hard; } no_core{0, 0};
  sys::call(SYS_prlimit64, 0, 4 /* RLIMIT_CORE */, sys::arg(&no_core), 0);
  wait_for_step_after(kBegun);
  int traced_tid = keeper_tid.load();
  if (may_trace.load() && sys::call(SYS_ptrace, PTRACE_SEIZE, traced_tid, 0, 0) == 0) {
    proof.store(DeathProof::traced);
  } else {
    traced_tid = 0;
    sys::call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    proof.store(DeathProof::killed_with_keeper);
    if (sys::call(SYS_getppid) != client_pid.load()) sys::call(SYS_exit_group, 0);
  }
  device_state.life.store(static_cast<std::uint32_t>(DeviceLife::running));
  set_step(kReady);
  run_device(traced_tid);
}

void keeper_main() noexcept {
  static constexpr char kName[] = "simcuda-keeper";
  sys::call(SYS_prctl, PR_SET_NAME, sys::arg(kName));
  keeper_tid.store(sys::tid());
  const long pid = sys::clone(CLONE_VM, device_stack.data() + device_stack.size(), device_main);
  if (sys::failed(pid)) {
    set_step(kFailed);
  } else {
    device_tid.store(static_cast<int>(pid));
    // Where Yama restricts tracing to ancestors; elsewhere an error that says so.
    sys::call(SYS_prctl, PR_SET_PTRACER, pid);
    set_step(kDeviceMade);
    wait_for_step_after(kDeviceMade);
    sys::call(SYS_prctl, PR_SET_PTRACER, 0);
  }
  static std::atomic<std::uint32_t> never{0};
  for (;;) sys::futex_wait(never, 0, 3600 * kSecondNs);
}

}  // namespace

bool start_device(bool trace_keeper) noexcept {
  may_trace.store(trace_keeper);
  client_pid.store(sys::pid());
  // The keeper inherits the mask: no signal of the program is delivered to it.
  std::uint64_t all = UINT64_MAX;
  std::uint64_t before = 0;
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::arg(&all), sys::arg(&before), 8);
  const long result =
      sys::clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
                 keeper_stack.data() + keeper_stack.size(), keeper_main);
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::arg(&before), 0, 8);
  if (sys::failed(result)) return false;
  std::uint32_t step = kBegun;
  while (step != kReady && step != kFailed) step = wait_for_step_after(step);
  return step == kReady;
}

void stop_device() noexcept {
  const int pid = device_tid.load();
  if (pid == 0 || client_pid.load() != sys::pid()) return;
  device_state.stop.store(true);
  device_state.asleep.store(0);
  sys::futex_wake(device_state.asleep, 1);
  while (sys::call(SYS_wait4, pid, 0, __WALL, 0) == -EINTR) {
  }
}

DeathProof death_proof() noexcept { return proof.load(); }

int device_pid() noexcept { return device_tid.load(); }

bool device_seems_alive() noexcept {
  return device_state.life.load() == static_cast<std::uint32_t>(DeviceLife::running);
}

bool device_lives() noexcept {
  if (!device_seems_alive()) return false;
  // A device that was killed from outside could not say so.
  siginfo_t info{};
  const long result = sys::call(SYS_waitid, P_PID, device_tid.load(), sys::arg(&info),
                                WEXITED | WNOHANG | WNOWAIT | __WALL, 0);
  if (result == 0 && info.si_pid == 0) return true;
  device_state.life.store(static_cast<std::uint32_t>(DeviceLife::lost));
  return false;
}

void ring_bell() noexcept {
  if (device_state.asleep.exchange(0) == 1) sys::futex_wake(device_state.asleep, 1);
}

}  // namespace vramlink::simcuda
