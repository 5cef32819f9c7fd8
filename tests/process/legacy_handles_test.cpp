// Frames that go by legacy handles of the driver instead of descriptors: by consent, counted, and
// otherwise as any channel. On devices alone; GPUs that need them are in device_profiles_test.cpp.
// docs/legacy_handles.md.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include <vramlink/inspect.hpp>

#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::RawCuda;
using test::soon;
using test::TestDevice;

PublisherOptions by_handles(LegacyHandles when = LegacyHandles::always) {
  PublisherOptions options;
  options.when_full = WhenFull::block;
  options.legacy_handles = when;
  return options;
}

class LegacyHandlesTest : public test::ChannelFixture {
 protected:
  [[nodiscard]] ChannelInfo info(const Runtime& runtime) const {
    return inspect_channel(runtime, kName, soon()).value();
  }
  /// Receives `last` frames by CPU and in a stream's order in turn.
  void receive_all(const ChildLink& link, std::uint64_t last) const {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    link.ready();
    for (std::uint64_t number = 1; number <= last; ++number) {
      const bool by_stream = number % 2 == 0;
      const Result<Frame> frame =
          by_stream ? subscriber.receive(TestDevice::stream(), soon()) : subscriber.receive(soon());
      ASSERT_TRUE(frame) << to_string(frame.error());
      if (by_stream) TestDevice::finish(TestDevice::stream());
      EXPECT_EQ(frame->sequence(), number);
      EXPECT_FALSE(frame->is_copy());
      EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
    }
    EXPECT_EQ(subscriber.statistics().legacy_imports, 1U);
  }
};

TEST_F(LegacyHandlesTest, FramesArriveWholeAndTheWayIsCountedAndShown) {
  ChildProcess child([this](const ChildLink& link) {
    receive_all(link, 20);
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, by_handles());
  EXPECT_EQ(child.wait_ready(), 1);
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(test::publish_number(publisher, number));
  }
  EXPECT_EQ(publisher.statistics().path, MemoryPath::legacy_handle);
  EXPECT_EQ(publisher.statistics().legacy_imports, 1U);
  EXPECT_EQ(info(runtime).statistics.path, MemoryPath::legacy_handle);
  EXPECT_EQ(info(runtime).statistics.legacy_imports, 1U);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(LegacyHandlesTest, AreNotTakenWhereDescriptorsDo) {
  const Runtime runtime = open_runtime();
  const Publisher publisher = open_publisher(runtime, by_handles(LegacyHandles::if_needed));
  const Subscriber subscriber = open_subscriber(runtime);
  EXPECT_EQ(publisher.statistics().path, MemoryPath::descriptor);
  EXPECT_EQ(publisher.statistics().legacy_imports, 0U);
  EXPECT_EQ(subscriber.statistics().legacy_imports, 0U);
}

TEST_F(LegacyHandlesTest, AreNothingForTheHost) {
  const Runtime runtime = open_runtime();
  PublisherOptions options = by_handles();
  const auto refused = Publisher::open(runtime, kName, Format::bytes(64).value(), options);
  ASSERT_TRUE(refused.failed_with(Code::unsupported)) << "the host";
  options.legacy_handles = LegacyHandles::if_needed;
  const auto publisher = Publisher::open(runtime, kName, Format::bytes(64).value(), options);
  ASSERT_TRUE(publisher);
  EXPECT_EQ(publisher->statistics().path, MemoryPath::shared_memory);
  options.legacy_handles = static_cast<LegacyHandles>(9);
  EXPECT_TRUE(Publisher::open(runtime, "other", Format::bytes(64).value(), options)
                  .failed_with(Code::invalid_argument));
}

TEST_F(LegacyHandlesTest, OneProcessUsesItsOwnMemory) {
  // No process opens a handle of its own.
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, by_handles());
  Subscriber first = open_subscriber(runtime);
  Subscriber second = open_subscriber(runtime);
  ASSERT_TRUE(test::publish_number(publisher, 7));
  const Frame one = first.receive(soon()).value();
  const Frame two = second.receive(soon()).value();
  EXPECT_TRUE(test::holds_frame(one.bytes(), 7));
  EXPECT_EQ(one.bytes().data(), two.bytes().data());
}

TEST_F(LegacyHandlesTest, TwoSubscribersOfAProcessHaveOneMapping) {
  ChildProcess child([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber first = open_subscriber(runtime);
    std::optional<Subscriber> second = open_subscriber(runtime);
    link.ready();
    const Frame one = first.receive(soon()).value();
    std::optional<Frame> two = second->receive(soon()).value();
    EXPECT_EQ(one.bytes().data(), two->bytes().data());
    two.reset();
    second.reset();
    EXPECT_TRUE(test::holds_frame(one.bytes(), 3)) << "the first one's mapping stays";
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, by_handles());
  EXPECT_EQ(child.wait_ready(), 1);
  ASSERT_TRUE(test::publish_number(publisher, 3));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(LegacyHandlesTest, WhatAKilledPublisherLeftIsRead) {
  expect_leftovers();
  ChildProcess victim([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, by_handles());
    link.ready();
    static_cast<void>(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(test::publish_complete(publisher, 1));
    EXPECT_TRUE(test::publish_complete(publisher, 2));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  EXPECT_EQ(victim.wait_ready(), 1);
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
  const Frame first = subscriber.receive(soon()).value();
  EXPECT_EQ(victim.wait_ready(), 1);
  victim.kill();
  EXPECT_NE(victim.wait(), 0);
  const Frame second = subscriber.receive(soon()).value();
  EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::peer_gone));
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
  EXPECT_TRUE(test::holds_frame(second.bytes(), 2));
}

TEST_F(LegacyHandlesTest, AKilledSubscriberGivesItsSlotsBack) {
  ChildProcess victim([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    const Frame held = subscriber.receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, by_handles());
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  ASSERT_TRUE(test::publish_number(publisher, 1));
  EXPECT_EQ(victim.wait_ready(), 1);
  victim.kill();
  EXPECT_NE(victim.wait(), 0);
  for (std::uint64_t number = 2; number <= 10; ++number) {
    ASSERT_TRUE(test::publish_number(publisher, number));
  }
  EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
}

TEST_F(LegacyHandlesTest, ANewGenerationGoesByHandlesToo) {
  ChildProcess child([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    link.ready();
    const Frame old = subscriber.receive(soon()).value();
    const Frame next = subscriber.receive(soon()).value();
    EXPECT_EQ(next.generation(), 2U);
    EXPECT_TRUE(test::holds_frame(old.bytes(), 1));
    EXPECT_TRUE(test::holds_frame(next.bytes(), 2));
    EXPECT_EQ(subscriber.statistics().legacy_imports, 2U);
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, by_handles());
  EXPECT_EQ(child.wait_ready(), 1);
  ASSERT_TRUE(test::publish_number(publisher, 1));
  ASSERT_TRUE(publisher.resize(Format::bytes(9000).value(), soon(),
                               {.follow_within = std::chrono::seconds(30)}));
  ASSERT_TRUE(test::publish_number(publisher, 2));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(publisher.statistics().legacy_imports, 2U);
  EXPECT_EQ(publisher.statistics().path, MemoryPath::legacy_handle);
}

class LegacyHandlesOfTwoGpusTest : public LegacyHandlesTest {
 protected:
  void SetUp() override {
    LegacyHandlesTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (RawCuda::get()->devices().size() < 2) {
      GTEST_SKIP() << "one GPU is visible, and this needs two";
    }
  }
};

TEST_F(LegacyHandlesOfTwoGpusTest, AnotherGpuGetsCopiesOrAnAnswer) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, by_handles());
  SubscriberOptions options;
  options.device = RawCuda::get()->id(1);
  const auto refused = Subscriber::open(runtime, kName, soon(), options);
  ASSERT_TRUE(refused.failed_with(Code::unsupported));
  const std::string text = to_string(refused.error());
  EXPECT_NE(text.find("legacy handle"), std::string::npos) << text;
  EXPECT_NE(text.find("copy_frames"), std::string::npos) << text;
  options.copy_frames = CopyFrames::if_needed;
  Subscriber subscriber = open_subscriber(runtime, options);
  ASSERT_TRUE(test::publish_number(publisher, 5));
  const Frame frame = subscriber.receive(soon()).value();
  EXPECT_TRUE(frame.is_copy());
  EXPECT_EQ(frame.device(), options.device);
}

}  // namespace
}  // namespace vramlink
