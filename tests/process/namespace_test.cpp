// Channels between namespaces of one host: of IPC objects and of users. Those of processes are in
// tests/cli/test_explain.py.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "support/channel_fixture.hpp"
#include "support/other_user.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::publish_complete;
using test::publish_number;
using test::soon;

/// What a child says first.
enum Word : std::uint8_t { kThere = 1, kNotPermitted = 2 };

struct Kind {
  const char* name;
  int flag;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

/// The other side lives in another namespace.
class NamespaceTest : public test::ChannelFixture, public ::testing::WithParamInterface<Kind> {
 protected:
  /// A child that runs `body` in its own namespace, from its go() on.
  [[nodiscard]] static ChildProcess::Body away(const ChildProcess::Body& body) {
    return [body, flag = GetParam().flag](const ChildLink& link) {
      const bool entered = test::enter_namespaces(flag);
      link.ready(entered ? kThere : kNotPermitted);
      if (!entered) return 0;
      static_cast<void>(link.wait_go());
      return body(link);
    };
  }
  [[nodiscard]] static bool is_permitted(ChildProcess& child) {
    return child.wait_ready() == kThere;
  }
};

#define SKIP_UNLESS_PERMITTED(child) \
  if (!is_permitted(child)) GTEST_SKIP() << "the system permits no namespace of this kind here"

INSTANTIATE_TEST_SUITE_P(Each, NamespaceTest,
                         ::testing::Values(Kind{"ipc", CLONE_NEWIPC}, Kind{"user", CLONE_NEWUSER},
                                           Kind{"both", CLONE_NEWIPC | CLONE_NEWUSER}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(NamespaceTest, FramesArriveWholeAndNothingIsLeft) {
  constexpr std::uint64_t kFrames = 100;
  ChildProcess child(away([this](const ChildLink& link) {
    const test::Holdings before = test::current_holdings();
    {
      const Runtime runtime = open_runtime();
      Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(7)});
      link.ready();
      for (std::uint64_t number = 1; number <= kFrames; ++number) {
        EXPECT_TRUE(test::receives_frame(subscriber, number, soon()));
      }
      EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::closed));
      EXPECT_EQ(subscriber.statistics().lost, 0U);
      EXPECT_EQ(subscriber.statistics().peer_deaths, 0U);
    }
    EXPECT_EQ(test::settled_difference(before), "");
    return 0;
  }));
  SKIP_UNLESS_PERMITTED(child);
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 8, .when_full = WhenFull::block});
  child.go();
  child.wait_ready();
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, soon()));
  }
  EXPECT_TRUE(publisher.close(soon()));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_P(NamespaceTest, ASubscriberThereThatIsKilledGivesItsSlotsBack) {
  ChildProcess child(away([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
    const Frame frame = subscriber.receive(soon()).value();
    EXPECT_TRUE(test::holds_frame(frame.bytes(), 1));
    link.ready();
    link.wait_forever();
    return 0;
  }));
  SKIP_UNLESS_PERMITTED(child);
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(publish_number(publisher, 1));
  child.go();
  child.wait_ready();
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  child.kill();
  EXPECT_TRUE(publish_number(publisher, 3, kForever)) << "its death is the only thing that rings";
  EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
  child.wait();
}

TEST_P(NamespaceTest, APublisherThereThatIsKilledIsPeerGone) {
  expect_leftovers();
  ChildProcess child(away([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    link.ready();
    link.wait_forever();
    return 0;
  }));
  SKIP_UNLESS_PERMITTED(child);
  const Runtime runtime = open_runtime();
  child.go();
  Subscriber subscriber = open_subscriber(runtime);
  child.wait_ready();
  const Frame frame = subscriber.receive(soon()).value();
  child.kill();
  EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
  EXPECT_TRUE(test::holds_frame(frame.bytes(), 1)) << "held frames stay readable";
  EXPECT_EQ(subscriber.statistics().peer_deaths, 1U);
  child.wait();
  Publisher next = open_publisher(runtime);
  ASSERT_TRUE(publish_complete(next, 2));
  EXPECT_TRUE(test::receives_frame(subscriber, 2, soon())) << "its name was free at once";
}

TEST_P(NamespaceTest, ASubscriberThereSeesAPublisherHereDie) {
  expect_leftovers();
  ChildProcess here([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    link.wait_forever();
    return 0;
  });
  ChildProcess there(away([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    const Frame frame = subscriber.receive(soon()).value();
    link.ready();
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
    EXPECT_TRUE(test::holds_frame(frame.bytes(), 1));
    EXPECT_EQ(subscriber.statistics().peer_deaths, 1U);
    return 0;
  }));
  SKIP_UNLESS_PERMITTED(there);
  there.go();
  there.wait_ready();
  here.kill();
  EXPECT_EQ(there.wait(), 0);
}

}  // namespace
}  // namespace vramlink
