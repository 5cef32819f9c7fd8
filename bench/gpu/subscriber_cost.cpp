// Question: what does a subscriber cost its process and the GPU, beyond a context that is there?
//
// A process that has a context attaches to a channel of 1080p RGBA8 frames in another process and
// takes 100 frames. Figures: its private host memory and the GPU's free memory, after against
// before. Floor: another process that imports as much memory by the driver's calls alone. And: the
// driver's calls that open, close or allocate in 1000 further frames, in both processes, in place
// and by copy: there shall be none (libbench_count_calls.so stands before the driver and counts).
// Not measured: the context itself, which is some hundred MB of either memory.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kHostMiBMax = 5;
constexpr double kDeviceUnitMiB = 2;  // what the driver takes memory for itself by
constexpr std::uint32_t kSlotCount = 4;
constexpr int kFrames = 100;
constexpr int kCountedFrames = 1000;

struct Shared {
  std::atomic<bool> ready{false};  // the publisher has all that it will ever have
  std::atomic<bool> quit{false};
  std::atomic<bool> counting{false};
  std::atomic<bool> publisher_counts{false};
  std::atomic<std::uint64_t> publisher_calls{0};
  std::atomic<std::uint64_t> subscriber_calls{0};
  std::atomic<std::int64_t> host_bytes{0}, device_bytes{0};
  std::atomic<std::int64_t> raw_host_bytes{0}, raw_device_bytes{0};
};

/// Private pages of this process, in bytes.
std::int64_t private_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::int64_t sum = 0;
  for (std::string word; file >> word;) {
    if (word != "Private_Clean:" && word != "Private_Dirty:") continue;
    std::int64_t kilobytes = 0;
    file >> kilobytes;
    sum += kilobytes * 1024;
  }
  return sum;
}

/// The count of libbench_count_calls.so, which this process uses as its driver.
std::uint64_t calls() {
  static const auto count = [] {
    void* const library = ::dlopen(std::getenv("VRAMLINK_CUDA_LIBRARY"), RTLD_NOW);
    return library ? reinterpret_cast<std::uint64_t (*)()>(
                         ::dlsym(library, "vramlink_bench_call_count"))
                   : nullptr;
  }();
  return count ? count() : UINT64_MAX;
}

Format format_of_frames() { return Format::image(PixelFormat::rgba, 1920, 1080).value(); }

int publisher_main(Shared& shared, const std::string& directory) {
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = format_of_frames();
  const auto bytes = static_cast<std::size_t>(format.payload_bytes);
  Publisher publisher =
      Publisher::open(
          runtime, "bench", format,
          {.slot_count = kSlotCount, .when_full = WhenFull::block, .device = driver.id()})
          .value();
  const StreamView stream = view_of(driver.make_stream());
  const auto* const source = reinterpret_cast<const std::byte*>(driver.allocate(bytes));
  std::uint64_t before = 0;
  for (std::uint64_t number = 0; !shared.quit.load(std::memory_order_acquire); ++number) {
    if (number == kFrames) shared.ready.store(true, std::memory_order_release);
    if (shared.counting.load(std::memory_order_acquire) && !shared.publisher_counts.load()) {
      before = calls();
      shared.publisher_counts.store(true, std::memory_order_release);
    }
    if (number % 2 == 0) {
      static_cast<void>(publisher.publish_copy({source, bytes}, stream, 100ms));
    } else if (auto frame = publisher.claim(stream, 100ms)) {
      publisher.publish(*std::move(frame), stream).value();
    }
    if (shared.publisher_counts.load()) shared.publisher_calls.store(calls() - before);
  }
  return 0;
}

int subscriber_main(Shared& shared, const std::string& directory) {
  const RawDriver driver;
  Runtime runtime = Runtime::open({.directory = directory}).value();
  static_cast<void>(driver.allocate(4096));  // whatever the context makes at first use
  while (!shared.ready.load(std::memory_order_acquire)) ::usleep(1'000);
  const std::int64_t host_before = private_bytes();
  const std::size_t free_before = driver.free_bytes();
  Subscriber subscriber = Subscriber::open(runtime, "bench", 60s).value();
  for (int i = 0; i < kFrames; ++i) static_cast<void>(subscriber.receive(10s).value());
  shared.host_bytes.store(private_bytes() - host_before);
  shared.device_bytes.store(static_cast<std::int64_t>(free_before) -
                            static_cast<std::int64_t>(driver.free_bytes()));
  shared.counting.store(true, std::memory_order_release);
  while (!shared.publisher_counts.load(std::memory_order_acquire)) ::usleep(100);
  const std::uint64_t before = calls();
  for (int i = 0; i < kCountedFrames; ++i) static_cast<void>(subscriber.receive(10s).value());
  shared.subscriber_calls.store(calls() - before);
  shared.quit.store(true, std::memory_order_release);
  return 0;
}

/// Exports and imports as much memory in one process: the mapping costs the same.
int raw_main(Shared& shared) {
  const RawDriver driver;
  cu::AllocationProperties properties{};
  properties.type = cu::AllocationType::pinned;
  properties.requested_handle_types = cu::HandleType::posix_file_descriptor;
  properties.location = {cu::LocationType::device, driver.device()};
  std::size_t unit = 0;
  driver.check(driver.mem_get_allocation_granularity(&unit, &properties, cu::Granularity::minimum),
               "cuMemGetAllocationGranularity");
  const std::size_t wanted =
      static_cast<std::size_t>(format_of_frames().payload_bytes) * kSlotCount;
  const std::size_t bytes = (wanted + unit - 1) / unit * unit;
  cu::MemoryHandle memory = 0;
  int fd = -1;
  driver.check(driver.mem_create(&memory, bytes, &properties, 0), "cuMemCreate");
  driver.check(
      driver.mem_export_to_shareable_handle(&fd, memory, cu::HandleType::posix_file_descriptor, 0),
      "cuMemExportToShareableHandle");
  static_cast<void>(driver.allocate(4096));
  const std::int64_t host_before = private_bytes();
  const std::size_t free_before = driver.free_bytes();
  cu::MemoryHandle imported = 0;
  cu::DevicePointer address = 0;
  const cu::AccessDescriptor access{properties.location, cu::AccessFlags::read};
  driver.check(driver.mem_import_from_shareable_handle(
                   &imported, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
                   cu::HandleType::posix_file_descriptor),
               "cuMemImportFromShareableHandle");
  driver.check(driver.mem_address_reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  driver.check(driver.mem_map(address, bytes, 0, imported, 0), "cuMemMap");
  driver.check(driver.mem_set_access(address, bytes, &access, 1), "cuMemSetAccess");
  shared.raw_host_bytes.store(private_bytes() - host_before);
  shared.raw_device_bytes.store(static_cast<std::int64_t>(free_before) -
                                static_cast<std::int64_t>(driver.free_bytes()));
  return 0;
}

double mebibytes(const std::atomic<std::int64_t>& bytes) {
  return static_cast<double>(bytes.load()) / kMiB;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  Report report("what a subscriber costs, and calls of the driver that open, close or allocate");
  add_gpu_facts(report);
  const char* chosen = std::getenv("VRAMLINK_CUDA_LIBRARY");
  ::setenv("VRAMLINK_BENCH_DRIVER", chosen ? chosen : "libcuda.so.1", 1);
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  ::setenv("VRAMLINK_CUDA_LIBRARY", (own + "/libbench_count_calls.so").c_str(), 1);

  auto& shared = shared_object<Shared>();
  Child raw([&] { return raw_main(shared); });
  if (const int code = raw.wait(); code != 0) return code;
  const PrivateDirectory directory;
  Child publisher([&] { return publisher_main(shared, directory.path()); });
  Child subscriber([&] { return subscriber_main(shared, directory.path()); });
  if (const int code = subscriber.wait(); code != 0) return code;
  if (const int code = publisher.wait(); code != 0) return code;

  const double raw_device = mebibytes(shared.raw_device_bytes);
  report.add_value("floor: host memory of a raw import", mebibytes(shared.raw_host_bytes), "MiB");
  report.add_value("host memory of a subscriber", mebibytes(shared.host_bytes), "MiB",
                   Target::at_most(kHostMiBMax));
  report.add_value("floor: GPU memory of a raw import", raw_device, "MiB");
  report.add_value("GPU memory of a subscriber", mebibytes(shared.device_bytes), "MiB",
                   Target::at_most(raw_device + kDeviceUnitMiB));
  const auto add_calls = [&](const char* row, const std::atomic<std::uint64_t>& count) {
    report.add_value(row, static_cast<double>(count.load()), "calls", Target::at_most(0));
  };
  add_calls("publisher: opens, closes, allocations", shared.publisher_calls);
  add_calls("subscriber: opens, closes, allocations", shared.subscriber_calls);
  return report.print(arguments) ? 0 : 1;
}
