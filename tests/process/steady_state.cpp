// Invariant 10: in steady state the publisher makes no system call but to wake a sleeper, a
// spinning subscriber none, and neither allocates. Two processes; each counts its own thread's
// calls. Once for each way to publish and to receive.
//
// Ends with 0, 1 or, where threads cannot be watched, 77.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <vector>

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
constexpr std::uint64_t kLastSequence = kWarmUp + kFrames + kChange + kWarmUp;
const StreamView kStream = StreamView::already_complete();

int fail(const char* side, const char* what, const CallCounts& counts) {
  std::printf("%s: %s: %llu allocations, %llu system calls (last: %ld), %llu wakes, %llu clocks\n",
              side, what, static_cast<unsigned long long>(counts.allocations),
              static_cast<unsigned long long>(counts.system_calls), counts.last_system_call,
              static_cast<unsigned long long>(counts.futex_wakes),
              static_cast<unsigned long long>(counts.clock_calls));
  return 1;
}

/// What one pair of processes does.
struct Way {
  const char* name;
  ReceivePolicy policy;
  WhenFull when_full;
  bool copies;
};

/// A counter that counts nothing would pass everything. Afterwards `clocks_are_read_in_place` says
/// whether the vDSO answers here; where it does not, each look at the clock is a system call.
bool counters_work(bool& clocks_are_read_in_place) {
  start_counting();
  void* volatile memory = std::malloc(10);
  std::free(memory);
  ::syscall(SYS_getpid);
  int word = 0;
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  timespec now{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  const CallCounts counts = stop_counting();
  start_counting();
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  clocks_are_read_in_place = stop_counting().clock_calls == 0;
  return counts.allocations == 1 && counts.system_calls == 1 &&
         counts.last_system_call == SYS_getpid && counts.futex_wakes == 1 &&
         counts.clock_calls == 1;
}

/// Until the frame with this number or a later one was received; the policy may skip some.
void receive_spinning(Subscriber& subscriber, std::uint64_t last_sequence) {
  for (std::uint64_t sequence = 0; sequence < last_sequence;) {
    const Result<Frame> frame = subscriber.try_receive();
    if (frame) sequence = frame->sequence();
  }
}

int subscriber_main(const std::string& directory, const Way& way, int counted_fd) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber =
      Subscriber::open(runtime, "steady", Deadline::after(30s), {.policy = way.policy}).value();
  receive_spinning(subscriber, kWarmUp);
  bool clocks_are_read_in_place = false;
  if (!watch_this_thread()) return 77;
  if (!counters_work(clocks_are_read_in_place)) {
    return fail("subscriber", "the counters do not count", {});
  }
  start_counting();
  receive_spinning(subscriber, kWarmUp + kFrames + kChange / 2);
  const CallCounts spinning = stop_counting();
  // Asleep: nothing but its own futex waits, and no allocation.
  start_counting();
  for (std::uint64_t sequence = 0; sequence < kLastSequence;) {
    sequence = subscriber.receive(Deadline::after(30s)).value().sequence();
  }
  const CallCounts asleep = stop_counting();
  if (::write(counted_fd, "", 1) != 1) return fail("subscriber", "no pipe", asleep);
  // Until the publisher has counted: letting go of a subscriber is no part of the steady state.
  while (!subscriber.receive(Deadline::after(30s)).failed_with(Code::closed)) {
  }
  // The publisher never sleeps in claim here, so a release has nobody to wake.
  if (spinning.allocations + spinning.system_calls + spinning.futex_wakes != 0)
    return fail("subscriber", "spinning", spinning);
  if (asleep.allocations + asleep.futex_wakes != 0) return fail("subscriber", "asleep", asleep);
  if (clocks_are_read_in_place && spinning.clock_calls + asleep.clock_calls != 0)
    return fail("subscriber", "clocks", spinning);
  return 0;
}

/// Tries again and again: a wait for a slow reader would be a system call of its own.
void publish_one(Publisher& publisher, bool copies, std::span<std::byte> source, int number) {
  if (copies) {
    source[0] = static_cast<std::byte>(number);
    while (!publisher.try_publish_copy(source, kStream)) {
    }
    return;
  }
  Result<WritableFrame> frame = publisher.try_claim(kStream);
  while (!frame) frame = publisher.try_claim(kStream);
  frame->data()[0] = static_cast<std::byte>(number);
  publisher.publish(*std::move(frame), kStream).value();
}

int publisher_main(const std::string& directory, const Way& way, int counted_fd) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::image(PixelFormat::rgba, 64, 64).value();
  std::vector<std::byte> source(format.payload_bytes);
  Publisher publisher =
      Publisher::open(runtime, "steady", format, {.slot_count = 8, .when_full = way.when_full})
          .value();
  publisher.wait_for_subscribers(1, Deadline::after(30s)).value();
  bool clocks_are_read_in_place = false;
  if (!watch_this_thread()) return 77;
  if (!counters_work(clocks_are_read_in_place)) {
    return fail("publisher", "the counters do not count", {});
  }
  const auto publish = [&](int count, std::int64_t pause_ns) {
    for (int i = 0; i < count; ++i) {
      publish_one(publisher, way.copies, source, i);
      for (const std::int64_t end_ns = monotonic_ns() + pause_ns; monotonic_ns() < end_ns;) {
      }
    }
  };
  publish(kWarmUp, 1'000);
  start_counting();
  publish(kFrames, 1'000);
  const CallCounts spinning = stop_counting();
  publish(kChange, 1'000);
  start_counting();
  publish(kWarmUp, 200'000);
  const CallCounts waking = stop_counting();
  const bool clean = spinning.allocations + spinning.system_calls + spinning.futex_wakes == 0;
  if (!clean) return fail("publisher", "subscriber spinning", spinning);
  if (waking.allocations + waking.system_calls != 0) return fail("publisher", "waking", waking);
  if (waking.futex_wakes == 0 || waking.futex_wakes > kWarmUp) {
    return fail("publisher", "wakes of a sleeper, at most one a frame", waking);
  }
  if (clocks_are_read_in_place && spinning.clock_calls + waking.clock_calls != 0)
    return fail("publisher", "clocks", spinning);
  // A close that waits is woken by the subscriber, so it begins when both have counted.
  char counted = 0;
  if (::read(counted_fd, &counted, 1) != 1) return fail("publisher", "no answer", waking);
  publisher.close(Deadline::after(30s)).value();
  return 0;
}

/// Both sides in processes of their own: a filter on a thread stays, also in what it forks.
int run(const Way& way) {
  std::string directory = "/tmp/vramlink-steady-XXXXXX";
  if (!::mkdtemp(directory.data())) return 1;
  std::array<int, 2> counted{};
  if (::pipe(counted.data()) != 0) return 1;
  std::array<pid_t, 2> sides{};
  for (std::size_t side = 0; side < sides.size(); ++side) {
    sides[side] = ::fork();
    if (sides[side] < 0) return 1;
    if (sides[side] != 0) continue;
    ::alarm(100);                // ends either side if the other fails it
    ::close(counted[1 - side]);  // so that a death of the subscriber ends the publisher's wait
    const int ended = side == 0 ? publisher_main(directory, way, counted[0])
                                : subscriber_main(directory, way, counted[1]);
    std::fflush(stdout);
    std::_Exit(ended);
  }
  for (const int fd : counted) ::close(fd);
  int ended = 0;
  for (const pid_t side : sides) {
    int status = 0;
    ::waitpid(side, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (ended == 0 || code == 77) ended = code;
  }
  ::rmdir(directory.c_str());
  if (ended != 0 && ended != 77) std::printf("failed: %s\n", way.name);
  return ended;
}

}  // namespace

int main() {
  const std::array<Way, 4> ways{{
      {"claim and publish, a queue", ReceivePolicy::queue(3), WhenFull::block, false},
      {"publish_copy, a queue", ReceivePolicy::queue(3), WhenFull::block, true},
      {"claim and publish, the newest", ReceivePolicy::latest(), WhenFull::drop, false},
      {"publish_copy, the newest", ReceivePolicy::latest(), WhenFull::drop, true},
  }};
  for (const Way& way : ways) {
    const int ended = run(way);
    if (ended == 77) std::printf("skipped: no thread can be watched by seccomp here\n");
    if (ended != 0) return ended;
  }
  return 0;
}
