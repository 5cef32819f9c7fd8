// The kinds of trouble that people report of GPU memory shared between processes, those that the
// host does not have or has in another form. docs/testing.md has the list, and the suites that go
// deeper.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <vramlink/host_copy.hpp>

#include "field_faults.hpp"
#include "support/shared_page.hpp"
#include "support/stand_in.hpp"
#include "support/stream_gate.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;

constexpr std::uint8_t kHasTwoGpus = 1;
constexpr std::uint8_t kHasOneGpu = 2;

/// Whether there are two GPUs. With one the other sides, which were forked before anybody knew,
/// end.
bool has_two_gpus(std::initializer_list<ChildProcess*> others) {
  const bool has_two = RawCuda::get()->devices().size() > 1;
  for (ChildProcess* const other : others) {
    other->go(has_two ? kHasTwoGpus : kHasOneGpu);
    if (has_two) continue;
    EXPECT_EQ(other->wait(), 0);
  }
  return has_two;
}

/// Entries of CUDA_VISIBLE_DEVICES, by which a process sees the first GPU alone, or the second.
std::string visible_gpu(std::size_t index) {
  const char* const set = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string visible = set == nullptr ? "0,1" : set;
  const std::size_t comma = visible.find(',');
  if (comma == std::string::npos) return visible;
  const std::string rest = visible.substr(comma + 1);
  return index == 0 ? visible.substr(0, comma) : rest.substr(0, rest.find(','));
}

// Kind 2. "Without a cudaDeviceSynchronize() in the producer the consumer sees old data".
TEST_F(FieldFaultsOfDevices, AFrameWhoseWorkIsNotDoneIsNotGiven) {
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(2, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    StreamGate gate;
    gate.close(TestDevice::stream());
    const Result<Receipt> second = publish_number(publisher, 2);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(second && !second->ready());
    gate.open();
    EXPECT_TRUE(second && second->wait(soon()));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  Subscriber in_order = open_subscriber(runtime);
  owner.wait_ready();
  EXPECT_TRUE(receives_frame(subscriber, 1, soon()));
  // With a deadline each way ends in an error that one has to look at, and not in old data.
  EXPECT_TRUE(is_refused(subscriber.receive(milliseconds(20)), Code::timed_out,
                         {"receive frame", "timed out"}));
  Frame early = in_order.receive(TestDevice::stream(), milliseconds(20)).value();
  EXPECT_EQ(early.sequence(), 2U);
  TestDevice::finish(TestDevice::stream());
  EXPECT_TRUE(early.aborted());
  EXPECT_TRUE(is_refused(early.release(TestDevice::stream()).value().wait(soon()), Code::aborted,
                         {"aborted"}));
  owner.go();
  owner.wait_ready();
  EXPECT_TRUE(receives_frame(subscriber, 2, soon())) << "and now it is whole";
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

// Kind 3. "The producer was killed, and the consumer's kernel got an illegal address".
TEST_F(FieldFaultsOfDevices, WorkThatReadsAFrameOutlivesItsOwner) {
  expect_leftovers();
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    say_ready(link);
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime);
  EXPECT_TRUE(is_ready(owner));
  RawCuda& raw = *RawCuda::get();
  const StreamView stream = TestDevice::stream();
  std::byte* const target = raw.allocate(kFrameBytes);
  {
    Frame frame = subscriber.receive(soon()).value();
    StreamGate gate;
    gate.close(stream);
    raw.expect(raw.driver().memcpy_dtod_async(device_pointer(target), device_pointer(frame.data()),
                                              kFrameBytes, raw_stream(stream)));
    const ReleaseReceipt released = frame.release(stream).value();
    owner.kill();
    EXPECT_EQ(owner.wait(), 128 + SIGKILL);
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
    EXPECT_FALSE(released.ready());
    gate.open();
    EXPECT_TRUE(released.wait(soon()));
  }
  TestDevice::finish(stream);
  EXPECT_TRUE(holds_frame({target, kFrameBytes}, 1));
  raw.free(target);
}

/// Memory of some kind, and how it ends.
class SomeMemory {
 public:
  SomeMemory(const char* kind, std::byte* data, std::function<void()> end)
      : kind_(kind), data_(data), end_(std::move(end)) {}
  [[nodiscard]] const char* kind() const noexcept { return kind_; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  void free() const { end_(); }

 private:
  const char* kind_;
  std::byte* data_;
  std::function<void()> end_;
};

class MemoryKinds {
 public:
  explicit MemoryKinds(std::size_t size_bytes) : size_bytes_(size_bytes) {
    static_cast<void>(raw_.stream());  // makes the context current
  }

  [[nodiscard]] SomeMemory plain() const {
    std::byte* const data = raw_.allocate(size_bytes_);
    return {"cudaMalloc", data, [this, data] { raw_.free(data); }};
  }
  /// Nothing if the GPU has none.
  [[nodiscard]] std::optional<SomeMemory> of_pool() const {
    int has_pools = 0;
    raw_.expect(raw_.driver().device_get_attribute(&has_pools, cuda_api::kPoolsSupported, gpu()));
    if (has_pools == 0) return std::nullopt;
    cuda_api::PoolProperties properties{};
    properties.type = cuda_api::AllocationType::pinned;
    properties.location = {cuda_api::LocationType::device, gpu()};
    cuda_api::MemoryPoolHandle pool = nullptr;
    raw_.expect(raw_.mem_pool_create(&pool, &properties));
    cuda_api::DevicePointer address = 0;
    const cuda_api::Stream stream = raw_stream(raw_.stream());
    raw_.expect(raw_.mem_alloc_from_pool_async(&address, size_bytes_, pool, stream));
    raw_.finish(raw_.stream());
    return SomeMemory("a pool", bytes_at(address), [this, pool, address, stream] {
      raw_.expect(raw_.mem_free_async(address, stream));
      raw_.finish(raw_.stream());
      raw_.expect(raw_.mem_pool_destroy(pool));
    });
  }
  /// Of the virtual memory calls and without a type to export it by, as PyTorch's expandable
  /// segments are.
  [[nodiscard]] SomeMemory virtual_memory() const {
    cuda_api::AllocationProperties properties{};
    properties.type = cuda_api::AllocationType::pinned;
    properties.requested_handle_types = cuda_api::HandleType::none;
    properties.location = {cuda_api::LocationType::device, gpu()};
    const cuda::Driver& driver = raw_.driver();
    std::size_t unit = 0;
    raw_.expect(
        driver.mem_get_allocation_granularity(&unit, &properties, cuda_api::Granularity::minimum));
    const std::size_t bytes = (size_bytes_ + unit - 1) / unit * unit;
    cuda_api::MemoryHandle memory = 0;
    raw_.expect(driver.mem_create(&memory, bytes, &properties, 0));
    cuda_api::DevicePointer address = 0;
    raw_.expect(driver.mem_address_reserve(&address, bytes, 0, 0, 0));
    raw_.expect(driver.mem_map(address, bytes, 0, memory, 0));
    const cuda_api::AccessDescriptor access{properties.location, cuda_api::AccessFlags::read_write};
    raw_.expect(driver.mem_set_access(address, bytes, &access, 1));
    return {"virtual memory without a type", bytes_at(address), [this, address, bytes, memory] {
              raw_.expect(raw_.driver().mem_unmap(address, bytes));
              raw_.expect(raw_.driver().mem_address_free(address, bytes));
              raw_.expect(raw_.driver().mem_release(memory));
            }};
  }
  [[nodiscard]] SomeMemory pinned() const {
    void* memory = nullptr;
    raw_.expect(raw_.mem_host_alloc(&memory, size_bytes_, 0));
    return {"cudaHostAlloc", static_cast<std::byte*>(memory),
            [this, memory] { raw_.expect(raw_.mem_free_host(memory)); }};
  }
  [[nodiscard]] SomeMemory registered() const {
    void* const memory =
        ::mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    raw_.expect(raw_.driver().mem_host_register(memory, size_bytes_, 0));
    return {"cudaHostRegister", static_cast<std::byte*>(memory), [this, memory] {
              raw_.expect(raw_.driver().mem_host_unregister(memory));
              ::munmap(memory, size_bytes_);
            }};
  }
  [[nodiscard]] SomeMemory managed() const {
    cuda_api::DevicePointer address = 0;
    raw_.expect(raw_.mem_alloc_managed(&address, size_bytes_, cuda_api::kManagedGlobal));
    return {"cudaMallocManaged", bytes_at(address),
            [this, address] { raw_.expect(raw_.mem_free(address)); }};
  }

 private:
  static std::byte* bytes_at(cuda_api::DevicePointer address) {
    return reinterpret_cast<std::byte*>(address);
  }
  [[nodiscard]] cuda_api::Device gpu() const { return raw_.devices()[0]; }

  RawCuda& raw_ = *RawCuda::get();
  std::size_t size_bytes_;
};

// Kind 5. "Invalid argument for a tensor of PyTorch's expandable segments, of cudaMallocAsync, of
// managed memory".
TEST_F(FieldFaultsOfDevices, MemoryOfEveryKindIsSharedOrRefusedByName) {
  // As deep in its block as a sub-allocated tensor.
  constexpr std::size_t kOffset = 1536;
  ChildProcess reader([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    std::uint64_t number = 0;
    while (true) {
      const Result<Frame> frame = subscriber.receive(soon());
      if (frame.failed_with(Code::closed)) break;
      EXPECT_TRUE(frame) << to_string(frame.error());
      if (!frame) return 1;
      EXPECT_EQ(frame->sequence(), ++number) << "what was refused is no frame";
      EXPECT_TRUE(holds_frame(frame->bytes(), number));
    }
    EXPECT_GE(number, 10U);
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block});
  reader.go();
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  const StreamView stream = TestDevice::stream();
  std::uint64_t number = 0;
  const auto shares = [&](std::byte* source, StreamView behind) {
    fill_frame({source, kFrameBytes}, ++number);
    const Result<Receipt> published = publisher.publish_copy({source, kFrameBytes}, behind, soon());
    ASSERT_TRUE(published) << to_string(published.error());
    ASSERT_TRUE(published->wait(soon()));
  };
  std::uint64_t refusals = 0;
  const auto refuses = [&](const std::byte* source, StreamView behind,
                           std::initializer_list<std::string_view> words) {
    const auto refused = publisher.publish_copy({source, kFrameBytes}, behind, soon());
    EXPECT_TRUE(is_refused(refused, Code::invalid_argument, words));
    EXPECT_TRUE(is_refused(refused, Code::invalid_argument,
                           {"'source'", to_string(TestDevice::id()), "Try: "}));
    EXPECT_EQ(publisher.statistics().abandoned, ++refusals) << "its slot comes back";
  };
  const MemoryKinds kinds(kOffset + kFrameBytes);
  std::vector<SomeMemory> shared{kinds.plain(), kinds.virtual_memory(), kinds.pinned(),
                                 kinds.registered()};
  if (std::optional<SomeMemory> pool = kinds.of_pool()) shared.push_back(*std::move(pool));
  for (const SomeMemory& memory : shared) {
    SCOPED_TRACE(memory.kind());
    shares(memory.data(), stream);
    shares(memory.data() + kOffset, stream);
  }
  refuses(shared[0].data() + kOffset + 8, stream,
          {"the memory ends after " + std::to_string(kFrameBytes - 8) + " of " +
               std::to_string(kFrameBytes) + " bytes",
           "memory of the frame's size"});
  std::vector<std::byte> ordinary(kFrameBytes);
  shares(ordinary.data(), kNow);
  refuses(ordinary.data(), stream,
          {"host memory that the driver does not know", "cudaHostRegister", "already_complete"});
  const SomeMemory managed = kinds.managed();
  refuses(managed.data(), stream, {"managed memory", "cudaMalloc"});
  managed.free();
  for (const SomeMemory& memory : shared) {
    SCOPED_TRACE(memory.kind());
    memory.free();
    // Pools and pinned memory a driver may keep for itself.
    const std::string_view kind = memory.kind();
    if ((kind == "a pool" || kind == "cudaHostAlloc") && !TestDevice::is_stand_in()) continue;
    refuses(memory.data(), stream, {"it was freed", "keep the memory until the copy is complete"});
  }
  shares(ordinary.data(), kNow);
  EXPECT_TRUE(publisher.close(soon()));
  EXPECT_EQ(reader.wait(), 0);
}

// Kind 6. "The two GPUs have no peer access, and the framework copies through the host without a
// word".
TEST_F(FieldFaultsOfDevices, AFallBackIsAllowedByNameAndCounted) {
  ChildProcess owner([this](const ChildLink& link) {
    if (link.wait_go() != kHasTwoGpus) return 0;
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publish_complete(publisher, 1));
    static_cast<void>(link.wait_go());
    return 0;
  });
  if (!has_two_gpus({&owner})) GTEST_SKIP() << "one GPU is visible, and this needs two";
  const Runtime runtime = open_runtime();
  RawCuda& raw = *RawCuda::get();
  int can = 0;
  raw.expect(raw.driver().device_can_access_peer(&can, raw.devices()[1], raw.devices()[0]));
  const auto open_with = [&](const DeviceId& device, CopyFrames copy_frames) {
    return Subscriber::open(runtime, kName, soon(), {.device = device, .copy_frames = copy_frames});
  };
  const auto expect_frame = [&](CopyFrames copy_frames, bool is_copy) {
    Subscriber subscriber = open_with(raw.id(1), copy_frames).value();
    Downloader downloader = Downloader::open(runtime, raw.id(1), kFrameBytes, {}).value();
    Frame frame = subscriber.receive(soon()).value();
    EXPECT_EQ(frame.is_copy(), is_copy);
    EXPECT_TRUE(downloader.submit(std::move(frame), kNow));
    const Result<HostFrame> bytes = downloader.next(soon());
    EXPECT_TRUE(bytes && holds_frame(bytes->bytes(), 1));
    EXPECT_EQ(subscriber.statistics().copied, is_copy ? 1U : 0U);
  };
  if (can != 0) {
    expect_frame(CopyFrames::never, false);
  } else {
    EXPECT_TRUE(is_refused(open_with(raw.id(1), CopyFrames::never), Code::unsupported,
                           {to_string(raw.id(1)), to_string(raw.id(0)), "no peer access",
                            "SubscriberOptions::copy_frames"}));
  }
  expect_frame(CopyFrames::if_needed, can == 0);
  expect_frame(CopyFrames::always, true);
  EXPECT_TRUE(is_refused(
      open_with(DeviceId::host(), CopyFrames::never), Code::unsupported,
      {kName, to_string(raw.id(0)), "host cannot map", "leave SubscriberOptions::device out"}));
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

// Kind 8. "Device 0 of the producer is device 1 of the consumer: wrong GPU, or invalid device
// ordinal".
TEST_F(FieldFaultsOfDevices, AGpuIsKnownByItsUuidAndNotByItsNumber) {
  const SharedPage page;
  ChildProcess owner([this](const ChildLink& link) {
    if (link.wait_go() != kHasTwoGpus) return 0;
    const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", visible_gpu(1));
    const Runtime runtime = open_runtime();  // whose number 0 is the second GPU
    EXPECT_EQ(runtime.devices().at(1).gpu.ordinal, 0U);
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publish_complete(publisher, 1));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  ChildProcess stranger([&](const ChildLink& link) {
    if (link.wait_go() != kHasTwoGpus) return 0;
    static_cast<void>(link.wait_go());
    const std::string first = visible_gpu(0);
    const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", first);
    const Runtime runtime = open_runtime();
    const Result<Subscriber> refused = Subscriber::open(runtime, kName, soon());
    EXPECT_TRUE(is_refused(
        refused, Code::no_device,
        {kName, "live on GPU-", "this process does not see",
         "CUDA_VISIBLE_DEVICES is \"" + first + "\"", "add it to CUDA_VISIBLE_DEVICES"}));
    if (!refused) page.at<DeviceId>(0).uuid = refused.error().facts()->device;
    return 0;
  });
  if (!has_two_gpus({&owner, &stranger})) {
    GTEST_SKIP() << "one GPU is visible, and this needs two";
  }
  const DeviceId second = RawCuda::get()->id(1);
  owner.wait_ready();
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime);
  EXPECT_EQ(subscriber.device(), second);
  Downloader downloader = Downloader::open(runtime, second, kFrameBytes, {}).value();
  const Result<HostFrame> frame = downloader.receive(subscriber, soon());
  EXPECT_TRUE(frame && holds_frame(frame->bytes(), 1)) << "read from the right one";
  stranger.go();
  EXPECT_EQ(stranger.wait(), 0);
  EXPECT_EQ(page.at<DeviceId>(0), second) << "the error names it";
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

/// For kinds that need a driver which lacks something, or fails.
bool needs_stand_in() { return stand_in() == nullptr; }

// Kind 11. "It compiles, it imports, and under WSL every call fails"; "invalid resource handle, on
// a Jetson".
TEST_F(FieldFaultsOfDevices, APlatformThatCannotShareSaysSoBeforeTheFirstFrame) {
  if (needs_stand_in()) GTEST_SKIP() << "only the stand-in driver lacks on demand";
  const auto go_without = [this](const ChildLink& link, const char* profile, const char* words) {
    static_cast<void>(link.wait_go());
    const ScopedEnvironment chosen("VRAMLINK_SIMCUDA_PROFILE", profile);
    const Runtime runtime = open_runtime();
    EXPECT_TRUE(
        is_refused(Subscriber::open(runtime, kName, soon()), Code::unsupported, {"GPU-", words}));
    const DeviceInfo gpu = runtime.devices().at(1);
    EXPECT_FALSE(gpu.usable);
    EXPECT_TRUE(says(gpu.why_not, {words}));
    // What works here is said by itself: the host.
    EXPECT_TRUE(Publisher::open(runtime, "cam1", Format::bytes(8).value()));
    return 0;
  };
  ChildProcess under_wsl([&](const ChildLink& link) {
    return go_without(link, "wsl", "cannot be exported as a file descriptor");
  });
  ChildProcess without_words(
      [&](const ChildLink& link) { return go_without(link, "no_memops", "64-bit words"); });
  // Its driver says that it can, and cannot: a trial with memory of our own finds it.
  ChildProcess liar([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    constexpr int kNotPermitted = 800;
    EXPECT_TRUE(
        stand_in()->fail_calls("cuMemImportFromShareableHandle", 1, 1'000'000, kNotPermitted));
    const Runtime runtime = open_runtime();
    for (int round = 0; round < 2; ++round) {
      EXPECT_TRUE(is_refused(Subscriber::open(runtime, kName, soon()), Code::unsupported,
                             {"a trial to share memory failed", "cuMemImportFromShareableHandle",
                              "CUDA_ERROR_NOT_PERMITTED", "vramlink doctor"}));
    }
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  for (ChildProcess* const child : {&under_wsl, &without_words, &liar}) {
    child->go();
    EXPECT_EQ(child->wait(), 0);
  }
  EXPECT_EQ(publisher.statistics().subscribers_ever, 0U) << "none of them got as far as a frame";
  Subscriber subscriber = open_subscriber(runtime);
  ASSERT_TRUE(publish_number(publisher, 1));
  EXPECT_TRUE(receives_frame(subscriber, 1, soon()));
}

// Kind 12. "CUDA error: unknown error"; "after one failed import the process is good for nothing".
TEST_F(FieldFaultsOfDevices, ADriverErrorIsNamedAndATryAgainSucceeds) {
  if (needs_stand_in()) GTEST_SKIP() << "only the stand-in driver fails on demand";
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publish_complete(publisher, 1));
    static_cast<void>(link.wait_go());
    EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
    return 0;
  });
  const Runtime runtime = open_runtime();
  // So that the trials at the first use are over.
  const Publisher own =
      Publisher::open(runtime, "cam1", Format::bytes(8).value(), on_device({})).value();
  constexpr int kOperatingSystem = 304;
  for (const char* const call :
       {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemHostRegister"}) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(stand_in()->fail_calls(call, 1, 1, kOperatingSystem));
    EXPECT_TRUE(is_refused(Subscriber::open(runtime, kName, soon()), Code::driver,
                           {call, kName, "CUDA_ERROR_OPERATING_SYSTEM", "CUresult 304"}));
    stand_in()->clear_failures();
    Subscriber subscriber = open_subscriber(runtime);
    EXPECT_TRUE(receives_frame(subscriber, 1, soon()));
  }
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

/// Makes a call of the library with a context of the program's own current, which it must be
/// afterwards.
template <class Call>
auto in_context(cuda_api::Context context, const Call& call) {
  RawCuda& raw = *RawCuda::get();
  raw.expect(raw.ctx_set_current(context));
  auto result = call();
  cuda_api::Context current = nullptr;
  raw.expect(raw.driver().ctx_get_current(&current));
  EXPECT_EQ(current, context) << "another context is current now";
  return result;
}

// Kind 12. "After the call another device is current"; "invalid device context, from a thread of
// the pool". Both sides, in a thread whose context is another GPU's, and in one that has none.
TEST_F(FieldFaultsOfDevices, TheContextOfACallerStaysWhatItWas) {
  const auto in_both_ways = [](const std::function<void(cuda_api::Context)>& body) {
    static_cast<void>(RawCuda::get()->foreign_context());
    body(RawCuda::get()->foreign_context());
    std::thread without([&] { body(nullptr); });
    without.join();
  };
  ChildProcess owner([&](const ChildLink& link) {
    in_both_ways([&](cuda_api::Context context) {
      const StreamView stream = TestDevice::stream();
      std::byte* const source = RawCuda::get()->allocate(kFrameBytes);
      fill_frame({source, kFrameBytes}, 2);
      const Runtime runtime = in_context(context, [&] { return open_runtime(); });
      Publisher publisher = in_context(context, [&] { return open_publisher(runtime); });
      EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
      WritableFrame frame =
          in_context(context, [&] { return publisher.try_claim(stream).value(); });
      fill_frame_in(stream, frame.bytes(), 1);
      const Receipt first =
          in_context(context, [&] { return publisher.publish(std::move(frame), stream).value(); });
      EXPECT_TRUE(in_context(context, [&] { return first.wait(soon()); }));
      link.ready();
      static_cast<void>(link.wait_go());
      const Receipt second = in_context(context, [&] {
        return publisher.try_publish_copy({source, kFrameBytes}, stream).value();
      });
      EXPECT_TRUE(second.wait(soon()));
      EXPECT_TRUE(in_context(
          context, [&] { return publisher.resize(Format::bytes(kFrameBytes).value(), soon()); }));
      link.ready();
      static_cast<void>(link.wait_go());
      EXPECT_TRUE(in_context(context, [&] { return publisher.close(soon()); }));
      static_cast<void>(TestDevice::stream());  // makes its context current
      RawCuda::get()->free(source);
    });
    return 0;
  });
  in_both_ways([&](cuda_api::Context context) {
    const StreamView stream = TestDevice::stream();
    const Runtime runtime = open_runtime();
    Subscriber subscriber = in_context(
        context, [&] { return open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)}); });
    owner.wait_ready();
    std::optional<Frame> first =
        in_context(context, [&] { return subscriber.receive(soon()).value(); });
    EXPECT_TRUE(holds_frame(first->bytes(), 1));
    EXPECT_TRUE(in_context(context, [&] {
      first.reset();
      return true;
    }));
    owner.go();
    owner.wait_ready();
    Frame second = in_context(context, [&] { return subscriber.receive(stream, soon()).value(); });
    TestDevice::finish(stream);
    EXPECT_TRUE(holds_frame(second.bytes(), 2));
    EXPECT_TRUE(in_context(context, [&] { return second.release(stream).value(); }).wait(soon()));
    owner.go();
    EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::closed));
  });
  EXPECT_EQ(owner.wait(), 0);
}

}  // namespace
}  // namespace vramlink::test
