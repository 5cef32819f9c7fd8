// Devices in trouble: a fault in one process, and memory that runs out. Whoever has the trouble is
// told; nobody else notices.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "runtime/runtime_state.hpp"
#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/stand_in.hpp"
#include "support/stream_gate.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::ChildProcess;
using test::publish_complete;
using test::publish_number;
using test::RawCuda;
using test::soon;
using test::StreamGate;
using test::TestDevice;

class DeviceTroubleTest : public test::ChannelFixture {
 protected:
  /// As a program does that unmaps memory under its own work. The context is lost when this
  /// returns.
  static void lose_context(const Runtime& runtime) {
    RawCuda& raw = *RawCuda::get();
    backend::Backend* const device =
        runtime.state()->process()->backends().find(TestDevice::id()).value();
    auto victim = device->allocate(kFrameBytes).value();
    const StreamView view = TestDevice::stream(1);
    const auto stream = test::raw_stream(view);
    StreamGate gate;
    gate.close(view);
    raw.expect(
        raw.driver().memset_d8_async(test::device_pointer(victim->data()), 1, kFrameBytes, stream));
    victim.reset();
    gate.open();
    using test::cuda_api::Status;
    Status status = Status::not_ready;
    while (status == Status::not_ready) status = raw.driver().stream_query(stream);
    EXPECT_NE(status, Status::success) << "there was no fault";
  }
};

TEST_F(DeviceTroubleTest, AFaultInASubscriberIsItsOwnAndItsSlotsComeBack) {
  ChildProcess child([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(
        runtime, {.policy = ReceivePolicy::queue(1), .held_count_max = 1, .reconnect = false});
    Frame frame = subscriber.receive(soon()).value();
    EXPECT_TRUE(test::holds_frame(frame.bytes(), 1));
    const StreamView stream = TestDevice::stream();
    lose_context(runtime);
    // Taken, and never performed.
    const Result<ReleaseReceipt> receipt = frame.release(stream);
    link.ready();
    Result<Frame> end = subscriber.receive(soon());
    // It may hold one frame, which no stream gives back, until it has found out why.
    while (end.failed_with(Code::resource_exhausted)) {
      std::this_thread::yield();
      end = subscriber.receive(soon());
    }
    EXPECT_TRUE(end.failed_with(Code::driver));
    if (!end) {
      EXPECT_NE(to_string(end.error()).find("ILLEGAL_ADDRESS"), std::string::npos)
          << to_string(end.error());
    }
    EXPECT_FALSE(receipt && receipt->ready()) << "no stream of a lost context releases anything";
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(publish_complete(publisher, 1));
  child.go();
  child.wait_ready();
  ASSERT_TRUE(publish_complete(publisher, 2));
  // The first slot is held by a stream that never gets there; the subscriber's own look ends that.
  ASSERT_TRUE(publish_complete(publisher, 3, kForever));
  EXPECT_EQ(child.wait(), 0);
  while (!publisher.statistics().subscribers.empty()) std::this_thread::yield();
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
  // Ours is as it was.
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
  EXPECT_TRUE(test::receives_frame(subscriber, 3, soon()));
  for (std::uint64_t number = 4; number <= 8; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
    Frame frame = subscriber.receive(TestDevice::stream(), soon()).value();
    TestDevice::finish(TestDevice::stream());
    EXPECT_FALSE(frame.aborted());
    EXPECT_TRUE(test::holds_frame(frame.bytes(), number));
    ASSERT_TRUE(frame.release(TestDevice::stream()).value().wait(soon()));
  }
}

TEST_F(DeviceTroubleTest, AChannelThatDoesNotFitIsRefusedAndAnOlderOneGoesOn) {
  const Runtime runtime = open_runtime();
  Publisher older = Publisher::open(runtime, "older", Format::bytes(kFrameBytes).value(),
                                    test::on_device(PublisherOptions()))
                        .value();
  Subscriber subscriber = Subscriber::open(runtime, "older", soon()).value();
  RawCuda& raw = *RawCuda::get();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  static_cast<void>(raw.stream());
  raw.expect(raw.driver().mem_get_info(&free_bytes, &total_bytes));
  const std::vector<std::string> files_before = files();
  // Two slots of more than half of it.
  const std::uint64_t slot_bytes = total_bytes / 2 + (std::uint64_t{1} << 20);
  for (int round = 0; round < 3; ++round) {
    const auto refused = Publisher::open(runtime, kName, Format::bytes(slot_bytes).value(),
                                         test::on_device(PublisherOptions{.slot_count = 2}));
    ASSERT_TRUE(refused.failed_with(Code::out_of_memory));
    ASSERT_NE(refused.error().facts(), nullptr);
    EXPECT_GE(refused.error().facts()->numbers[0], 2 * slot_bytes) << "wanted";
    EXPECT_GT(refused.error().facts()->numbers[1], 0U) << "free";
    EXPECT_LT(refused.error().facts()->numbers[1], total_bytes);
    EXPECT_EQ(refused.error().facts()->device, TestDevice::id().uuid);
    EXPECT_EQ(files(), files_before);
    ASSERT_TRUE(publish_number(older, static_cast<std::uint64_t>(round) + 1));
    EXPECT_TRUE(test::receives_frame(subscriber, static_cast<std::uint64_t>(round) + 1, soon()));
  }
  Publisher fits = open_publisher(runtime);
  Subscriber of_fits = open_subscriber(runtime);
  ASSERT_TRUE(publish_number(fits, 5));
  EXPECT_TRUE(test::receives_frame(of_fits, 5, soon()));
}

TEST_F(DeviceTroubleTest, AGenerationThatDoesNotFitIsRefusedAndTheOldOneGoesOn) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
  RawCuda& raw = *RawCuda::get();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  static_cast<void>(raw.stream());
  raw.expect(raw.driver().mem_get_info(&free_bytes, &total_bytes));
  const std::uint64_t slot_bytes = total_bytes / 2 + (std::uint64_t{1} << 20);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const Result<void> refused =
        publisher.resize(Format::bytes(slot_bytes).value(), soon(), {.slot_count = 2});
    ASSERT_TRUE(refused.failed_with(Code::out_of_memory));
    ASSERT_NE(refused.error().facts(), nullptr);
    EXPECT_EQ(refused.error().origin(), Origin::driver) << "it was asked";
    EXPECT_GE(refused.error().facts()->numbers[0], 2 * slot_bytes) << "wanted";
    EXPECT_GT(refused.error().facts()->numbers[1], 0U) << "free";
    EXPECT_LT(refused.error().facts()->numbers[1], total_bytes);
    ASSERT_TRUE(publish_number(publisher, round));
    EXPECT_TRUE(test::receives_frame(subscriber, round, soon()));
  }
  EXPECT_EQ(publisher.statistics().resizes, 0U);
  ASSERT_TRUE(publisher.resize(Format::bytes(2 * kFrameBytes).value(), soon()));
  ASSERT_TRUE(publish_number(publisher, 4));
  EXPECT_TRUE(test::receives_frame(subscriber, 4, soon()));
}

TEST_F(DeviceTroubleTest, AResizeSurvivesTheFailureOfEachOfItsCalls) {
  const auto* const driver = test::stand_in();
  if (driver == nullptr) GTEST_SKIP() << "only the stand-in driver fails on demand";
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
  std::uint64_t number = 0;
  constexpr int kOutOfMemory = static_cast<int>(test::cuda_api::Status::out_of_memory);
  for (const char* const call :
       {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
        "cuMemExportToShareableHandle", "cuMemHostRegister", "cuMemsetD8Async"}) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(driver->fail_calls(call, 1, 1, kOutOfMemory));
    EXPECT_TRUE(publisher.resize(Format::bytes(2 * kFrameBytes).value(), soon())
                    .failed_with(Code::out_of_memory));
    driver->clear_failures();
    ASSERT_TRUE(publish_number(publisher, ++number));
    EXPECT_TRUE(test::receives_frame(subscriber, number, soon()));
  }
  EXPECT_EQ(publisher.statistics().resizes, 0U);
}

}  // namespace
}  // namespace vramlink
