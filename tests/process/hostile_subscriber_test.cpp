// A live publisher is attacked by peers that break the protocol. It answers with a typed error,
// leaks nothing and goes on serving an honest subscriber.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include <vramlink/channel.hpp>
#include <vramlink/version.hpp>

#include "support/frame_pattern.hpp"
#include "support/leak_check.hpp"
#include "support/link_attacker.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kPayloadBytes = 4096;

class HostileSubscriber : public LeakCheck {
 protected:
  explicit HostileSubscriber(std::uint32_t slot_count = 6)
      : runtime_(Runtime::open({directory_.path()}).value()),
        publisher_(Publisher::open(runtime_, kVictimChannel, Format::bytes(kPayloadBytes).value(),
                                   {.slot_count = slot_count, .device = TestDevice::id()})
                       .value()),
        honest_(open_honest()) {}

  void SetUp() override { static_cast<void>(TestDevice::require()); }

  Subscriber open_honest() {
    return Subscriber::open(runtime_, kVictimChannel, Deadline::after(seconds(60)),
                            {.held_count_max = 1})
        .value();
  }

  void publish_one() {
    auto frame = publisher_.try_claim(StreamView::already_complete());
    ASSERT_TRUE(frame) << to_string(frame.error());
    const auto receipt = publish_pattern(publisher_, *std::move(frame), {0, sequence_ + 1});
    ASSERT_TRUE(receipt) << to_string(receipt.error());
    EXPECT_TRUE(receipt->wait(Deadline::after(seconds(60))));
    ++sequence_;
  }

  void expect_frame(Subscriber& subscriber) {
    const auto frame = subscriber.receive(Deadline::after(seconds(60)));
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(is_whole(*frame));
    EXPECT_EQ(frame->sequence(), sequence_);
  }

  /// The one that is attached goes on, and a newcomer is let in.
  void expect_serving() {
    for (int i = 0; i < 8; ++i) {
      publish_one();
      expect_frame(honest_);
    }
    Subscriber newcomer = open_honest();
    publish_one();
    expect_frame(newcomer);
    expect_frame(honest_);
  }

  /// Sends one first message; expects the answer and the end.
  void expect_refused(const char* what, std::span<const std::byte> bytes, Code code,
                      std::span<const int> fds = {}) {
    SCOPED_TRACE(what);
    const RawPeer peer(directory_.path(), kVictimChannel);
    ASSERT_TRUE(peer.send_bytes(bytes, fds));
    const auto refused = peer.refusal();
    ASSERT_TRUE(refused) << "there was no answer";
    EXPECT_EQ(*refused, code);
  }

  void expect_refused(const char* what, wire::Hello hello, Code code = Code::corrupt,
                      std::span<const int> fds = {}) {
    expect_refused(what, wire::encode(hello), code, fds);
  }

  TemporaryDirectory directory_;
  Runtime runtime_;
  Publisher publisher_;
  Subscriber honest_;
  std::uint64_t sequence_ = 0;
};

TEST_F(HostileSubscriber, IsRefusedForBytesThatAreNoMessage) {
  wire::Hello hello = honest_hello(kVictimChannel);
  const auto good = wire::encode(hello);
  for (std::size_t size : {std::size_t{1}, std::size_t{8}, std::size_t{23}, good.size() - 1}) {
    expect_refused("truncated", good.first(size), Code::corrupt);
  }
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.push_back(std::byte{0});
  expect_refused("one byte too long", longer, Code::corrupt);
  longer.resize(2 * wire::kMessageBytesMax);
  expect_refused("larger than any message", longer, Code::corrupt);

  const auto changed = [&](std::size_t offset, auto value) {
    std::vector<std::byte> bytes(good.begin(), good.end());
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    return bytes;
  };
  expect_refused("magic", changed(0, std::uint32_t{1}), Code::corrupt);
  expect_refused("version", changed(4, static_cast<std::uint16_t>(kWireVersion + 1)),
                 Code::incompatible);
  for (const int type : {0, 12, 0xffff}) {
    expect_refused("type", changed(6, static_cast<std::uint16_t>(type)), Code::corrupt);
  }
  expect_refused("size", changed(8, std::uint32_t{0xffff'ffff}), Code::corrupt);
  expect_refused("fd count", changed(12, std::uint32_t{1}), Code::corrupt);
  expect_serving();
}

TEST_F(HostileSubscriber, IsRefusedForHelloFieldsOutOfRange) {
  const auto expect_changed = [&](const char* what, const auto& change, Code code = Code::corrupt) {
    wire::Hello hello = honest_hello(kVictimChannel);
    change(hello);
    expect_refused(what, hello, code);
  };
  expect_changed("role 0", [](auto& hello) { hello.role = wire::Role{0}; });
  expect_changed("role 3", [](auto& hello) { hello.role = wire::Role{3}; });
  expect_changed("flags", [](auto& hello) { hello.flags = 0x8000'0000; });
  expect_changed("pid 0", [](auto& hello) { hello.process.pid = 0; });
  expect_changed("pid -1", [](auto& hello) { hello.process.pid = -1; });
  expect_changed("other pid", [](auto& hello) { ++hello.process.pid; });
  expect_changed("start time", [](auto& hello) { hello.process.start_time += 1000; });
  expect_changed("boot", [](auto& hello) { hello.process.boot_id[0] ^= 1; });
  expect_changed("depth", [](auto& hello) { hello.queue_depth = 64; });
  expect_changed("held 0", [](auto& hello) { hello.max_held = 0; });
  expect_changed("held", [](auto& hello) { hello.max_held = 0xffff'ffff; });
  expect_changed("name length", [](auto& hello) { hello.name_bytes = 0xffff'ffff; });
  expect_changed("name", [](auto& hello) { hello.name[0] = '/'; });
  expect_changed("observer that holds", [](auto& hello) { hello.role = wire::Role::observer; });
  expect_changed(
      "another channel", [](auto& hello) { wire::set_name(hello, "other"); }, Code::not_found);
  expect_serving();
}

TEST_F(HostileSubscriber, IsRefusedForDescriptorsThatDoNotBelong) {
  const os::UniqueFd event = os::event_fd().value();
  wire::Hello hello = honest_hello(kVictimChannel);
  for (const std::size_t count : {1, 2, 8, 20, 200}) {
    expect_refused("descriptors", hello, Code::corrupt, std::vector<int>(count, event.get()));
  }
  wire::Hello promised = honest_hello(kVictimChannel);
  promised.flags = wire::kHelloPidfd;
  static_cast<void>(wire::encode(promised));
  expect_refused("no pidfd", std::as_bytes(std::span(&promised, 1)), Code::corrupt);
  expect_serving();
}

TEST_F(HostileSubscriber, WithADescriptorThatIsNoPidfdIsKnownByItsSocketAlone) {
  const os::UniqueFd event = os::event_fd().value();
  wire::Hello hello = honest_hello(kVictimChannel);
  hello.flags = wire::kHelloPidfd;
  const RawPeer peer(directory_.path(), kVictimChannel);
  ASSERT_TRUE(peer.send(hello, std::array{event.get()}));
  const auto offered = peer.next();
  ASSERT_TRUE(offered);
  EXPECT_EQ(offered->type(), wire::MessageType::offer);
  expect_serving();
}

TEST_F(HostileSubscriber, IsRefusedForMessagesOutOfOrder) {
  const auto expect_first = [&](const char* what, auto message) {
    expect_refused(what, wire::encode(message), Code::corrupt);
  };
  expect_first("mapped", wire::Mapped{{}, 1});
  expect_first("go", wire::Go{{}, 1, 1, 0});
  expect_first("query", wire::Query{{}, wire::QueryKind::status, 0});
  expect_first("revoked", wire::Revoked{{}, 1, wire::RevokeReason::lease, 0});
  expect_first("failed", wire::Failed{{}, 1, 0});
  {
    RawSubscriber twice(directory_.path(), kVictimChannel);
    ASSERT_TRUE(twice.peer.send(honest_hello(kVictimChannel)));
    EXPECT_EQ(twice.peer.refusal(), Code::corrupt);
  }
  {
    RawSubscriber wrong(directory_.path(), kVictimChannel);
    ASSERT_TRUE(wrong.peer.send(wire::Mapped{{}, wrong.offer.generation + 1}));
    EXPECT_EQ(wrong.peer.refusal(), Code::corrupt);
  }
  {
    RawPeer observer(directory_.path(), kVictimChannel);
    wire::Hello hello = honest_hello(kVictimChannel);
    hello.role = wire::Role::observer;
    hello.max_held = 0;
    ASSERT_TRUE(observer.send(hello));
    ASSERT_TRUE(observer.next());
    ASSERT_TRUE(observer.send(wire::Mapped{{}, 1}));
    EXPECT_EQ(observer.refusal(), Code::corrupt);
  }
  expect_serving();
}

TEST_F(HostileSubscriber, IsRevokedForBreakingTheRulesAsAMember) {
  std::uint64_t revoked = 0;
  const auto expect_revoked = [&](const char* what, std::span<const std::byte> bytes) {
    SCOPED_TRACE(what);
    RawSubscriber member(directory_.path(), kVictimChannel);
    member.attach();
    ASSERT_TRUE(member.peer.send_bytes(bytes));
    const auto message = member.peer.next();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->type(), wire::MessageType::revoked);
    member.peer.wait_for_end();
    EXPECT_EQ(publisher_.statistics().subscribers_revoked, ++revoked);
  };
  wire::Hello hello = honest_hello(kVictimChannel);
  wire::Mapped mapped{{}, 1};
  wire::Query query{{}, wire::QueryKind::status, 0};
  expect_revoked("hello", wire::encode(hello));
  expect_revoked("mapped", wire::encode(mapped));
  expect_revoked("query", wire::encode(query));
  expect_revoked("half a message", wire::encode(query).first(9));
  wire::Detached detached{{}, 2};
  expect_revoked("detached from a generation that it is not in", wire::encode(detached));
  expect_serving();
}

TEST_F(HostileSubscriber, AnswersTheOfferOfANewGenerationWithNonsense) {
  std::uint64_t generation = 1;
  const auto expect_end = [&](const char* what, const auto& spoil) {
    SCOPED_TRACE(what);
    RawSubscriber member(directory_.path(), kVictimChannel);
    member.attach();
    ASSERT_TRUE(publisher_.resize(Format::bytes(kPayloadBytes).value(),
                                  Deadline::after(std::chrono::milliseconds(5))));
    const auto offered = member.peer.next();
    ASSERT_TRUE(offered);
    ASSERT_EQ(offered->as<wire::Offer>()->generation, ++generation);
    spoil(member.peer, offered->fds.at(1).get());
    member.peer.wait_for_end();
    expect_serving();
  };
  expect_end("another generation", [&](const RawPeer& peer, int) {
    EXPECT_TRUE(peer.send(wire::Mapped{{}, generation + 1}));
  });
  expect_end("twice", [&](const RawPeer& peer, int) {
    EXPECT_TRUE(peer.send(wire::Mapped{{}, generation}));
    EXPECT_TRUE(peer.send(wire::Mapped{{}, generation}));
  });
  expect_end("detached before it is in", [&](const RawPeer& peer, int) {
    EXPECT_TRUE(peer.send(wire::Detached{{}, generation}));
  });
  expect_end("detached twice", [&](const RawPeer& peer, int) {
    EXPECT_TRUE(peer.send(wire::Detached{{}, generation - 1}));
    EXPECT_TRUE(peer.send(wire::Detached{{}, generation - 1}));
  });
  expect_end("a segment that shrank", [&](const RawPeer& peer, int private_fd) {
    ASSERT_EQ(::ftruncate(private_fd, 0), 0);
    EXPECT_TRUE(peer.send(wire::Mapped{{}, generation}));
  });
  expect_end("a farewell", [&](const RawPeer& peer, int) {
    EXPECT_TRUE(peer.send(wire::Bye{{}, generation - 1, wire::ByeReason::drained, 0}));
  });
}

TEST_F(HostileSubscriber, CannotMakeThePublisherTouchAFileThatShrank) {
  const auto expect_refused_after = [&](const char* what, const auto& spoil, Code code) {
    SCOPED_TRACE(what);
    RawSubscriber member(directory_.path(), kVictimChannel);
    spoil(member.private_fd());
    ASSERT_TRUE(member.peer.send(wire::Mapped{{}, member.offer.generation}));
    const auto refused = member.peer.refusal();
    ASSERT_TRUE(refused);
    EXPECT_EQ(*refused, code);
  };
  const auto resize = [](off_t size) {
    return [size](int fd) { ASSERT_EQ(::ftruncate(fd, size), 0); };
  };
  expect_refused_after("empty", resize(0), Code::corrupt);
  expect_refused_after("one page", resize(4096), Code::corrupt);
  expect_refused_after("grown", resize(1 << 20), Code::corrupt);
  expect_refused_after(
      "shrunk and grown again",
      [](int fd) {
        ASSERT_EQ(::ftruncate(fd, 0), 0);
        ASSERT_EQ(::ftruncate(fd, sizeof(wire::Private)), 0);
      },
      Code::corrupt);
  expect_refused_after(
      "a hole",
      [](int fd) {
        ASSERT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
      },
      Code::corrupt);
  expect_refused_after(
      "sealed against seals", [](int fd) { seal(fd, os::kSealSeal); }, Code::permission_denied);
  expect_refused_after(
      "empty and sealed",
      [](int fd) {
        ASSERT_EQ(::ftruncate(fd, 0), 0);
        seal(fd, os::kFullSeals);
      },
      Code::permission_denied);
  expect_serving();
}

TEST_F(HostileSubscriber, MayVanishAtAnyMessage) {
  { const RawPeer silent(directory_.path(), kVictimChannel); }
  {
    const RawPeer greeted(directory_.path(), kVictimChannel);
    EXPECT_TRUE(greeted.send(honest_hello(kVictimChannel)));
  }
  { const RawSubscriber offered(directory_.path(), kVictimChannel); }
  {
    const RawSubscriber mapped(directory_.path(), kVictimChannel);
    EXPECT_TRUE(mapped.peer.send(wire::Mapped{{}, mapped.offer.generation}));
  }
  {
    RawSubscriber member(directory_.path(), kVictimChannel);
    member.attach();
    EXPECT_TRUE(member.peer.send(wire::Bye{{}, 1, wire::ByeReason::drained, 0}));
    member.peer.wait_for_end();
  }
  expect_serving();
}

}  // namespace
}  // namespace vramlink::test
