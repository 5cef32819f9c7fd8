// Question: what does publishing a frame in GPU memory cost the CPU, beyond the driver's own calls?
//
//   in place: publish() against one batch of one word write, with 1 and with 64 subscribers, none
//             of which sleeps; and with 1 and 16 that receive in stream order, which is the most
//             there can be: each adds a word to the batch; with 8 that sleep, against the batch and
//             as many raw futex wakes: each must be woken, which is one of them;
//   by copy:  publish_copy() of a 1080p RGBA8 picture against recording an event and launching a
//             graph that waits for it, copies and writes a word; with one source, and with sources
//             that change, where the graph's copy is given its new address.
// Floors and figures take turns in one process, each on an idle stream. Not measured: the GPU's own
// time, rendering.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "gpu/raw_calls.hpp"
#include "gpu/raw_driver.hpp"
#include "gpu/sleepers.hpp"
#include "harness/process.hpp"
#include "harness/report.hpp"
#include "harness/shared_results.hpp"

using namespace vramlink;
using namespace vramlink::bench;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kSlotCount = 4;
constexpr std::uint32_t kSubscribersInProcess = 8;

/// One set of processes.
struct Setup {
  std::uint32_t subscribers;
  bool stream_order;
  Target in_place;  ///< beside the floor
  bool by_copy;     ///< too
};

constexpr double kOneUs = 0.6;  // beyond the batch, one subscriber
constexpr double kCopyTimes = 1.3;
constexpr std::uint64_t kWidth = 1920;
constexpr std::uint64_t kHeight = 1080;
constexpr std::int64_t kPaceNs = 10'000;

enum Kind : std::size_t {
  raw_batch,
  in_place,
  claim_and_publish,
  raw_graph,
  copy_same,
  raw_graph_address,
  copy_changed,
  kKinds
};

struct Shared {
  SharedResults<kKinds> results;
  std::atomic<std::uint32_t> attached{0};
  std::atomic<bool> quit{false};
};

/// Subscribers that are attached and busy elsewhere.
int subscriber_main(Shared& shared, const std::string& directory, std::uint32_t count,
                    bool stream_order) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  std::vector<Subscriber> subscribers;
  for (std::uint32_t i = 0; i < count; ++i) {
    subscribers.push_back(
        Subscriber::open(runtime, "bench", 60s, {.stream_order = stream_order}).value());
  }
  shared.attached.fetch_add(count);
  while (!shared.quit.load(std::memory_order_acquire)) ::usleep(2'000);
  return 0;
}

int publisher_main(Shared& shared, const std::string& directory, std::uint32_t subscribers,
                   bool smoke) {
  pin(0);
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::image(PixelFormat::rgba, kWidth, kHeight).value();
  const auto bytes = static_cast<std::size_t>(format.payload_bytes);
  Publisher publisher =
      Publisher::open(runtime, "bench", format, {.slot_count = kSlotCount, .device = driver.id()})
          .value();
  publisher.wait_for_subscribers(subscribers, 60s).value();
  while (shared.attached.load() < subscribers) ::usleep(1'000);

  RawCalls raw(driver, bytes);
  const StreamView stream = view_of(driver.make_stream());
  // More than slots, so that a slot's next source is never the one that it had before.
  std::array<cu::DevicePointer, kSlotCount + 1> sources{};
  for (cu::DevicePointer& each : sources) each = driver.allocate(bytes);
  const auto source = [&](std::size_t index) {
    const cu::DevicePointer address = sources[index % sources.size()];
    return std::span<const std::byte>(reinterpret_cast<const std::byte*>(address), bytes);
  };
  const auto copy = [&](std::size_t index) {
    const std::int64_t start_ns = monotonic_ns();
    const Receipt receipt = publisher.publish_copy(source(index), stream, 1s).value();
    const std::int64_t took_ns = monotonic_ns() - start_ns;
    receipt.wait(10s).value();
    return took_ns;
  };
  const auto in_place_once = [&](bool with_claim) {
    const std::int64_t before_ns = monotonic_ns();
    WritableFrame frame = publisher.claim(stream, 1s).value();
    const std::int64_t start_ns = with_claim ? before_ns : monotonic_ns();
    const Receipt receipt = publisher.publish(std::move(frame), stream).value();
    const std::int64_t took_ns = monotonic_ns() - start_ns;
    receipt.wait(10s).value();
    return took_ns;
  };
  const int rounds = smoke ? 1 : 40;
  const std::size_t block = smoke ? 5 : 100;
  for (std::size_t i = 0; i < 2 * block; ++i) {  // every slot's graph is there, every page touched
    static_cast<void>(copy(i));
    static_cast<void>(in_place_once(true));
    static_cast<void>(raw.graph(sources[i % sources.size()]));
    static_cast<void>(raw.batch());
  }
  for (int round = 0; round < rounds; ++round) {
    const auto measure = [&](Kind kind, const auto& once) {
      for (std::size_t i = 0; i < block; ++i) {
        spin_for(kPaceNs);
        shared.results.add(kind, once(i));
      }
    };
    measure(raw_batch, [&](std::size_t) { return raw.batch(); });
    measure(in_place, [&](std::size_t) { return in_place_once(false); });
    measure(claim_and_publish, [&](std::size_t) { return in_place_once(true); });
    measure(raw_graph, [&](std::size_t) { return raw.graph(0); });
    measure(copy_same, [&](std::size_t) { return copy(0); });
    measure(raw_graph_address,
            [&](std::size_t i) { return raw.graph(sources[i % sources.size()]); });
    measure(copy_changed, [&](std::size_t i) { return copy(i); });
  }
  shared.quit.store(true, std::memory_order_release);
  return 0;
}

void measure_all(Report& report, const Setup& setup, bool smoke) {
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint32_t left = setup.subscribers; left > 0;) {
    const std::uint32_t count = std::min(left, kSubscribersInProcess);
    children.push_back(std::make_unique<Child>([&, count] {
      return subscriber_main(shared, directory.path(), count, setup.stream_order);
    }));
    left -= count;
  }
  Child publisher(
      [&] { return publisher_main(shared, directory.path(), setup.subscribers, smoke); });
  if (const int code = publisher.wait(); code != 0) std::exit(code);
  for (auto& child : children) child->wait();

  const std::string of =
      ", " + std::to_string(setup.subscribers) + (setup.stream_order ? " in stream order" : " sub");
  const auto add = [&](Kind kind, const std::string& name, const std::string& floor = "",
                       Target target = {}) {
    report.add(name + of, shared.results.samples(kind), floor.empty() ? "" : floor + of, target);
  };
  add(raw_batch, "floor: batch of one word");
  add(in_place, "publish in place", "floor: batch of one word", setup.in_place);
  add(claim_and_publish, "claim and publish in place", "floor: batch of one word");
  if (!setup.by_copy) return;
  add(raw_graph, "floor: event, graph launch");
  add(copy_same, "publish by copy, one source", "floor: event, graph launch",
      Target::times_floor(kCopyTimes));
  add(raw_graph_address, "floor: address, event, graph launch");
  add(copy_changed, "publish by copy, source changes", "floor: address, event, graph launch",
      Target::times_floor(kCopyTimes));
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("what publishing in GPU memory costs the CPU");
  add_gpu_facts(report);
  const std::array setups{
      Setup{1, false, Target::floor_plus_us(kOneUs), true},
      Setup{1, true, Target::floor_plus_us(kOneUs), false},
      Setup{arguments.smoke ? 4U : 64U, false, Target::floor_plus_us(kPublishToManyUs), false},
      Setup{arguments.smoke ? 2U : 16U, true, Target(), false},
  };
  for (const Setup& setup : setups) measure_all(report, setup, arguments.smoke);
  measure_sleepers(report, arguments.smoke);
  return report.print(arguments) ? 0 : 1;
}
