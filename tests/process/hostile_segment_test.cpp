// A publisher that attached in order and then writes what it likes into the shared words.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <mutex>

#include <vramlink/channel.hpp>

#include "support/frame_pattern.hpp"
#include "support/leak_check.hpp"
#include "support/link_attacker.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Attack {
  const char* name;
  /// Before GO.
  std::function<void(Offering&)> write;
  /// What a call may answer; a frame is always allowed.
  std::vector<Code> codes;
};

std::vector<Attack> attacks() {
  const std::uint64_t all = ~std::uint64_t{0};
  return {
      {"SlotBeyondTheLast",
       [](Offering& o) { o.broadcast().newest.store(wire::pack_newest(1, 63)); },
       {Code::corrupt}},
      {"NewestOfAllOnes", [=](Offering& o) { o.broadcast().newest.store(all); }, {Code::corrupt}},
      {"NewestWithoutEntries",
       [](Offering& o) { o.broadcast().newest.store(wire::pack_newest(1000, 0)); },
       {Code::corrupt, Code::timed_out, Code::empty}},
      {"EntriesOfTheFuture",
       [=](Offering& o) {
         o.broadcast().newest.store(wire::pack_newest(1000, 0));
         for (auto& entry : o.broadcast().recent) entry.store(all - 63);
       },
       {Code::corrupt, Code::timed_out, Code::empty}},
      {"EntriesBeyondTheLastSlot",
       [](Offering& o) {
         for (std::uint64_t q = 1; q <= 64; ++q) {
           o.broadcast().recent[q % 64].store(wire::pack_newest(q, 9));
         }
         o.broadcast().newest.store(wire::pack_newest(64, 0));
       },
       {Code::corrupt, Code::timed_out, Code::empty}},
      {"TagsOfAllOnes",
       [=](Offering& o) {
         o.publish(5, 0);
         for (auto& slot : o.broadcast().slot) slot.tag.store(all);
       },
       {Code::corrupt, Code::timed_out, Code::empty}},
      {"NeverReady",
       [=](Offering& o) {
         o.publish(1, 0);
         o.broadcast().slot[0].ticket.store(all);
       },
       {Code::timed_out, Code::empty}},
      {"UserBytesOfAllOnes",
       [](Offering& o) {
         o.publish(1, 0);
         o.broadcast().slot[0].user_bytes.store(0xffff'ffff);
       },
       {Code::timed_out, Code::empty}},
      {"TimeOfAllOnes",
       [](Offering& o) {
         o.publish(1, 0);
         o.broadcast().slot[0].publish_ns.store(std::uint64_t{1} << 63);
         o.broadcast().slot[0].media_ns.store(std::numeric_limits<std::int64_t>::min());
       },
       {Code::timed_out, Code::empty}},
      {"StateUnknown", [](Offering& o) { o.broadcast().state.store(77); }, {Code::peer_gone}},
      {"ClosedAlready",
       [](Offering& o) {
         o.publish(1, 0);
         o.broadcast().state.store(2);
       },
       {Code::closed}},
      {"CursorOfAllOnes",
       [=](Offering& o) {
         o.words().cursor.store(all);
         o.publish(1, 0);
       },
       {Code::timed_out, Code::empty}},
      {"PrivateWordsOfAllOnes",
       [=](Offering& o) {
         for (auto& held : o.words().held) held.store(all);
         for (auto& released : o.words().released) released.store(all);
         o.words().bell.store(0xffff'ffff);
         o.words().free_bell.store(0xffff'ffff);
         o.words().flags.store(0xffff'ffff);
         o.broadcast().claim_waiters.store(0xffff'ffff);
         o.publish(1, 0);
       },
       {Code::revoked, Code::timed_out, Code::empty}},
  };
}

struct Case {
  Attack attack;
  std::uint32_t queue_depth;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Attack& attack : attacks()) {
    for (const std::uint32_t depth : {0u, 3u}) all.push_back({attack, depth});
  }
  return all;
}

class HostileSegment : public LeakCheck, public ::testing::WithParamInterface<Case> {
 protected:
  HostileSegment() : runtime_(Runtime::open({directory_.path()}).value()) {}

  void SetUp() override { static_cast<void>(TestDevice::require()); }

  void expect_allowed(const Result<Frame>& frame) {
    if (frame) {
      EXPECT_LE(frame->size_bytes(), Offering::kPitch);
      EXPECT_LE(frame->user_data().size(), std::size_t{kUserDataBytesMax});
      std::uint8_t sum = 0;
      for (const std::byte byte : TestDevice::read(frame->bytes()))
        sum ^= static_cast<std::uint8_t>(byte);
      for (const std::byte byte : frame->user_data()) sum ^= static_cast<std::uint8_t>(byte);
      EXPECT_EQ(sum, 0);  // all of it can be read
      return;
    }
    const auto& codes = GetParam().attack.codes;
    EXPECT_NE(std::find(codes.begin(), codes.end(), frame.error().code()), codes.end())
        << to_string(frame.error());
  }

  TemporaryDirectory directory_;
  Runtime runtime_;
};

TEST_P(HostileSegment, EndsNoCallBadlyAndTheNextPublisherIsFound) {
  std::optional<FakePublisher> fake(std::in_place, directory_.path(), kFakeChannel,
                                    [](RawPeer& peer) {
                                      Offering offering;
                                      offering.message.granted_depth = GetParam().queue_depth;
                                      offering.words().depth = GetParam().queue_depth;
                                      if (offer_all(peer, offering, GetParam().attack.write))
                                        peer.wait_for_end();
                                    });
  auto subscriber = Subscriber::open(
      runtime_, kFakeChannel, Deadline::after(seconds(60)),
      {.policy = ReceivePolicy::queue(GetParam().queue_depth), .reconnect = false});
  ASSERT_TRUE(subscriber) << to_string(subscriber.error());
  for (int i = 0; i < 20; ++i) {
    expect_allowed(subscriber->try_receive());
    expect_allowed(subscriber->receive(Deadline::after(milliseconds(1))));
  }
}

TEST_P(HostileSegment, IsLeftForAnHonestPublisher) {
  std::optional<FakePublisher> fake(std::in_place, directory_.path(), kFakeChannel,
                                    [served = false](RawPeer& peer) mutable {
                                      if (std::exchange(served, true))
                                        return;  // only the first time
                                      Offering offering;
                                      offering.message.granted_depth = GetParam().queue_depth;
                                      offering.words().depth = GetParam().queue_depth;
                                      offer_all(peer, offering, GetParam().attack.write);
                                    });
  auto subscriber = Subscriber::open(runtime_, kFakeChannel, Deadline::after(seconds(60)),
                                     {.policy = ReceivePolicy::queue(GetParam().queue_depth)});
  ASSERT_TRUE(subscriber) << to_string(subscriber.error());
  fake.reset();
  auto publisher = Publisher::open(runtime_, kFakeChannel, Format::bytes(4096).value(),
                                   {.device = TestDevice::id()})
                       .value();
  const Deadline watchdog = Deadline::after(seconds(60));
  std::uint64_t sequence = 0;
  while (!watchdog.has_passed()) {
    if (auto claimed = publisher.try_claim(TestDevice::stream())) {
      ASSERT_TRUE(publish_pattern(publisher, *std::move(claimed), {0, ++sequence}));
    }
    const auto frame = subscriber->receive(Deadline::after(milliseconds(20)));
    if (frame && pattern_info(*frame).sequence != 0 && is_whole(*frame)) return;
  }
  FAIL() << "the honest publisher was not found";
}

INSTANTIATE_TEST_SUITE_P(All, HostileSegment, ::testing::ValuesIn(cases()), [](const auto& test) {
  return std::string(test.param.attack.name) + (test.param.queue_depth == 0 ? "_latest" : "_queue");
});

}  // namespace
}  // namespace vramlink::test
