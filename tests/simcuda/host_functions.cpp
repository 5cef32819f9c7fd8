// The device process shares the client's memory and none of its threads, so it cannot run what may
// use libc or a thread-local variable. It raises a word when the stream has come to the function;
// one thread of the client, which begins with the first function, runs all of them and raises the
// word that the stream waits for. A client that is stopped or dead runs none.
#include "host_functions.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>

#include "streams.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint32_t kHostCallMax = 1024;

struct HostCall {
  std::atomic<std::uint64_t> ticket{0};  ///< 0: free
  Counter ready{0};                      ///< raised to the ticket by the device
  Counter finished{0};                   ///< by the thread
  HostFunction function = nullptr;
  void* data = nullptr;
  const StreamSlot* slot = nullptr;
  std::uint64_t end = 0;  ///< of the op that raises `ready`
};

std::array<HostCall, kHostCallMax> calls;
std::uint64_t last_ticket = 0;
/// Those that are not finished; a futex for the thread.
std::atomic<std::uint32_t> unfinished_count{0};
bool has_thread = false;
thread_local bool is_in_function = false;

HostCall* find_free() noexcept {
  for (HostCall& call : calls) {
    if (call.ticket.load() == 0) return &call;
  }
  return nullptr;
}

bool is_ready(const HostCall& call) noexcept { return call.ready.load() == call.ticket.load(); }
/// The op was dropped: the context has met a fault, or is gone.
bool is_dropped(const HostCall& call) noexcept {
  return call.slot->completed.load() >= call.end && !is_ready(call);
}

/// The call that was made first of those that wait for the thread, or nullptr.
HostCall* find_due() noexcept {
  HostCall* due = nullptr;
  for (HostCall& call : calls) {
    const std::uint64_t ticket = call.ticket.load();
    if (ticket == 0 || (!is_ready(call) && !is_dropped(call))) continue;
    if (due == nullptr || ticket < due->ticket.load()) due = &call;
  }
  return due;
}

/// Under the lock, and again when it returns.
void run(HostCall& call) noexcept {
  if (is_ready(call)) {
    const HostFunction function = call.function;
    void* const data = call.data;
    driver_lock.unlock();
    is_in_function = true;
    function(data);
    is_in_function = false;
    driver_lock.lock();
  }
  call.finished.store(call.ticket.load());
  call.ticket.store(0);
  unfinished_count.fetch_sub(1);
  ring_bell();
  // For those that wait for a free place.
  device_state.progress.fetch_add(1);
  sys::futex_wake(device_state.progress, INT_MAX);
}

void* run_calls(void*) noexcept {
  static constexpr std::uint64_t kLongNs = 3600'000'000'000;
  ::pthread_setname_np(::pthread_self(), "simcuda-host");
  driver_lock.lock();
  for (;;) {
    if (unfinished_count.load() != 0 && wait_for_device([] { return find_due() != nullptr; })) {
      run(*find_due());
      continue;
    }
    // Nothing to do, or no device that could come to it.
    const std::uint32_t count = device_seems_alive() ? 0 : unfinished_count.load();
    driver_lock.unlock();
    sys::futex_wait(unfinished_count, count, kLongNs);
    driver_lock.lock();
  }
  return nullptr;
}

bool start_thread() noexcept {
  if (has_thread) return true;
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  has_thread = ::pthread_create(&thread, nullptr, run_calls, nullptr) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (has_thread) ::pthread_detach(thread);
  return has_thread;
}

}  // namespace

bool is_in_host_function() noexcept { return is_in_function; }

Status cuLaunchHostFunc(api::Stream stream, HostFunction function, void* data) {
  return enter(
      FunctionId::cuLaunchHostFunc, Needs::healthy,
      [&] {
        if (function == nullptr) return Status::invalid_value;
        if (!start_thread()) return Status::out_of_memory;
        Submission submission;
        HostCall* call = nullptr;
        while (call == nullptr) {
          const Status status = submission.begin(stream, 2, Stops::stays_behind);
          if (status != Status::success) return status;
          call = find_free();
          if (call == nullptr && !wait_for_device([] { return find_free() != nullptr; })) {
            return Status::device_unavailable;
          }
        }
        const std::uint64_t ticket = ++last_ticket;
        Op& begin = submission.add(OpKind::mark);
        begin.counter = &call->ready;
        begin.value = ticket;
        call->end = submission.end();
        Op& end = submission.add(OpKind::wait_counter);
        end.counter = &call->finished;
        end.value = ticket;
        call->function = function;
        call->data = data;
        call->slot = &submission.slot();
        call->ticket.store(ticket);
        submission.commit();
        unfinished_count.fetch_add(1);
        sys::futex_wake(unfinished_count, 1);
        return Status::success;
      },
      stream, function, data);
}

}  // namespace vramlink::simcuda
