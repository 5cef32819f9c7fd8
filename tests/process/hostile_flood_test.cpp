// Peers that take too much of a publisher: its slots, its time, its connections.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/inspect.hpp>

#include "channel/handshake.hpp"
#include "support/frame_pattern.hpp"
#include "support/leak_check.hpp"
#include "support/link_attacker.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kSlotCount = 6;

/// Restored at the end of a test.
class HandshakeLimit {
 public:
  explicit HandshakeLimit(std::chrono::nanoseconds limit)
      : before_(channel::handshake_limit.exchange(limit)) {}
  HandshakeLimit(const HandshakeLimit&) = delete;
  HandshakeLimit& operator=(const HandshakeLimit&) = delete;
  ~HandshakeLimit() { channel::handshake_limit.store(before_); }

 private:
  std::chrono::nanoseconds before_;
};

class Flood : public LeakCheck {
 protected:
  Flood()
      : runtime_(Runtime::open({directory_.path()}).value()),
        publisher_(Publisher::open(runtime_, kVictimChannel, Format::bytes(4096).value(),
                                   {.slot_count = kSlotCount, .device = TestDevice::id()})
                       .value()),
        honest_(open_honest()) {}

  void SetUp() override { static_cast<void>(TestDevice::require()); }

  Subscriber open_honest() {
    return Subscriber::open(runtime_, kVictimChannel, Deadline::after(seconds(60)),
                            {.held_count_max = 1})
        .value();
  }

  [[nodiscard]] bool publish_one() {
    auto frame = publisher_.try_claim(StreamView::already_complete());
    if (!frame) return false;
    const auto receipt = publish_pattern(publisher_, *std::move(frame), {0, sequence_ + 1});
    if (!receipt) return false;
    ++sequence_;
    return receipt->wait(Deadline::after(seconds(60))).has_value();
  }

  void expect_frame(Subscriber& subscriber) {
    const auto frame = subscriber.receive(Deadline::after(seconds(60)));
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(is_whole(*frame));
  }

  void expect_serving() {
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(publish_one());
      expect_frame(honest_);
    }
    Subscriber newcomer = open_honest();
    ASSERT_TRUE(publish_one());
    expect_frame(newcomer);
    expect_frame(honest_);
  }

  [[nodiscard]] std::vector<RawPeer> observers(std::size_t count) {
    std::vector<RawPeer> made;
    wire::Hello hello = honest_hello(kVictimChannel);
    hello.role = wire::Role::observer;
    hello.max_held = 0;
    while (made.size() < count) {
      made.emplace_back(directory_.path(), kVictimChannel);
      EXPECT_TRUE(made.back().send(hello));
    }
    return made;
  }

  /// Publishes until the member is thrown out; frames may be dropped until then, not after.
  void expect_revoked(const char* what) {
    SCOPED_TRACE(what);
    const Deadline watchdog = Deadline::after(seconds(60));
    while (publisher_.statistics().subscribers_revoked == revoked_) {
      ASSERT_FALSE(watchdog.has_passed()) << "it was not revoked";
      static_cast<void>(publish_one());
      const auto frame = honest_.try_receive();
      EXPECT_TRUE(!frame || is_whole(*frame));
    }
    ++revoked_;
    // It is counted before its slots are back.
    while (!publish_one()) ASSERT_FALSE(watchdog.has_passed()) << "its slots did not come back";
    expect_frame(honest_);
    expect_serving();
  }

  TemporaryDirectory directory_;
  Runtime runtime_;
  Publisher publisher_;
  Subscriber honest_;
  std::uint64_t sequence_ = 0;
  std::uint64_t revoked_ = 0;
};

TEST_F(Flood, AMemberThatHoldsAllItMayCostsNoMore) {
  RawSubscriber member(directory_.path(), kVictimChannel, 1);
  member.attach();
  // Its own frame, and the attempt that may be under way: 2 of 6 slots. The honest one holds 1 and
  // 1 is the newest, so there is always another.
  member.words().held[0].store(~std::uint64_t{0});
  member.words().held[1].store(1);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(publish_one()) << "frame " << i;
    expect_frame(honest_);
  }
  EXPECT_EQ(publisher_.statistics().subscribers_revoked, 0u);
}

TEST_F(Flood, AMemberThatHoldsEverythingIsRevoked) {
  RawSubscriber member(directory_.path(), kVictimChannel, 1);
  member.attach();
  for (auto& held : member.words().held) held.store(~std::uint64_t{0});
  expect_revoked("holds all");
  const auto message = member.peer.next();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type(), wire::MessageType::revoked);
}

TEST_F(Flood, AMemberThatIsAheadOfThePublisherIsRevoked) {
  RawSubscriber member(directory_.path(), kVictimChannel, 1, 3);
  member.attach();
  member.words().cursor.store(~std::uint64_t{0});
  expect_revoked("cursor");
}

TEST_F(Flood, AMemberThatScribblesOverItsSegmentHurtsNobody) {
  RawSubscriber member(directory_.path(), kVictimChannel, 1, 3);
  member.attach();
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    std::mt19937_64 random(1);
    auto* words = reinterpret_cast<std::atomic<std::uint64_t>*>(member.mapping.data());
    while (!stop.load()) {
      for (std::size_t i = 0; i < sizeof(wire::Private) / 8; ++i) {
        words[i].store(random(), std::memory_order_relaxed);
      }
    }
  });
  for (int i = 0; i < 5000; ++i) {
    static_cast<void>(publish_one());
    const auto frame = honest_.try_receive();
    EXPECT_TRUE(!frame || is_whole(*frame));
  }
  expect_revoked("scribbles");
  stop.store(true);
  scribbler.join();
}

TEST_F(Flood, SilentConnectionsKeepNobodyOut) {
  std::vector<RawPeer> silent;
  for (int i = 0; i < 200; ++i) silent.emplace_back(directory_.path(), kVictimChannel);
  expect_serving();
}

TEST_F(Flood, SilentConnectionsAreEndedAtTheLimit) {
  const HandshakeLimit limit(std::chrono::milliseconds(20));
  const RawPeer silent(directory_.path(), kVictimChannel);
  silent.wait_for_end();
  const RawSubscriber offered(directory_.path(), kVictimChannel);
  offered.peer.wait_for_end();
  expect_serving();
}

TEST_F(Flood, ConnectionsThatComeAndGoKeepNobodyOut) {
  std::atomic<bool> stop{false};
  std::thread flooder([&] {
    while (!stop.load()) {
      auto socket = os::Socket::connect(directory_ / (std::string(kVictimChannel) + ".sock"));
      EXPECT_TRUE(socket || socket.failed_with(Code::full));
    }
  });
  for (int i = 0; i < 10; ++i) expect_serving();
  stop.store(true);
  flooder.join();
}

TEST_F(Flood, ObserversHaveTheirOwnLimit) {
  std::vector<RawPeer> many = observers(64);
  for (RawPeer& peer : many) {
    const auto offer = peer.next();
    ASSERT_TRUE(offer);
    EXPECT_EQ(offer->type(), wire::MessageType::offer);
  }
  EXPECT_EQ(observers(1).front().refusal(), Code::resource_exhausted);
  expect_serving();
}

TEST_F(Flood, AnObserverThatAsksWithoutEndKeepsNobodyWaiting) {
  RawPeer observer = std::move(observers(1).front());
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    while (!stop.load()) {
      static_cast<void>(observer.send(wire::Query{{}, wire::QueryKind::status, 0}));
      static_cast<void>(observer.next());
    }
  });
  std::vector<RawPeer> deaf = observers(1);
  while (deaf.front().send(wire::Query{{}, wire::QueryKind::status, 0})) {
  }
  for (int i = 0; i < 10; ++i) expect_serving();
  stop.store(true);
  asker.join();
}

TEST_F(Flood, PlacesAreCountedFromTheHandshakeOn) {
  Publisher two = Publisher::open(runtime_, "two", Format::bytes(64).value(),
                                  {.subscriber_count_max = 2, .device = TestDevice::id()})
                      .value();
  const RawSubscriber first(directory_.path(), "two");
  {
    const RawSubscriber second(directory_.path(), "two");
    const RawPeer third(directory_.path(), "two");
    ASSERT_TRUE(third.send(honest_hello("two")));
    EXPECT_EQ(third.refusal(), Code::resource_exhausted);
    ASSERT_TRUE(second.peer.send(wire::Bye{{}, 1, wire::ByeReason::drained, 0}));
    second.peer.wait_for_end();
  }
  EXPECT_TRUE(Subscriber::open(runtime_, "two", Deadline::after(seconds(60))));
}

}  // namespace
}  // namespace vramlink::test
