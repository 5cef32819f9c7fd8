// Which calls of the driver a channel makes in steady state, counted by the stand-in.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <vramlink/host_copy.hpp>

#include "runtime/runtime_state.hpp"
#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/stand_in.hpp"
#include "support/stream_gate.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::DriverCalls;
using test::kNow;
using test::RawCuda;
using test::soon;
using test::TestDevice;

enum class Publishing : std::uint8_t { in_place, one_source, several_sources, host_source };
enum class Receiving : std::uint8_t { by_cpu, by_stream, released_by_stream, downloaded };

class DeviceCallsTest : public test::ChannelFixture {
 protected:
  static constexpr std::uint64_t kFrames = 200;
  static constexpr std::size_t kSources = 3;

  void SetUp() override {
    ChannelFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (test::stand_in() == nullptr) GTEST_SKIP() << "only the stand-in driver counts its calls";
  }

  /// Nothing is opened, closed or allocated.
  static void expect_steady(const DriverCalls& calls) {
    static const std::set<std::string> kAllowed{
        // Submissions.
        "cuStreamWriteValue64", "cuStreamWaitValue64", "cuStreamBatchMemOp", "cuEventRecord",
        "cuStreamWaitEvent", "cuGraphLaunch", "cuMemcpyAsync", "cuMemcpyDtoHAsync",
        "cuMemcpyDtoDAsync", "cuMemcpyPeerAsync",
        // What is submitted next.
        "cuGraphExecMemcpyNodeSetParams", "cuGraphExecBatchMemOpNodeSetParams",
        // Questions.
        "cuCtxGetCurrent", "cuStreamGetCtx", "cuStreamQuery", "cuEventQuery",
        "cuPointerGetAttribute", "cuPointerGetAttributes", "cuMemGetAccess",
        // The context of a thread.
        "cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxSetCurrent"};
    for (const auto& [name, count] : calls) {
      EXPECT_TRUE(kAllowed.count(name) == 1) << count << " times " << name;
    }
  }

  /// Nothing here calls the driver but the library.
  struct Channel {
    Publisher publisher;
    Subscriber subscriber;
    Downloader downloader;
    std::array<const std::byte*, kSources> sources;

    void publish(Publishing publishing, std::uint64_t number) {
      const StreamView stream = streams[0];
      if (publishing == Publishing::in_place) {
        WritableFrame frame = publisher.claim(stream, soon()).value();
        ASSERT_TRUE(publisher.publish(std::move(frame), stream));
        return;
      }
      if (publishing == Publishing::host_source) {  // ordinary memory, which is staged
        ASSERT_TRUE(publisher.publish_copy(host_source, kNow, soon()));
        return;
      }
      const std::size_t source = publishing == Publishing::one_source ? 0 : number % kSources;
      ASSERT_TRUE(publisher.publish_copy({sources.at(source), kFrameBytes}, stream, soon()));
    }
    /// Calls `take` again while a stream has yet to release as many frames as may be held.
    template <class Take>
    static auto take_when_free(Take take) {
      auto taken = take();
      while (taken.failed_with(Code::resource_exhausted)) {
        std::this_thread::yield();
        taken = take();
      }
      return taken;
    }
    void receive(Receiving receiving) {
      if (receiving == Receiving::downloaded) {
        ASSERT_TRUE(take_when_free([&] { return downloader.receive(subscriber, soon()); }));
        return;
      }
      auto frame = take_when_free([&] {
        return receiving == Receiving::by_stream ? subscriber.receive(streams[1], soon())
                                                 : subscriber.receive(soon());
      });
      ASSERT_TRUE(frame) << to_string(frame.error());
      if (receiving == Receiving::released_by_stream) {
        ASSERT_TRUE(frame->release(streams[1]));
      }
    }
    /// Copies of ordinary memory into all slots are under way at once: there will never be more.
    void stage_every_slot() {
      test::stand_in()->set_delay(20'000, 0, 1);
      for (std::uint64_t number = 1; number <= PublisherOptions().slot_count; ++number) {
        publish(Publishing::host_source, number);
      }
      test::stand_in()->set_delay(0, 0, 1);
      for (std::uint64_t number = 1; number <= PublisherOptions().slot_count; ++number) {
        receive(Receiving::by_cpu);
      }
    }
    void run(Publishing publishing, Receiving receiving, std::uint64_t count) {
      for (std::uint64_t number = 1; number <= count; ++number) {
        publish(publishing, number);
        receive(receiving);
      }
    }

    std::vector<std::byte> host_source = std::vector<std::byte>(kFrameBytes);
    std::array<StreamView, 2> streams{TestDevice::stream(0), TestDevice::stream(1)};
  };
};

TEST_F(DeviceCallsTest, invariant_10_steady_state_submits_and_asks_and_no_more) {
  const Runtime runtime = open_runtime();
  RawCuda& raw = *RawCuda::get();
  std::array<std::byte*, kSources> memory{};
  for (std::byte*& each : memory) each = raw.allocate(kFrameBytes);
  {
    Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block});
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    Downloader downloader = Downloader::open(runtime, TestDevice::id(), kFrameBytes, {}).value();
    Channel channel{std::move(publisher),
                    std::move(subscriber),
                    std::move(downloader),
                    {memory[0], memory[1], memory[2]}};
    for (const Publishing publishing : {Publishing::in_place, Publishing::one_source,
                                        Publishing::several_sources, Publishing::host_source}) {
      for (const Receiving receiving : {Receiving::by_cpu, Receiving::by_stream,
                                        Receiving::released_by_stream, Receiving::downloaded}) {
        SCOPED_TRACE("published " + std::to_string(static_cast<int>(publishing)) + ", received " +
                     std::to_string(static_cast<int>(receiving)));
        channel.run(publishing, receiving, 8);
        if (publishing == Publishing::host_source) channel.stage_every_slot();
        runtime.state()->process()->janitor().drain();  // copies are prepared
        channel.run(publishing, receiving, 16);
        const DriverCalls before = test::driver_calls();
        channel.run(publishing, receiving, kFrames);
        DriverCalls calls = test::driver_calls_since(before);
        expect_steady(calls);
        // One submission for each frame, whatever else there is.
        const bool is_copy = publishing != Publishing::in_place;
        EXPECT_EQ(calls["cuGraphLaunch"], is_copy ? kFrames : 0);
        EXPECT_EQ(calls["cuStreamBatchMemOp"], is_copy ? 0 : kFrames);
        if (publishing == Publishing::one_source) {
          EXPECT_LE(calls["cuGraphExecMemcpyNodeSetParams"], PublisherOptions().slot_count)
              << "a source that stays the same is told once";
        }
        if (receiving == Receiving::by_stream) {
          EXPECT_LE(calls["cuStreamWaitValue64"], kFrames);
        } else {
          EXPECT_EQ(calls["cuStreamWaitValue64"], 0U);
        }
      }
    }
  }
  for (std::byte* each : memory) raw.free(each);
}

TEST_F(DeviceCallsTest, AResizeUnregistersNothing) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  const std::vector<std::byte> source(kFrameBytes);
  const auto publish = [&] {
    const Result<Receipt> receipt = publisher.publish_copy(source, kNow, soon());
    ASSERT_TRUE(receipt) << to_string(receipt.error());
    ASSERT_TRUE(receipt->wait(soon()));
  };
  publish();
  runtime.state()->process()->janitor().drain();  // copies are prepared
  test::StreamGate gate;
  gate.close(TestDevice::stream(1));
  const DriverCalls before = test::driver_calls();
  for (std::uint32_t slot_count = 5; slot_count <= 7; ++slot_count) {
    ASSERT_TRUE(
        publisher.resize(Format::bytes(kFrameBytes).value(), soon(), {.slot_count = slot_count}));
    // The generation before has ended when this is through; and nothing has stopped behind it.
    for (int i = 0; i < 3; ++i) runtime.state()->process()->janitor().drain();
    publish();
  }
  DriverCalls calls = test::driver_calls_since(before);
  EXPECT_EQ(calls["cuMemHostUnregister"], 0U);
  EXPECT_EQ(calls["cuMemHostRegister"], 3U) << "a page of READY words each, and no other";
}

TEST_F(DeviceCallsTest, ASubscriberThatCopiesSubmitsAndAsksAndNoMore) {
  RawCuda& raw = *RawCuda::get();
  if (raw.devices().size() < 2) GTEST_SKIP() << "one GPU is visible, and this needs two";
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block});
  Subscriber subscriber = open_subscriber(
      runtime,
      {.policy = ReceivePolicy::queue(3), .device = raw.id(1), .copy_frames = CopyFrames::always});
  const StreamView stream = raw.foreign_stream();  // of the second GPU
  const auto run = [&](std::uint64_t count) {
    for (std::uint64_t number = 1; number <= count; ++number) {
      ASSERT_TRUE(test::publish_number(publisher, number, soon()));
      auto frame =
          number % 2 == 0 ? subscriber.receive(stream, soon()) : subscriber.receive(soon());
      ASSERT_TRUE(frame) << to_string(frame.error());
      EXPECT_TRUE(frame->is_copy());
      TestDevice::finish(stream);
    }
  };
  run(16);
  const DriverCalls before = test::driver_calls();
  run(kFrames);
  DriverCalls calls = test::driver_calls_since(before);
  for (const char* const ours : {"cuStreamSynchronize", "cuMemcpyHtoD", "cuMemcpyHtoDAsync",
                                 "cuMemcpyDtoD", "cuMemsetD8Async", "cuCtxSynchronize"}) {
    calls.erase(ours);  // of the test
  }
  expect_steady(calls);
  EXPECT_EQ(calls["cuMemcpyDtoDAsync"] + calls["cuMemcpyPeerAsync"], kFrames);
}

}  // namespace
}  // namespace vramlink
