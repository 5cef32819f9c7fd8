// Question: how long from the completion of a frame's GPU work to receive() in another process?
//
//   spinning: publish() of an empty frame until try_receive() of a spinning process has it, against
//             cuStreamWriteValue64 until a spinning process sees the word;
//   asleep:   the frame's stream waits for a word for 5 ms, while the receiver sleeps in receive();
//             from the store of that word until receive() returns, against the same path with a
//             word in the frame's place and a receiver that spins.
// Twice, with a subscriber that receives without streams and says so, and with one that leaves
// stream order on, as the library does: that writes one word more, in front of READY. The targets
// are those of the first. Floors and figures take turns. One-way times by CLOCK_MONOTONIC, which
// both processes share. Not measured: rendering, large payloads (nothing is copied), GPUs that
// other programs use.
#include <atomic>
#include <iostream>
#include <string>

#include <vramlink/vramlink.hpp>

#include "gpu/raw_driver.hpp"
#include "harness/process.hpp"
#include "harness/report.hpp"
#include "harness/shared_results.hpp"

using namespace vramlink;
using namespace vramlink::bench;
using namespace std::chrono_literals;

namespace {

constexpr int kPublisherCore = 0;
constexpr int kSubscriberCore = 1;
constexpr double kSpinningTimes = 1.25;
constexpr double kAsleepUs = 250;
constexpr std::int64_t kPaceNs = 30'000;
constexpr std::int64_t kWorkNs = 5'000'000;

enum Kind : std::size_t { word_spinning, frame_spinning, word_late, frame_asleep, kKinds };

struct Shared {
  SharedResults<kKinds> results;
  alignas(4096) std::atomic<std::uint64_t> word{0};  // registered by the publisher
  std::atomic<std::uint64_t> gate{0};                // what the stream waits for
  alignas(4096) std::atomic<std::uint64_t> turn{0};  // sample number * kKinds + kind; 0: none
  std::atomic<std::uint64_t> waiting{0};             // the subscriber is about to wait for it
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::int64_t> start_ns{0};
  std::atomic<bool> quit{false};
};

bool receive_one(Subscriber& subscriber, Kind kind) {
  if (kind == frame_asleep) return subscriber.receive(10s).has_value();
  return spin_until([&] { return subscriber.try_receive().has_value(); });
}

int subscriber_main(Shared& shared, const std::string& directory, bool stream_order) {
  pin(cpu_of_core(kSubscriberCore));
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber =
      Subscriber::open(runtime, "bench", 60s, {.stream_order = stream_order}).value();
  std::uint64_t before = 0;
  std::uint64_t word = 0;
  while (true) {
    std::uint64_t turn = before;
    while (turn == before) {
      if (shared.quit.load(std::memory_order_acquire)) return 0;
      turn = shared.turn.load(std::memory_order_acquire);
    }
    before = turn;
    const Kind kind = static_cast<Kind>(turn % kKinds);
    const bool is_word = kind == word_spinning || kind == word_late;
    shared.waiting.store(turn, std::memory_order_release);
    const bool got =
        is_word ? spin_until([&] { return shared.word.load(std::memory_order_acquire) > word; })
                : receive_one(subscriber, kind);
    const std::int64_t end_ns = monotonic_ns();
    if (!got) return 1;
    if (is_word) word = shared.word.load(std::memory_order_acquire);
    shared.results.add(kind, end_ns - shared.start_ns.load(std::memory_order_acquire));
    shared.taken.store(turn, std::memory_order_release);
  }
}

class Sender {
 public:
  Sender(Shared& shared, const RawDriver& driver, Publisher& publisher)
      : shared_(shared),
        driver_(driver),
        publisher_(publisher),
        stream_(driver.make_stream()),
        page_(driver.register_host(&shared.word, 4096)) {}

  void send(Kind kind) {
    const std::uint64_t turn = ++number_ * kKinds + kind;
    shared_.turn.store(turn, std::memory_order_release);
    expect(spin_until([&] { return shared_.waiting.load(std::memory_order_acquire) == turn; }));
    spin_for(kPaceNs);
    if (kind == word_spinning) {
      start_now();
      write_word();
    } else if (kind == frame_spinning) {
      WritableFrame frame = publisher_.claim(view_of(stream_), 1s).value();
      spin_for(1'000);  // the claim is over when the clock starts
      start_now();
      publisher_.publish(std::move(frame), view_of(stream_)).value();
    } else {
      send_late(kind);
    }
    expect(spin_until([&] { return shared_.taken.load(std::memory_order_acquire) == turn; }));
  }

 private:
  void send_late(Kind kind) {
    const cu::DevicePointer gate = page_ + sizeof(std::uint64_t);
    driver_.check(driver_.stream_wait_value_64(stream_, gate, ++gate_, cu::kWaitGreaterOrEqual),
                  "cuStreamWaitValue64");
    if (kind == word_late) {
      write_word();
    } else {
      WritableFrame frame = publisher_.claim(view_of(stream_), 1s).value();
      publisher_.publish(std::move(frame), view_of(stream_)).value();
    }
    spin_for(kWorkNs);
    start_now();
    shared_.gate.store(gate_, std::memory_order_release);
  }

  void write_word() {
    driver_.check(driver_.stream_write_value_64(stream_, page_, ++word_, cu::kWriteDefault),
                  "cuStreamWriteValue64");
  }
  void start_now() { shared_.start_ns.store(monotonic_ns(), std::memory_order_release); }
  static void expect(bool happened) {
    if (happened) return;
    std::cerr << "the other process did not answer\n";
    std::exit(1);
  }

  Shared& shared_;
  const RawDriver& driver_;
  Publisher& publisher_;
  cu::Stream stream_;
  cu::DevicePointer page_;
  std::uint64_t number_ = 0;
  std::uint64_t word_ = 0;
  std::uint64_t gate_ = 0;
};

int publisher_main(Shared& shared, const std::string& directory, bool smoke) {
  pin(cpu_of_core(kPublisherCore));
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::image(PixelFormat::gray8, 64, 64).value();
  Publisher publisher = Publisher::open(runtime, "bench", format, {.device = driver.id()}).value();
  publisher.wait_for_subscribers(1, 60s).value();
  Sender sender(shared, driver, publisher);
  const int rounds = smoke ? 1 : 20;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < (smoke ? 5 : 200); ++i) sender.send(word_spinning);
    for (int i = 0; i < (smoke ? 5 : 200); ++i) sender.send(frame_spinning);
    for (int i = 0; i < (smoke ? 2 : 20); ++i) sender.send(word_late);
    for (int i = 0; i < (smoke ? 2 : 20); ++i) sender.send(frame_asleep);
  }
  shared.quit.store(true, std::memory_order_release);
  return 0;
}

void measure(Report& report, bool stream_order, bool smoke) {
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  Child subscriber([&] { return subscriber_main(shared, directory.path(), stream_order); });
  Child publisher([&] { return publisher_main(shared, directory.path(), smoke); });
  if (const int code = publisher.wait(); code != 0) std::exit(code);
  if (const int code = subscriber.wait(); code != 0) std::exit(code);
  const std::string with = stream_order ? ", stream order" : ", no stream order";
  const auto add = [&](Kind kind, const std::string& name, Kind floor_kind,
                       const std::string& floor, Target target) {
    report.add(floor + with, shared.results.samples(floor_kind));
    report.add(name + with, shared.results.samples(kind), floor + with,
               stream_order ? Target() : target);
  };
  add(frame_spinning, "publish -> receive, spinning", word_spinning,
      "floor: word write -> spinning", Target::times_floor(kSpinningTimes));
  add(frame_asleep, "5 ms of work -> receive, asleep", word_late, "floor: 5 ms of work -> word",
      Target::floor_plus_us(kAsleepUs));
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("from a frame's completion on the GPU to its receiver in another process");
  add_gpu_facts(report);
  for (const bool stream_order : {false, true}) measure(report, stream_order, arguments.smoke);
  return report.print(arguments) ? 0 : 1;
}
