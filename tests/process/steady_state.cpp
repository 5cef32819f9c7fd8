// Invariant 10: in steady state the publisher makes no system call but to wake a sleeper, a
// spinning subscriber none, and neither allocates. Two processes; each counts its own thread's
// calls.
//
// Ends with 0, 1 or, where threads cannot be watched, 77.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <vramlink/vramlink.hpp>

#include "call_counter.hpp"

using namespace vramlink;
using namespace vramlink::test;
using namespace std::chrono_literals;

namespace {

constexpr int kWarmUp = 500;
constexpr int kFrames = 5000;
/// Between two phases, uncounted: the subscriber changes from spinning to sleeping in the middle of
/// it.
constexpr int kChange = 100;
const StreamView kStream = StreamView::already_complete();

int fail(const char* side, const char* what, const CallCounts& counts) {
  std::printf("%s: %s: %llu allocations, %llu system calls (last: %ld), %llu wakes, %llu clocks\n",
              side, what, static_cast<unsigned long long>(counts.allocations),
              static_cast<unsigned long long>(counts.system_calls), counts.last_system_call,
              static_cast<unsigned long long>(counts.futex_wakes),
              static_cast<unsigned long long>(counts.clock_calls));
  return 1;
}

/// A counter that counts nothing would pass everything.
bool counters_work() {
  start_counting();
  void* volatile memory = std::malloc(10);
  std::free(memory);
  ::syscall(SYS_getpid);
  const CallCounts counts = stop_counting();
  return counts.allocations == 1 && counts.system_calls == 1 &&
         counts.last_system_call == SYS_getpid;
}

void receive_spinning(Subscriber& subscriber, int count) {
  for (int received = 0; received < count;) received += subscriber.try_receive() ? 1 : 0;
}

int subscriber_main(const std::string& directory) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber =
      Subscriber::open(runtime, "steady", Deadline::after(30s), {.policy = ReceivePolicy::queue(3)})
          .value();
  receive_spinning(subscriber, kWarmUp);
  if (!watch_this_thread()) return 77;
  if (!counters_work()) return fail("subscriber", "the counters do not count", {});
  start_counting();
  receive_spinning(subscriber, kFrames + kChange / 2);
  const CallCounts spinning = stop_counting();
  // Asleep: nothing but its own futex waits, and no allocation.
  start_counting();
  for (int i = 0; i < kWarmUp + kChange / 2; ++i) subscriber.receive(Deadline::after(30s)).value();
  const CallCounts asleep = stop_counting();
  // Until the publisher has counted: letting go of a subscriber is no part of the steady state.
  while (!subscriber.receive(Deadline::after(30s)).failed_with(Code::closed)) {
  }
  // A publisher that sleeps for us in claim is woken; this one, under block, may do so.
  if (spinning.allocations + spinning.system_calls != 0)
    return fail("subscriber", "spinning", spinning);
  if (asleep.allocations != 0) return fail("subscriber", "asleep", asleep);
  return 0;
}

void publish(Publisher& publisher, int count, std::int64_t pause_ns) {
  for (int i = 0; i < count; ++i) {
    // try_claim, not claim: a wait for a slow reader would be a system call of its own.
    Result<WritableFrame> frame = publisher.try_claim(kStream);
    while (!frame) frame = publisher.try_claim(kStream);
    frame->data()[0] = static_cast<std::byte>(i);
    publisher.publish(*std::move(frame), kStream).value();
    for (const std::int64_t end_ns = monotonic_ns() + pause_ns; monotonic_ns() < end_ns;) {
    }
  }
}

int publisher_main(const std::string& directory) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::image(PixelFormat::rgba, 64, 64).value();
  Publisher publisher =
      Publisher::open(runtime, "steady", format, {.slot_count = 8, .when_full = WhenFull::block})
          .value();
  publisher.wait_for_subscribers(1, Deadline::after(30s)).value();
  if (!watch_this_thread()) return 77;
  if (!counters_work()) return fail("publisher", "the counters do not count", {});
  publish(publisher, kWarmUp, 1'000);
  start_counting();
  publish(publisher, kFrames, 1'000);
  const CallCounts spinning = stop_counting();
  publish(publisher, kChange, 1'000);
  start_counting();
  publish(publisher, kWarmUp, 200'000);
  const CallCounts waking = stop_counting();
  const bool clean = spinning.allocations + spinning.system_calls + spinning.futex_wakes == 0;
  if (!clean) return fail("publisher", "subscriber spinning", spinning);
  if (waking.allocations + waking.system_calls != 0) return fail("publisher", "waking", waking);
  if (waking.futex_wakes == 0 || waking.futex_wakes > kWarmUp) {
    return fail("publisher", "wakes of a sleeper, at most one a frame", waking);
  }
  publisher.close(Deadline::after(30s)).value();
  return 0;
}

}  // namespace

int main() {
  std::string directory = "/tmp/vramlink-steady-XXXXXX";
  if (!::mkdtemp(directory.data())) return 1;
  const pid_t child = ::fork();  // before the library is used
  if (child < 0) return 1;
  ::alarm(100);  // ends either side if the other fails it
  if (child == 0) std::_Exit(subscriber_main(directory));
  int status = 0;
  const int publisher = publisher_main(directory);
  ::waitpid(child, &status, 0);
  ::rmdir(directory.c_str());
  const int subscriber = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (publisher == 77 || subscriber == 77) {
    std::printf("skipped: this kernel or machine lets no thread be watched by seccomp\n");
    return 77;
  }
  return publisher != 0 ? publisher : subscriber;
}
