// Question: how long from publish() to a frame in the other process's hands, against the least that
// the machine can do?
//
// Two processes, each pinned to a core. Floors, in the same run and in turn with the measurement:
//   spinning: a store to shared memory, seen by a process that spins on the word;
//   asleep:   a futex wake, until the sleeper runs.
// Each sample ends with a clock read at the receiver and begins with one at the sender, on both
// sides. Not measured: claim() and the rendering, which come before; the release, which comes
// after; large payloads (nothing is copied, so the size does not matter); a machine with fewer than
// two CPUs.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <iostream>

#include <vramlink/vramlink.hpp>

#include "harness/process.hpp"
#include "harness/report.hpp"

using namespace vramlink;
using namespace vramlink::bench;
using namespace std::chrono_literals;

namespace {

constexpr int kPublisherCore = 0;
constexpr int kSubscriberCore = 1;
constexpr double kSpinningTimes = 2.2;  // of the floor
constexpr double kAsleepTimes = 1.2;
constexpr std::int64_t kPaceNs = 8'000;     // between frames, so that the receiver waits already
constexpr std::int64_t kAsleepNs = 60'000;  // from "about to sleep" to surely asleep

enum class Mode : std::uint32_t { store, receive_spinning, futex, receive_asleep, quit };

struct Shared {
  alignas(64) std::atomic<Mode> mode{Mode::store};
  alignas(64) std::atomic<std::uint64_t> round{0};    // the publisher starts a block
  alignas(64) std::atomic<std::uint64_t> ready{0};    // the subscriber is in that block
  alignas(64) std::atomic<std::uint64_t> waiting{0};  // samples that the subscriber waits for
  alignas(64) std::atomic<std::uint32_t> futex{0};
  alignas(64) std::atomic<std::int64_t> stamp{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> block{0};
  std::atomic<std::int64_t> results[1 << 16];
};

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

/// When the sender said it began, and when the receiver had it.
struct Sample {
  std::int64_t sent_ns = 0;
  std::int64_t received_ns = 0;
};

/// One sample of the subscriber, by `mode`. A frame is released after the clock was read.
Sample wait_one(Shared& shared, Subscriber& subscriber, Mode mode, std::uint64_t index,
                std::int64_t last_stamp) {
  switch (mode) {
    case Mode::store:
      while (true) {
        const std::int64_t stamp = shared.stamp.load(std::memory_order_acquire);
        if (stamp != last_stamp) return {stamp, monotonic_ns()};
      }
    case Mode::futex:
      while (shared.futex.load(std::memory_order_acquire) <= index) {
        futex(shared.futex, FUTEX_WAIT, static_cast<std::uint32_t>(index));
      }
      return {shared.stamp.load(std::memory_order_acquire), monotonic_ns()};
    case Mode::receive_spinning:
      while (true) {
        const Result<Frame> frame = subscriber.try_receive();
        if (frame) return {frame->media_ns(), monotonic_ns()};
      }
    case Mode::receive_asleep: {
      const Frame frame = subscriber.receive(Deadline::after(10s)).value();
      return {frame.media_ns(), monotonic_ns()};
    }
    case Mode::quit:
      break;
  }
  return {};
}

int subscriber_main(Shared& shared, const std::string& directory) {
  if (!pin(cpu_of_core(kSubscriberCore))) return 3;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber = Subscriber::open(runtime, "latency", Deadline::after(10s)).value();
  std::uint64_t round = 0;
  while (true) {
    while (shared.round.load(std::memory_order_acquire) == round) {
    }
    round = shared.round.load(std::memory_order_acquire);
    const Mode mode = shared.mode.load(std::memory_order_relaxed);
    if (mode == Mode::quit) return 0;
    const std::uint64_t count = shared.block.load(std::memory_order_relaxed);
    std::int64_t stamp = shared.stamp.load(std::memory_order_acquire);
    shared.ready.store(round, std::memory_order_release);
    for (std::uint64_t i = 0; i < count; ++i) {
      shared.waiting.store(i + 1, std::memory_order_release);
      const Sample sample = wait_one(shared, subscriber, mode, i, stamp);
      stamp = sample.sent_ns;
      shared.results[i].store(sample.received_ns - sample.sent_ns, std::memory_order_relaxed);
      shared.taken.store(i + 1, std::memory_order_release);
    }
  }
}

void send_one(Shared& shared, Publisher& publisher, Mode mode) {
  const StreamView stream = StreamView::already_complete();
  if (mode == Mode::store) {
    shared.stamp.store(monotonic_ns(), std::memory_order_release);
    return;
  }
  if (mode == Mode::futex) {
    shared.stamp.store(monotonic_ns(), std::memory_order_release);
    shared.futex.fetch_add(1, std::memory_order_release);
    futex(shared.futex, FUTEX_WAKE, 1);
    return;
  }
  WritableFrame frame = publisher.try_claim(stream).value();
  frame.data()[0] = std::byte{1};
  spin_for(1'000);  // the claim is over and done when the clock starts
  const FrameInfo info{.media_ns = monotonic_ns()};
  publisher.publish(std::move(frame), stream, info).value();
}

/// `count` samples of one kind, appended to `samples`.
void measure(Shared& shared, Publisher& publisher, Mode mode, std::uint64_t count,
             Samples& samples) {
  const bool asleep = mode == Mode::futex || mode == Mode::receive_asleep;
  shared.mode.store(mode, std::memory_order_relaxed);
  shared.block.store(count, std::memory_order_relaxed);
  shared.futex.store(0, std::memory_order_relaxed);
  shared.taken.store(0, std::memory_order_relaxed);
  shared.waiting.store(0, std::memory_order_relaxed);
  const std::uint64_t round = shared.round.load(std::memory_order_relaxed) + 1;
  shared.round.store(round, std::memory_order_release);
  while (shared.ready.load(std::memory_order_acquire) != round) {
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    while (shared.waiting.load(std::memory_order_acquire) != i + 1) {
    }
    spin_for(asleep ? kAsleepNs : kPaceNs);
    send_one(shared, publisher, mode);
    while (shared.taken.load(std::memory_order_acquire) != i + 1) {
    }
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    samples.add(shared.results[i].load(std::memory_order_relaxed));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  Child child([&] { return subscriber_main(shared, directory.path()); });
  if (!pin(cpu_of_core(kPublisherCore))) {
    std::cerr << "two CPUs are needed\n";
    return 5;
  }
  Runtime runtime = Runtime::open({.directory = directory.path()}).value();
  const Format format = Format::image(PixelFormat::gray8, 64, 64).value();
  Publisher publisher = Publisher::open(runtime, "latency", format).value();
  publisher.wait_for_subscribers(1, Deadline::after(10s)).value();

  const int rounds = arguments.smoke ? 1 : 20;
  const std::uint64_t spinning_block = arguments.smoke ? 200 : 4000;
  const std::uint64_t asleep_block = arguments.smoke ? 50 : 500;
  Samples store;
  Samples spinning;
  Samples futex_wake;
  Samples asleep;
  for (int round = 0; round < rounds; ++round) {
    measure(shared, publisher, Mode::store, spinning_block, store);
    measure(shared, publisher, Mode::receive_spinning, spinning_block, spinning);
    measure(shared, publisher, Mode::futex, asleep_block, futex_wake);
    measure(shared, publisher, Mode::receive_asleep, asleep_block, asleep);
  }
  shared.mode.store(Mode::quit, std::memory_order_relaxed);
  shared.round.fetch_add(1, std::memory_order_release);
  if (const int code = child.wait(); code != 0) return code;

  Report report("publish -> receive between two processes");
  report.add_fact("cores", describe_cores(kPublisherCore, kSubscriberCore));
  report.add("floor: plain store seen by a spinning process", store);
  report.add("publish -> receive, receiver spinning", spinning,
             "floor: plain store seen by a spinning process", Target::times_floor(kSpinningTimes));
  report.add("floor: raw futex wake", futex_wake);
  report.add("publish -> receive, receiver asleep", asleep, "floor: raw futex wake",
             Target::times_floor(kAsleepTimes));
  return report.print(arguments) ? 0 : 1;
}
