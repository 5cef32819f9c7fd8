// Question: how much of the bus does a pipelined download of frames into host memory use?
//
// 1080p RGBA32F pictures, 33 MB each, published as fast as slots are free by another process that
// writes nothing into them. Figure: the time for a frame from one Downloader::receive() to a later
// one, where the program reads nothing of it. Floor: the same bytes by cuMemcpyDtoHAsync into
// registered memory, two copies under way at a time, from one completion to a later one. Each
// sample is the share of one frame in ten, since single ones come in pairs. They take turns. The
// target is 90 % of the raw rate. Not measured: what a program does with the bytes.
#include <array>
#include <atomic>
#include <iostream>

#include <vramlink/host_copy.hpp>
#include <vramlink/vramlink.hpp>

#include "gpu/raw_driver.hpp"
#include "harness/process.hpp"
#include "harness/report.hpp"
#include "harness/shared_results.hpp"

using namespace vramlink;
using namespace vramlink::bench;
using namespace std::chrono_literals;

namespace {

constexpr double kTimes = 1 / 0.9;
constexpr std::uint64_t kWidth = 1920;
constexpr std::uint64_t kHeight = 1080;

enum Kind : std::size_t { raw_copy, download, kKinds };

struct Shared {
  SharedResults<kKinds> results;
  std::atomic<bool> quit{false};
};

int publisher_main(Shared& shared, const std::string& directory) {
  pin(cpu_of_core(1));
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::image(PixelFormat::rgba_f32, kWidth, kHeight).value();
  Publisher publisher =
      Publisher::open(runtime, "bench", format,
                      {.slot_count = 6, .when_full = WhenFull::block, .device = driver.id()})
          .value();
  publisher.wait_for_subscribers(1, 60s).value();
  const StreamView stream = view_of(driver.make_stream());
  while (!shared.quit.load(std::memory_order_acquire)) {
    auto frame = publisher.claim(stream, 100ms);
    if (frame) publisher.publish(*std::move(frame), stream).value();
  }
  return 0;
}

/// Makes a sample of every ten frames; the first ten of a round, which wait in buffers, are none.
class Tens {
 public:
  Tens(Shared& shared, Kind kind) : shared_(shared), kind_(kind) {}
  void frame_came() {
    if (++count_ % 10 != 0) return;
    const std::int64_t now_ns = monotonic_ns();
    if (count_ > 10) shared_.results.add(kind_, (now_ns - before_ns_) / 10);
    before_ns_ = now_ns;
  }

 private:
  Shared& shared_;
  Kind kind_;
  int count_ = 0;
  std::int64_t before_ns_ = 0;
};

/// Two copies under way, as the Downloader has.
void measure_raw(const RawDriver& driver, std::size_t bytes, std::byte* host,
                 cu::DevicePointer frame, cu::Stream stream, int count, Shared& shared) {
  std::array<cu::Event, 2> done{};
  for (cu::Event& each : done) {
    driver.check(driver.event_create(&each, cu::kEventDisableTiming), "cuEventCreate");
  }
  const auto start = [&](std::size_t index) {
    driver.check(driver.memcpy_dtoh_async(host + bytes * index, frame, bytes, stream),
                 "cuMemcpyDtoHAsync");
    driver.check(driver.event_record(done[index], stream), "cuEventRecord");
  };
  start(0);
  start(1);
  Tens tens(shared, raw_copy);
  for (int i = 0; i < count; ++i) {
    const std::size_t index = static_cast<std::size_t>(i) % 2;
    if (!spin_until([&] { return driver.event_query(done[index]) == cu::Status::success; })) {
      std::exit(1);
    }
    tens.frame_came();
    start(index);
  }
  driver.check(driver.stream_synchronize(stream), "cuStreamSynchronize");
  for (const cu::Event each : done) driver.check(driver.event_destroy(each), "cuEventDestroy");
}

int subscriber_main(Shared& shared, const std::string& directory, bool smoke) {
  pin(cpu_of_core(0));
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber = Subscriber::open(runtime, "bench", 60s,
                                           {.policy = ReceivePolicy::queue(5), .held_count_max = 3})
                              .value();
  const auto bytes = static_cast<std::size_t>(subscriber.format().payload_bytes);
  Downloader downloader = Downloader::open(runtime, driver.id(), bytes).value();
  auto* const host = static_cast<std::byte*>(shared_memory(2 * bytes));
  std::fill(host, host + 2 * bytes, std::byte{1});  // registering untouched pages takes long
  static_cast<void>(driver.register_host(host, 2 * bytes));
  const cu::DevicePointer frame = driver.allocate(bytes);
  const cu::Stream stream = driver.make_stream();
  const int rounds = smoke ? 1 : 10;
  const int count = smoke ? 20 : 200;
  for (int round = 0; round < rounds; ++round) {
    measure_raw(driver, bytes, host, frame, stream, count, shared);
    Tens tens(shared, download);
    for (int i = 0; i < count; ++i) {
      const HostFrame got = downloader.receive(subscriber, 10s).value();
      tens.frame_came();
    }
  }
  shared.quit.store(true, std::memory_order_release);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("download of 1080p RGBA32F frames, time for each");
  add_gpu_facts(report);
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  Child publisher([&] { return publisher_main(shared, directory.path()); });
  Child subscriber([&] { return subscriber_main(shared, directory.path(), arguments.smoke); });
  if (const int code = subscriber.wait(); code != 0) return code;
  if (const int code = publisher.wait(); code != 0) return code;
  report.add("floor: raw copy into registered memory", shared.results.samples(raw_copy));
  report.add("pinned download, pipelined", shared.results.samples(download),
             "floor: raw copy into registered memory", Target::times_floor(kTimes));
  return report.print(arguments) ? 0 : 1;
}
