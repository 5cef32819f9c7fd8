// See sleepers.hpp. The sleepers are threads of one process, each with a word and a Subscriber of
// its own: what a wake costs the waker is the same.
#include "gpu/sleepers.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "gpu/raw_calls.hpp"
#include "gpu/raw_driver.hpp"
#include "harness/process.hpp"
#include "harness/shared_results.hpp"

namespace vramlink::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSleepers = 8;
constexpr useconds_t kFallAsleepUs = 2'000;

enum Kind : std::size_t { raw_wakes, publish, kKinds };
enum class Mode : std::uint32_t { raw, receive, quit };

struct alignas(64) Word {
  std::atomic<std::uint32_t> value{0};
};

struct Shared {
  SharedResults<kKinds> results;
  std::atomic<Mode> mode{Mode::raw};
  std::atomic<std::uint64_t> waiting{0};  // times that a sleeper was about to sleep
  std::array<Word, kSleepers> words;
};

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

void sleep_again_and_again(Shared& shared, Subscriber& subscriber, Word& word) {
  while (true) {
    // What the waker has stored before it wakes.
    const std::uint32_t value = word.value.load(std::memory_order_acquire);
    const Mode mode = shared.mode.load(std::memory_order_acquire);
    if (mode == Mode::quit) return;
    shared.waiting.fetch_add(1, std::memory_order_acq_rel);
    if (mode == Mode::raw) {
      futex(word.value, FUTEX_WAIT, value);
    } else {
      static_cast<void>(subscriber.receive(30s));
    }
  }
}

int sleepers_main(Shared& shared, const std::string& directory) {
  Runtime runtime = Runtime::open({.directory = directory}).value();
  std::vector<Subscriber> subscribers;
  for (std::uint32_t i = 0; i < kSleepers; ++i) {
    subscribers.push_back(Subscriber::open(runtime, "bench", 60s, {.stream_order = false}).value());
  }
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kSleepers; ++i) {
    threads.emplace_back(
        [&, i] { sleep_again_and_again(shared, subscribers[i], shared.words[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int waker_main(Shared& shared, const std::string& directory, bool smoke) {
  pin(0);
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::image(PixelFormat::gray8, 64, 64).value();
  Publisher publisher = Publisher::open(runtime, "bench", format, {.device = driver.id()}).value();
  publisher.wait_for_subscribers(kSleepers, 60s).value();
  RawCalls raw(driver, static_cast<std::size_t>(format.payload_bytes));
  const StreamView stream = view_of(driver.make_stream());
  std::uint64_t asleep = 0;
  const auto all_asleep = [&] {
    asleep += kSleepers;
    while (shared.waiting.load(std::memory_order_acquire) < asleep) ::usleep(100);
    ::usleep(kFallAsleepUs);
  };
  const auto wake_raw = [&] {
    return raw.batch([&] {
      for (Word& word : shared.words) {
        word.value.fetch_add(1, std::memory_order_seq_cst);
        futex(word.value, FUTEX_WAKE, 1);
      }
    });
  };
  const auto publish_once = [&] {
    WritableFrame frame = publisher.claim(stream, 1s).value();
    const std::int64_t start_ns = monotonic_ns();
    const Receipt receipt = publisher.publish(std::move(frame), stream).value();
    const std::int64_t took_ns = monotonic_ns() - start_ns;
    receipt.wait(10s).value();
    return took_ns;
  };
  const int rounds = smoke ? 1 : 40;
  const int block = smoke ? 2 : 50;
  for (int round = 0; round < rounds; ++round) {
    const bool last_round = round + 1 == rounds;
    for (int i = 0; i < block; ++i) {
      all_asleep();
      // Who wakes looks at the mode.
      if (i + 1 == block) shared.mode.store(Mode::receive, std::memory_order_release);
      shared.results.add(raw_wakes, wake_raw());
    }
    for (int i = 0; i < block; ++i) {
      all_asleep();
      if (i + 1 == block) {
        shared.mode.store(last_round ? Mode::quit : Mode::raw, std::memory_order_release);
      }
      shared.results.add(publish, publish_once());
    }
  }
  return 0;
}

}  // namespace

void measure_sleepers(Report& report, bool smoke) {
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  Child sleepers([&] { return sleepers_main(shared, directory.path()); });
  Child waker([&] { return waker_main(shared, directory.path(), smoke); });
  if (const int code = waker.wait(); code != 0) std::exit(code);
  if (const int code = sleepers.wait(); code != 0) std::exit(code);
  const std::string wakes = std::to_string(kSleepers) + " raw futex wakes";
  report.add("floor: batch of one word, " + wakes, shared.results.samples(raw_wakes));
  report.add("publish in place, " + std::to_string(kSleepers) + " sleepers",
             shared.results.samples(publish), "floor: batch of one word, " + wakes,
             Target::floor_plus_us(kPublishToManyUs));
}

}  // namespace vramlink::bench
