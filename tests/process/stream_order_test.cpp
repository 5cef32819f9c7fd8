// Frames in the order of streams, between two processes with a device: what is not complete is
// received, what is not done is not given back, and whatever a stream waits for, it gets past.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/stream_gate.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using std::chrono::milliseconds;
using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::publish_complete;
using test::publish_number;
using test::RawCuda;
using test::soon;
using test::StreamGate;
using test::TestDevice;

/// Memory of this process that its stream copies frames into.
class ReadBack {
 public:
  explicit ReadBack(std::size_t size_bytes)
      : size_bytes_(size_bytes), memory_(raw().allocate(size_bytes)) {}
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;
  ~ReadBack() { raw().free(memory_); }

  void read(const Frame& frame, StreamView stream) const {
    raw().expect(raw().driver().memcpy_dtod_async(address(memory_), address(frame.data()),
                                                  size_bytes_, test::raw_stream(stream)));
  }
  [[nodiscard]] ::testing::AssertionResult holds(std::uint64_t number) const {
    return test::holds_frame({memory_, size_bytes_}, number);
  }

 private:
  static RawCuda& raw() {
    static_cast<void>(RawCuda::get()->stream());  // makes the context current
    return *RawCuda::get();
  }
  static test::cuda_api::DevicePointer address(const std::byte* memory) {
    return test::device_pointer(memory);
  }

  std::size_t size_bytes_;
  std::byte* memory_;
};

class StreamOrderTest : public test::ChannelFixture {
 protected:
  /// The body of a child: publishes frame 1 behind a gate, says so, and opens the gate when told.
  [[nodiscard]] ChildProcess::Body gated_publisher(std::uint64_t frame_count = 1) const {
    return [this, frame_count](const ChildLink& link) {
      const Runtime runtime = open_runtime();
      Publisher publisher = open_publisher(runtime);
      StreamGate gate;
      EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
      gate.close(TestDevice::stream());
      std::optional<Receipt> receipt;
      for (std::uint64_t number = 1; number <= frame_count; ++number) {
        receipt = publish_number(publisher, number).value();
      }
      EXPECT_FALSE(receipt->ready());
      link.ready();
      static_cast<void>(link.wait_go());
      gate.open();
      EXPECT_TRUE(receipt->wait(soon()));
      link.ready();
      static_cast<void>(link.wait_go());
      EXPECT_TRUE(publish_complete(publisher, frame_count + 1));
      EXPECT_TRUE(publisher.close(soon()));
      return 0;
    };
  }
  /// In stream order. Unless it is told otherwise a stream waits for longer than the watchdog.
  static Frame receive(Subscriber& subscriber,
                       Deadline wait_until = Deadline::after(std::chrono::hours(1))) {
    return subscriber.receive(TestDevice::stream(), wait_until).value();
  }
};

TEST_F(StreamOrderTest, AnIncompleteFrameIsReceivedAndReadWhenItIsComplete) {
  ChildProcess child(gated_publisher());
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime);
  child.wait_ready();
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty)) << "it is not complete";
  Frame frame = receive(subscriber);
  EXPECT_EQ(frame.sequence(), 1U);
  const ReadBack bytes(kFrameBytes);
  bytes.read(frame, TestDevice::stream());
  const ReleaseReceipt receipt = frame.release(TestDevice::stream()).value();
  EXPECT_TRUE(RawCuda::get()->is_busy(TestDevice::stream()));
  EXPECT_FALSE(receipt.ready());
  child.go();
  EXPECT_TRUE(receipt.wait(soon()));
  TestDevice::finish(TestDevice::stream());
  EXPECT_TRUE(bytes.holds(1));
  EXPECT_FALSE(receipt.aborted());
  child.wait_ready();
  child.go();
  EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 2U);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(StreamOrderTest, AReleaseByStreamGivesTheSlotBackBehindTheWorkThatReadsIt) {
  ChildProcess child([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
    StreamGate gate;
    const ReadBack bytes(kFrameBytes);
    Frame frame = subscriber.receive(soon()).value();
    gate.close(TestDevice::stream());
    bytes.read(frame, TestDevice::stream());
    const ReleaseReceipt receipt = frame.release(TestDevice::stream()).value();
    EXPECT_EQ(frame.data(), nullptr);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_FALSE(receipt.ready());
    gate.open();
    EXPECT_TRUE(receipt.wait(soon()));
    TestDevice::finish(TestDevice::stream());
    EXPECT_TRUE(bytes.holds(1)) << "the slot was written to before the stream had read it";
    for (std::uint64_t number = 2; number <= 3; ++number) {
      EXPECT_TRUE(test::receives_frame(subscriber, number, soon()));
    }
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(publish_complete(publisher, 1));
  child.go();
  child.wait_ready();
  ASSERT_TRUE(publish_complete(publisher, 2));
  EXPECT_EQ(publisher.statistics().subscribers.at(0).held, 1U);
  EXPECT_TRUE(publisher.claim(TestDevice::stream(), Deadline::after(milliseconds(20)))
                  .failed_with(Code::timed_out));
  child.go();
  // Nothing rings but the device's store.
  ASSERT_TRUE(publish_number(publisher, 3, kForever));
  EXPECT_TRUE(publisher.close(soon()));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(StreamOrderTest, AKilledPublisherLetsTheStreamGoAndTheNextOneIsFine) {
  expect_leftovers();
  ChildProcess child(gated_publisher(2));
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  child.wait_ready();
  const Frame kept = receive(subscriber);
  EXPECT_EQ(kept.sequence(), 1U);
  const ReleaseReceipt given_back = receive(subscriber).release(TestDevice::stream()).value();
  EXPECT_FALSE(kept.aborted());
  EXPECT_TRUE(RawCuda::get()->is_busy(TestDevice::stream()));
  child.kill();
  TestDevice::finish(TestDevice::stream());
  EXPECT_TRUE(kept.aborted());
  EXPECT_TRUE(given_back.wait(soon()).failed_with(Code::aborted));
  EXPECT_TRUE(given_back.ready());
  EXPECT_TRUE(given_back.aborted());
  EXPECT_EQ(subscriber.statistics().aborted, 2U);
  EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::peer_gone));
  child.wait();
  EXPECT_TRUE(kept.aborted()) << "whatever the dying device wrote";
  Publisher next = open_publisher(runtime);
  ASSERT_TRUE(next.wait_for_subscribers(1, soon()));
  const ReadBack bytes(kFrameBytes);
  for (std::uint64_t number = 11; number <= 14; ++number) {
    ASSERT_TRUE(publish_number(next, number));
    Frame frame = receive(subscriber);
    bytes.read(frame, TestDevice::stream());
    const ReleaseReceipt receipt = frame.release(TestDevice::stream()).value();
    EXPECT_TRUE(receipt.wait(soon()));
    TestDevice::finish(TestDevice::stream());
    EXPECT_TRUE(bytes.holds(number));
  }
  EXPECT_EQ(subscriber.statistics().aborted, 2U);
}

TEST_F(StreamOrderTest, AStreamWaitsUntilItsDeadlineAndNoLonger) {
  ChildProcess child(gated_publisher());
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime);
  child.wait_ready();
  const Deadline deadline = Deadline::after(milliseconds(20));
  Frame frame = receive(subscriber, deadline);
  TestDevice::finish(TestDevice::stream());
  EXPECT_TRUE(deadline.has_passed());
  EXPECT_TRUE(frame.aborted());
  EXPECT_EQ(subscriber.statistics().aborted, 1U);
  child.go();
  child.wait_ready();
  EXPECT_TRUE(frame.aborted()) << "it is complete now, and was not when the stream read it";
  const ReleaseReceipt receipt = frame.release(TestDevice::stream()).value();
  EXPECT_TRUE(receipt.wait(soon()).failed_with(Code::aborted));
  child.go();
  const Frame second = receive(subscriber);
  EXPECT_EQ(second.sequence(), 2U);
  TestDevice::finish(TestDevice::stream());
  EXPECT_FALSE(second.aborted());
  EXPECT_EQ(subscriber.statistics().peer_deaths, 0U);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(StreamOrderTest, AQueueIsReadInOrderByAStreamThatIsNeverWaitedFor) {
  constexpr std::uint64_t kFrames = 64;
  ChildProcess child([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 6, .when_full = WhenFull::block});
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    link.ready();
    std::optional<Receipt> last;
    for (std::uint64_t number = 1; number <= kFrames; ++number) {
      last = publish_number(publisher, number).value();
    }
    EXPECT_TRUE(publisher.close(soon()));
    // Taken is not complete, and what a process has submitted ends with it.
    EXPECT_TRUE(last->wait(soon()));
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(5), .held_count_max = 4});
  std::vector<std::optional<ReadBack>> bytes(kFrames);
  std::vector<ReleaseReceipt> receipts;
  for (auto& each : bytes) each.emplace(kFrameBytes);
  child.wait_ready();
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    Result<Frame> frame = subscriber.receive(TestDevice::stream(), soon());
    // As many frames as it may hold are still to be released by the stream.
    while (frame.failed_with(Code::resource_exhausted)) {
      EXPECT_TRUE(receipts.back().wait(soon()));
      frame = subscriber.receive(TestDevice::stream(), soon());
    }
    ASSERT_TRUE(frame) << to_string(frame.error());
    ASSERT_EQ(frame->sequence(), number);
    bytes[number - 1]->read(*frame, TestDevice::stream());
    receipts.push_back(frame->release(TestDevice::stream()).value());
  }
  EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::closed));
  TestDevice::finish(TestDevice::stream());
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    EXPECT_TRUE(receipts[number - 1].wait(soon()));
    EXPECT_TRUE(bytes[number - 1]->holds(number));
  }
  EXPECT_EQ(subscriber.statistics().aborted, 0U);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace vramlink
