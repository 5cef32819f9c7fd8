// See process_state.hpp.
#include "runtime/process_state.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/try.hpp"
#include "os/fork_guard.hpp"
#include "os/threads.hpp"

namespace vramlink::runtime {
namespace {

struct Current {
  std::mutex mutex;
  std::weak_ptr<ProcessState> state;
  bool ends_with_process = false;  ///< finish_at_exit() is registered
  std::optional<Deadline> end_by;  ///< of all its runs: set by the first
  int joining = 0;                 ///< states that end in a thread of their own
  std::condition_variable joined;
};

/// How long the end of a program waits for clean-up that is under way. What is not done then, the
/// kernel does.
constexpr std::chrono::milliseconds kExitWait{500};

/// Never destroyed: objects with static storage may still hold a Runtime while the process exits.
Current& current() {
  static Current& instance = *new Current;
  return instance;
}

/// Lets what objects left to the janitor be done before drivers are unloaded. Runs once for the
/// program and once before its driver's end: together they wait no longer than one would.
void finish_at_exit() {
  if (os::in_forked_child()) return;
  Deadline deadline = Deadline::passed();
  std::shared_ptr<ProcessState> state;
  {
    const std::lock_guard lock(current().mutex);
    if (!current().end_by) current().end_by = Deadline::after(kExitWait);
    deadline = *current().end_by;
    state = current().state.lock();
  }
  if (state) static_cast<void>(state->janitor().drain_until(deadline));
  state.reset();
  std::unique_lock lock(current().mutex);
  current().joined.wait_for(lock, std::chrono::nanoseconds(deadline.time_ns() - monotonic_ns()),
                            [] { return current().joining == 0; });
}

}  // namespace

void finish_before_drivers() noexcept {
  // The last one that is registered runs first.
  static const int registered = std::atexit(&finish_at_exit);
  static_cast<void>(registered);
}

ProcessState::ProcessState() : janitor_(std::make_unique<Janitor>()) {}

ProcessState::~ProcessState() = default;

void ProcessState::destroy(ProcessState* state) noexcept {
  if (os::in_forked_child()) return;  // the threads live in the parent
  if (!state->reactor_->on_reactor_thread() && !state->janitor_->on_janitor_thread()) {
    delete state;
    return;
  }
  // The last owner is a handler on a thread that must be joined: another thread does the joining.
  {
    const std::lock_guard lock(current().mutex);
    ++current().joining;
  }
  Result<std::thread> joiner = os::launch_thread("vl-joiner", [state] {
    delete state;
    const std::lock_guard lock(current().mutex);
    --current().joining;
    current().joined.notify_all();
  });
  if (joiner) return joiner->detach();
  base::report_failure("end runtime", joiner.error());  // its two threads idle on
}

void ProcessState::hand_to_janitor(const base::LogLine& line, void* state) {
  ProcessState& self = *static_cast<ProcessState*>(state);
  if (!self.log_relay_.take(line)) return;
  self.janitor_->post([&relay = self.log_relay_] { relay.write_waiting(); });
}

Result<std::shared_ptr<ProcessState>> ProcessState::acquire() {
  VRAMLINK_CHECK(os::require_not_forked("open runtime"));
  const std::lock_guard lock(current().mutex);
  if (std::shared_ptr<ProcessState> state = current().state.lock()) return state;
  std::unique_ptr<ProcessState> made(new ProcessState);
  VRAMLINK_CHECK(made->janitor_->start());
  made->reactor_ = VRAMLINK_TRY(Reactor::start(
      [self = made.get()] { base::set_thread_log_handoff(&ProcessState::hand_to_janitor, self); }));
  std::shared_ptr<ProcessState> state(made.release(), &ProcessState::destroy);
  current().state = state;
  if (!std::exchange(current().ends_with_process, true)) {
    static_cast<void>(std::atexit(&finish_at_exit));
  }
  return state;
}

}  // namespace vramlink::runtime
