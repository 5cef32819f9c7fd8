// Question: what does each subscriber cost the publisher?
//
// claim() + publish() with 1, 8 and 64 subscriber processes, in two states:
//   awake:  attached and busy elsewhere; the publisher looks at each bell and hold;
//   asleep: each sleeps in receive() and must be woken, one system call each.
// Floors, in the same run: a scan that loads three words on each of as many pages; as many futex
// wakes of processes that sleep on words of their own. Not measured: how long the woken processes
// take to run on a machine with fewer CPUs than subscribers.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "harness/process.hpp"
#include "harness/report.hpp"

using namespace vramlink;
using namespace vramlink::bench;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kSubscribersMax = 64;

enum class Mode : std::uint32_t { awake, asleep, futex, quit };

struct alignas(4096) Words {  // one page a subscriber, as its private segment has
  std::atomic<std::uint32_t> bell{0};
  alignas(64) std::atomic<std::uint64_t> held{0};
  alignas(64) std::atomic<std::uint64_t> released{0};
  alignas(64) std::atomic<std::uint32_t> futex{0};
};

struct Shared {
  alignas(64) std::atomic<std::uint32_t> command{0};  // futex; counts up with every change of mode
  std::atomic<Mode> mode{Mode::awake};
  alignas(64) std::atomic<std::uint64_t> waiting{0};  // times that a subscriber was about to sleep
  Words words[kSubscribersMax];
};

struct Results {
  std::atomic<int> count[4];
  std::atomic<std::int64_t> values_ns[4][4096];
};

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

int subscriber_main(Shared& shared, const std::string& directory, std::uint32_t index) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber = Subscriber::open(runtime, "fan", Deadline::after(30s)).value();
  std::uint32_t seen = 0;
  while (true) {
    const Mode mode = shared.mode.load(std::memory_order_acquire);
    if (mode == Mode::quit) return 0;
    if (mode == Mode::awake) {
      futex(shared.command, FUTEX_WAIT, seen);  // busy elsewhere, as the publisher sees it
      seen = shared.command.load(std::memory_order_acquire);
      continue;
    }
    if (mode == Mode::futex) {
      const std::uint32_t value = shared.words[index].futex.load(std::memory_order_acquire);
      shared.waiting.fetch_add(1, std::memory_order_acq_rel);
      futex(shared.words[index].futex, FUTEX_WAIT, value);
      continue;
    }
    shared.waiting.fetch_add(1, std::memory_order_acq_rel);
    static_cast<void>(subscriber.receive(Deadline::after(30s)));
  }
}

void set_mode(Shared& shared, Mode mode) {
  shared.mode.store(mode, std::memory_order_release);
  shared.command.fetch_add(1, std::memory_order_acq_rel);
  futex(shared.command, FUTEX_WAKE, INT32_MAX);
}

void publish_one(Publisher& publisher) {
  const StreamView stream = StreamView::already_complete();
  WritableFrame frame = publisher.try_claim(stream).value();
  publisher.publish(std::move(frame), stream).value();
}

/// Blocks until every subscriber said once more that it is about to sleep, and a little longer.
void wait_asleep(const Shared& shared, std::uint64_t count) {
  while (shared.waiting.load(std::memory_order_acquire) < count) ::usleep(200);
  ::usleep(2'000);
}

Samples measure_awake(Publisher& publisher, int samples) {
  Samples times;
  for (int i = 0; i < samples; ++i) {
    spin_for(3'000);
    const std::int64_t start_ns = monotonic_ns();
    publish_one(publisher);
    times.add(monotonic_ns() - start_ns);
  }
  return times;
}

Samples measure_scan(Shared& shared, std::uint32_t subscribers, int samples) {
  Samples times;
  for (int i = 0; i < samples; ++i) {
    spin_for(3'000);
    const std::int64_t start_ns = monotonic_ns();
    std::uint64_t sum = 0;
    for (std::uint32_t j = 0; j < subscribers; ++j) {
      sum += shared.words[j].held.load(std::memory_order_seq_cst);
      sum += shared.words[j].released.load(std::memory_order_acquire);
      sum += shared.words[j].bell.load(std::memory_order_seq_cst);
    }
    times.add(monotonic_ns() - start_ns + static_cast<std::int64_t>(sum));  // the words are 0
  }
  return times;
}

Samples measure_wakes(Shared& shared, Publisher& publisher, std::uint32_t subscribers, Mode mode,
                      int samples) {
  Samples times;
  std::uint64_t asleep = shared.waiting.load(std::memory_order_acquire);
  set_mode(shared, mode);
  for (int i = 0; i < samples; ++i) {
    asleep += subscribers;
    wait_asleep(shared, asleep);
    if (i + 1 == samples) shared.mode.store(Mode::awake, std::memory_order_release);
    const std::int64_t start_ns = monotonic_ns();
    if (mode == Mode::asleep) {
      publish_one(publisher);
    } else {
      for (std::uint32_t j = 0; j < subscribers; ++j) {
        shared.words[j].futex.fetch_add(1, std::memory_order_seq_cst);
        futex(shared.words[j].futex, FUTEX_WAKE, 1);
      }
    }
    times.add(monotonic_ns() - start_ns);
  }
  return times;
}

void measure_all(Report& report, std::uint32_t subscribers, bool smoke) {
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint32_t j = 0; j < subscribers; ++j) {
    children.push_back(
        std::make_unique<Child>([&, j] { return subscriber_main(shared, directory.path(), j); }));
  }
  // In a child, because a process that uses the library cannot fork the next set of subscribers.
  auto& results = shared_object<Results>();
  Child publisher_process([&] {
    pin(0);
    Runtime runtime = Runtime::open({.directory = directory.path()}).value();
    const Format format = Format::image(PixelFormat::gray8, 64, 64).value();
    Publisher publisher = Publisher::open(runtime, "fan", format, {.slot_count = 4}).value();
    publisher.wait_for_subscribers(subscribers, Deadline::after(30s)).value();
    const int awake = smoke ? 100 : 4000;
    const int asleep = smoke ? 3 : 200;
    const Samples all[4] = {measure_scan(shared, subscribers, awake),
                            measure_awake(publisher, awake),
                            measure_wakes(shared, publisher, subscribers, Mode::futex, asleep),
                            measure_wakes(shared, publisher, subscribers, Mode::asleep, asleep)};
    for (int k = 0; k < 4; ++k) {
      results.count[k] = static_cast<int>(all[k].count());
      for (std::size_t i = 0; i < all[k].count(); ++i) results.values_ns[k][i] = all[k].values()[i];
    }
    set_mode(shared, Mode::quit);
    return 0;
  });
  if (publisher_process.wait() != 0) std::exit(1);
  for (auto& child : children) child->wait();
  const std::string of =
      std::to_string(subscribers) + (subscribers == 1 ? " subscriber" : " subscribers");
  const std::string names[4] = {"floor: scan of " + of, "claim + publish, " + of + " awake",
                                "floor: futex wakes of " + of,
                                "claim + publish, " + of + " asleep"};
  for (int k = 0; k < 4; ++k) {
    Samples samples;
    for (int i = 0; i < results.count[k]; ++i) samples.add(results.values_ns[k][i]);
    report.add(names[k], samples, k % 2 == 1 ? names[k - 1] : "");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("what a subscriber costs the publisher");
  for (const std::uint32_t subscribers : {1u, 8u, 64u}) {
    measure_all(report, subscribers, arguments.smoke);
  }
  return report.print(arguments) ? 0 : 1;
}
