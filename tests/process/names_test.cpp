// Names, their owners, and those who only look.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/channel_fixture.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::publish_number;
using test::soon;

class NameTest : public test::ChannelTest {};
VRAMLINK_BOTH_WAYS(NameTest);

TEST_P(NameTest, ASecondPublisherHearsWhoIsTheFirst) {
  const auto first = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    const Publisher publisher = open_publisher(runtime);
    link.ready();
    static_cast<void>(link.wait_go());
  });
  first->wait_ready();
  {
    const Runtime runtime = open_runtime();
    const auto second = Publisher::open(runtime, kName, Format::bytes(8).value(), {});
    ASSERT_TRUE(second.failed_with(Code::already_exists));
    EXPECT_EQ(second.error().facts()->peer_pid, first->pid());
    EXPECT_EQ(second.error().facts()->subject, kName);
    EXPECT_NE(to_string(second.error()).find(std::to_string(first->pid())), std::string::npos);
    EXPECT_TRUE(Subscriber::open(runtime, kName, soon())) << "the first one lives on";
  }
  first->go();
  first->finish();
  const Runtime runtime = open_runtime();
  EXPECT_TRUE(Publisher::open(runtime, kName, Format::bytes(8).value(), {}));
}

TEST_P(NameTest, ALongNameWorksLikeAnyOther) {
  const std::string name(120, 'n');
  const auto peer = start_peer([&](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{name});
    Subscriber subscriber = Subscriber::open(runtime, name, soon()).value();
    EXPECT_EQ(subscriber.name(), name);
    EXPECT_TRUE(test::receives_frame(subscriber, 1, soon()));
  });
  const Runtime runtime = open_runtime();
  Publisher publisher =
      Publisher::open(runtime, name, Format::bytes(64).value(), test::on_device({})).value();
  EXPECT_EQ(publisher.name(), name);
  ASSERT_TRUE(publish_number(publisher, 1));
  peer->go();
  peer->finish();
}

TEST_P(NameTest, ObserversSeeWhatIsThere) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 5});
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    for (std::uint64_t number = 1; number <= 4; ++number) {
      ASSERT_TRUE(publish_number(publisher, number));
    }
    const Frame held = subscriber.receive(soon()).value();
    EXPECT_EQ(held.sequence(), 1U);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_EQ(publisher.statistics().subscribers_ever, 1U) << "observers are not counted";
  });
  peer->wait_ready();
  {
    const Runtime runtime = open_runtime();
    EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{kName});
    const ChannelInfo info = inspect_channel(runtime, kName, soon()).value();
    EXPECT_EQ(info.name, kName);
    EXPECT_EQ(info.owner_pid, peer->pid());
    EXPECT_FALSE(info.owner_name.empty());
    EXPECT_TRUE(info.responsive) << info.trouble;
    EXPECT_EQ(info.trouble, "");
    EXPECT_EQ(info.device, test::TestDevice::id());
    EXPECT_EQ(info.format, Format::bytes(kFrameBytes).value());
    EXPECT_EQ(info.slot_count, 5U);
    EXPECT_EQ(info.newest_sequence, 4U);
    EXPECT_GE(info.newest_age_ns, 0);
    EXPECT_GT(info.frames_per_second, 0);
    EXPECT_EQ(info.statistics.published, 4U);
    EXPECT_EQ(info.statistics.published_bytes, 4 * kFrameBytes);
    ASSERT_EQ(info.statistics.subscribers.size(), 1U);
    EXPECT_EQ(info.statistics.subscribers[0].pid, peer->pid());
    EXPECT_EQ(info.statistics.subscribers[0].queue_depth, 2U);
    EXPECT_EQ(info.statistics.subscribers[0].held, 1U);
    EXPECT_EQ(info.statistics.subscribers[0].lag, 3U);
    EXPECT_EQ(info.statistics.subscribers[0].received, 1U);
  }
  peer->go();
  peer->finish();
}

TEST_P(NameTest, AnOwnerIsKnownWhileItLives) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    const Publisher publisher = open_publisher(runtime);
    link.ready();
    static_cast<void>(link.wait_go());
  });
  peer->wait_ready();
  const Runtime runtime = open_runtime();
  const ProcessInfo owner = inspect_owner(runtime, kName).value();
  EXPECT_EQ(owner.pid, peer->pid());
  EXPECT_EQ(owner.uid, static_cast<std::int64_t>(::geteuid()));
  EXPECT_FALSE(owner.stopped);
  EXPECT_TRUE(owner.other_namespaces.empty());
  EXPECT_FALSE(inspect_channel(runtime, kName, soon()).value().trouble_error);
  peer->go();
  peer->finish();
  EXPECT_TRUE(inspect_owner(runtime, kName).failed_with(Code::not_found));
}

class UnknownNameTest : public test::ChannelFixture {};

TEST_F(UnknownNameTest, IsSaidWithWhatIsSimilar) {
  const Runtime runtime = open_runtime();
  const auto nobody = Subscriber::open(runtime, "cam0", Deadline::passed());
  ASSERT_TRUE(nobody.failed_with(Code::not_found));
  EXPECT_NE(nobody.error().facts()->remedy.find("start a publisher"), std::string::npos);
  const Publisher publisher = open_publisher(runtime);
  for (const Deadline deadline :
       {Deadline::passed(), Deadline::after(std::chrono::milliseconds(20))}) {
    const auto similar = Subscriber::open(runtime, "cam1", deadline);
    ASSERT_TRUE(similar.failed_with(Code::not_found));
    EXPECT_EQ(similar.error().facts()->remedy, "did you mean 'cam0'?");
  }
  const auto inspected = inspect_channel(runtime, "can0", soon());
  ASSERT_TRUE(inspected.failed_with(Code::not_found));
  EXPECT_EQ(inspected.error().facts()->remedy, "did you mean 'cam0'?");
  EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{"cam0"});
}

TEST_F(UnknownNameTest, OddNamesAreRefusedEverywhere) {
  const Runtime runtime = open_runtime();
  for (const std::string& name :
       {std::string(), std::string("../cam0"), std::string("a b"), std::string(".x"),
        std::string(121, 'n'), std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_TRUE(Publisher::open(runtime, name, Format::bytes(8).value(), {})
                    .failed_with(Code::invalid_argument));
    EXPECT_TRUE(Subscriber::open(runtime, name, soon()).failed_with(Code::invalid_argument));
    EXPECT_TRUE(inspect_channel(runtime, name, soon()).failed_with(Code::invalid_argument));
    EXPECT_TRUE(inspect_owner(runtime, name).failed_with(Code::invalid_argument));
  }
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(UnknownNameTest, ASubscriberWaitsForItsPublisherToAppear) {
  test::ChildProcess child([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    link.ready();
    Subscriber subscriber = open_subscriber(runtime);
    EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 1U);
    return 0;
  });
  child.wait_ready();
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  ASSERT_TRUE(publisher.wait_for_subscribers(1, kForever));
  ASSERT_TRUE(publish_number(publisher, 1));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(UnknownNameTest, AnOwnerIsSaidToBeStoppedAndDead) {
  test::ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    const Publisher publisher = open_publisher(runtime);
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  owner.wait_ready();
  owner.stop();
  const Runtime runtime = open_runtime();
  EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{kName});
  const ChannelInfo info =
      inspect_channel(runtime, kName, Deadline::after(std::chrono::milliseconds(20))).value();
  EXPECT_FALSE(info.responsive);
  EXPECT_NE(info.trouble, "");
  ASSERT_TRUE(info.trouble_error);
  EXPECT_EQ(info.trouble_error->code(), Code::timed_out);
  EXPECT_TRUE(inspect_owner(runtime, kName).value().stopped);
  EXPECT_EQ(info.owner_pid, owner.pid());
  owner.resume();
  EXPECT_TRUE(inspect_channel(runtime, kName, soon()).value().responsive);
  EXPECT_FALSE(inspect_owner(runtime, kName).value().stopped);
  owner.kill();
  EXPECT_NE(owner.wait(), 0);
  const auto dead = inspect_owner(runtime, kName);
  ASSERT_TRUE(dead.failed_with(Code::not_found));
  EXPECT_NE(dead.error().facts()->reason.find("process " + std::to_string(owner.pid()) +
                                              ", which did, has ended"),
            std::string::npos);
  EXPECT_TRUE(Publisher::open(runtime, kName, Format::bytes(8).value(), {})) << "sweeps";
}

}  // namespace
}  // namespace vramlink
