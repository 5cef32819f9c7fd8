// A real subscriber, and an observer, meet publishers that break the protocol. They report it with
// a typed error, fault nowhere, leak nothing, and find the next honest publisher.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include <vramlink/channel.hpp>
#include <vramlink/inspect.hpp>

#include "backend/backend.hpp"
#include "channel/handshake.hpp"
#include "runtime/runtime_state.hpp"
#include "support/absent_device.hpp"
#include "support/frame_pattern.hpp"
#include "support/leak_check.hpp"
#include "support/link_attacker.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"
#include "wire/format_block.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HostilePublisher : public LeakCheck {
 protected:
  HostilePublisher() : runtime_(Runtime::open({directory_.path()}).value()) {}
  void SetUp() override {
    if (!TestDevice::require() || TestDevice::is_host()) return;
    backend::Backend* const device =
        runtime_.state()->process()->backends().find(TestDevice::id()).value();
    memory_ = device->allocate(Offering::kPitch * Offering::kSlots).value();
  }

  /// What an honest publisher on the suite's device would offer.
  [[nodiscard]] Offering honest_offering() const {
    Offering offering;
    if (memory_ == nullptr) return offering;
    offering.payload_fd = memory_->export_memory().value();
    offering.payload_seals = 0;
    offering.message.memory_kind = wire::MemoryKind::device;
    offering.message.device = TestDevice::id().uuid;
    return offering;
  }

  Result<Subscriber> open(const SubscriberOptions& options = {}) {
    return Subscriber::open(runtime_, kFakeChannel, Deadline::after(seconds(60)), options);
  }

  /// Opening fails with `code`; afterwards the process receives from an honest publisher.
  void expect_open_fails(const char* what, Code code, FakePublisher::Script script) {
    SCOPED_TRACE(what);
    {
      const FakePublisher fake(directory_.path(), kFakeChannel, std::move(script));
      const auto subscriber = open();
      ASSERT_FALSE(subscriber);
      EXPECT_EQ(subscriber.error().code(), code) << to_string(subscriber.error());
    }
    expect_honest_channel_works();
  }

  void expect_spoilt(const char* what, Code code, const std::function<void(Offering&)>& spoil,
                     const std::function<void(Offering&)>& before_go = {}) {
    expect_open_fails(what, code, [&](RawPeer& peer) {
      Offering offering = honest_offering();
      spoil(offering);
      offer_all(peer, offering, before_go);
      peer.wait_for_end();
    });
  }

  void expect_honest_channel_works() {
    auto publisher = Publisher::open(runtime_, "honest", Format::bytes(4096).value(),
                                     {.device = TestDevice::id()})
                         .value();
    auto subscriber = Subscriber::open(runtime_, "honest", Deadline::after(seconds(60))).value();
    auto frame = publisher.try_claim(StreamView::already_complete()).value();
    ASSERT_TRUE(publish_pattern(publisher, std::move(frame), {0, 1}));
    const auto received = subscriber.receive(Deadline::after(seconds(60)));
    ASSERT_TRUE(received);
    EXPECT_TRUE(is_whole(*received));
  }

  TemporaryDirectory directory_;
  Runtime runtime_;
  std::unique_ptr<backend::Memory> memory_;  ///< of the suite's device, unless that is the host
};

TEST_F(HostilePublisher, OffersDescriptorsThatDoNotBelong) {
  const auto replace = [](int which, auto make) {
    return [which, make](Offering& offering) {
      os::UniqueFd* const fds[] = {&offering.broadcast_fd, &offering.private_fd,
                                   &offering.payload_fd};
      unsigned* const seals[] = {&offering.broadcast_seals, &offering.private_seals,
                                 &offering.payload_seals};
      *fds[which] = os::UniqueFd(make());
      *seals[which] = 0;
    };
  };
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(which);
    expect_spoilt("an eventfd", Code::corrupt,
                  replace(which, [] { return os::event_fd().value().release(); }));
    expect_spoilt("a device", Code::corrupt,
                  replace(which, [] { return ::open("/dev/zero", O_RDWR | O_CLOEXEC); }));
    expect_spoilt("a directory", Code::corrupt,
                  replace(which, [] { return ::open("/", O_RDONLY | O_CLOEXEC); }));
    expect_spoilt("a path alone", Code::corrupt,
                  replace(which, [] { return ::open("/", O_PATH | O_CLOEXEC); }));
    expect_spoilt("an empty file", Code::corrupt, replace(which, [] {
                    return static_cast<int>(::memfd_create("empty", MFD_CLOEXEC));
                  }));
  }
}

void resize(int fd, off_t size) { ASSERT_EQ(::ftruncate(fd, size), 0); }
void punch_hole(int fd) {
  ASSERT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
}
constexpr std::array kTooFewSeals{0u, os::kSealGrow, os::kSealShrink | os::kSealGrow};

TEST_F(HostilePublisher, OffersSegmentsWithoutSealsOrPages) {
  for (const unsigned seals : kTooFewSeals) {
    expect_spoilt("broadcast seals", Code::corrupt,
                  [=](Offering& offering) { offering.broadcast_seals = seals; });
    expect_spoilt("private seals", Code::corrupt,
                  [=](Offering& offering) { offering.private_seals = seals; });
  }
  expect_spoilt("broadcast shrunk", Code::corrupt,
                [](Offering& offering) { resize(offering.broadcast_fd.get(), 4096); });
  expect_spoilt("private shrunk", Code::corrupt,
                [](Offering& offering) { resize(offering.private_fd.get(), 4096); });
  expect_spoilt("broadcast with a hole", Code::corrupt,
                [](Offering& offering) { punch_hole(offering.broadcast_fd.get()); });
  const auto nothing = [](Offering&) {};
  expect_spoilt("private shrunk after MAPPED", Code::corrupt, nothing,
                [](Offering& offering) { resize(offering.private_fd.get(), 0); });
  expect_spoilt("private with a hole after MAPPED", Code::corrupt, nothing,
                [](Offering& offering) { punch_hole(offering.private_fd.get()); });
}

// Memory of the host: a device's has neither seals nor holes.
TEST_F(HostilePublisher, OffersPayloadWithoutSealsOrPages) {
  for (const unsigned seals : kTooFewSeals) {
    expect_spoilt("payload seals", Code::corrupt,
                  [=](Offering& offering) { offering.payload_seals = seals; });
  }
  expect_spoilt("payload shrunk", Code::corrupt,
                [](Offering& offering) { resize(offering.payload_fd.get(), 4096); });
  expect_spoilt("payload grown", Code::corrupt,
                [](Offering& offering) { resize(offering.payload_fd.get(), 1 << 20); });
  expect_spoilt("payload with a hole", Code::corrupt,
                [](Offering& offering) { punch_hole(offering.payload_fd.get()); });
}

TEST_F(HostilePublisher, OffersHeadersThatCannotBe) {
  using wire::Broadcast;
  const auto head = [&](const char* what, const std::function<void(Broadcast&)>& change,
                        Code code = Code::corrupt) {
    expect_spoilt(what, code, [&](Offering& offering) { change(offering.broadcast()); });
  };
  head("magic", [](Broadcast& b) { b.magic = 1; });
  head(
      "version", [](Broadcast& b) { b.wire = 2; }, Code::incompatible);
  head("bytes", [](Broadcast& b) { b.bytes = ~std::uint64_t{0}; });
  head("epoch", [](Broadcast& b) { b.epoch = 78; });
  head("generation", [](Broadcast& b) { b.generation = 2; });
  head("slots", [](Broadcast& b) { b.slot_count = 0xffff'ffff; });
  head("more slots than offered", [](Broadcast& b) { b.slot_count = 64; });
  head("pitch", [](Broadcast& b) { b.slot_pitch = std::uint64_t{1} << 63; });
  head("pitch 0", [](Broadcast& b) { b.slot_pitch = 0; });
  head("first sequence", [](Broadcast& b) { b.first_sequence = ~std::uint64_t{0}; });
  head("format", [](Broadcast& b) { std::fill_n(b.format, sizeof(b.format), std::byte{0xff}); });
  head("large format",
       [](Broadcast& b) { wire::encode_format(Format::bytes(1 << 20).value(), b.format); });
  const auto own = [&](const char* what, const std::function<void(wire::Private&)>& change,
                       Code code = Code::corrupt) {
    expect_spoilt(what, code, [&](Offering& offering) { change(offering.words()); });
  };
  own("private magic", [](wire::Private& p) { p.magic = 0; });
  own(
      "private version", [](wire::Private& p) { p.wire = 9; }, Code::incompatible);
  own("private epoch", [](wire::Private& p) { p.epoch = 78; });
  own("private generation", [](wire::Private& p) { p.generation = 3; });
  own("depth", [](wire::Private& p) { p.depth = 4; });
  own("held", [](wire::Private& p) { p.max_held = 0xffff'ffff; });
  own("ticket", [](wire::Private& p) { p.first_ticket = ~std::uint64_t{0}; });
}

TEST_F(HostilePublisher, OffersLessMemoryThanItSays) {
  // A GPU's memory comes in units; this is more than one.
  constexpr std::uint64_t kLargePitch = std::uint64_t{64} << 20;
  expect_spoilt("payload smaller", Code::corrupt, [](Offering& offering) {
    offering.broadcast().slot_pitch = kLargePitch;
    offering.message.slot_pitch = kLargePitch;
    offering.message.payload_bytes = kLargePitch * Offering::kSlots;
  });
}

TEST_F(HostilePublisher, SendsOffersThatCannotBe) {
  const auto offer = [&](const char* what, const std::function<void(wire::Offer&)>& change,
                         Code code = Code::corrupt) {
    expect_spoilt(what, code, [&](Offering& offering) { change(offering.message); });
  };
  offer("slots", [](wire::Offer& o) { o.slot_count = 0xffff'ffff; });
  offer("pitch", [](wire::Offer& o) { o.slot_pitch = ~std::uint64_t{0}; });
  offer("payload", [](wire::Offer& o) { o.payload_bytes = ~std::uint64_t{0}; });
  offer("more payload", [](wire::Offer& o) { o.payload_bytes += 4096; });
  offer("private", [](wire::Offer& o) { o.private_bytes = 1; });
  offer("broadcast", [](wire::Offer& o) { o.broadcast_bytes = std::uint64_t{1} << 40; });
  offer("depth", [](wire::Offer& o) { o.granted_depth = 64; });
  offer("held", [](wire::Offer& o) { o.granted_max_held = 65; });
  offer("held 0", [](wire::Offer& o) { o.granted_max_held = 0; });
  offer("more held than asked", [](wire::Offer& o) { o.granted_max_held = 3; });
  offer("less held than written", [](wire::Offer& o) { o.granted_max_held = 1; });
  offer("deeper than asked", [](wire::Offer& o) { o.granted_depth = 1; });
  const auto other_kind =
      TestDevice::is_host() ? wire::MemoryKind::device : wire::MemoryKind::memfd;
  offer("memory kind", [&](wire::Offer& o) { o.memory_kind = other_kind; });
  offer(
      "device", [](wire::Offer& o) { o.device = test::kAbsentDevice.uuid; },
      test::absent_device_code(runtime_));
  offer("pid", [](wire::Offer& o) { ++o.publisher.pid; });
  offer("start time", [](wire::Offer& o) { o.publisher.start_time += 1000; });
  expect_spoilt("go", Code::corrupt, [](Offering& offering) { offering.go.generation = 2; });
  const auto go = [&](const char* what, const std::function<void(wire::Go&)>& change) {
    expect_spoilt(what, Code::corrupt, [&](Offering& offering) { change(offering.go); });
  };
  go("ticket", [](wire::Go& g) { g.first_ticket = 2; });
  go("cursor of the future", [](wire::Go& g) { g.cursor = 1; });
  go("cursor of all ones", [](wire::Go& g) { g.cursor = ~std::uint64_t{0}; });
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{4},
                                  std::size_t{8}, std::size_t{30}}) {
    expect_open_fails("descriptors", Code::corrupt, [&](RawPeer& peer) {
      Offering offering = honest_offering();
      static_cast<void>(peer.next());
      std::vector<int> fds(count, offering.broadcast_fd.get());
      peer.send(offering.message, fds);
      peer.wait_for_end();
    });
  }
}

TEST_F(HostilePublisher, SendsMessagesOutOfOrder) {
  const auto first = [&](const char* what, auto message, Code code = Code::corrupt) {
    expect_open_fails(what, code, [=](RawPeer& peer) {
      static_cast<void>(peer.next());
      peer.send(message);
      peer.wait_for_end();
    });
  };
  first("go", wire::Go{{}, 1, 1, 0});
  first("mapped", wire::Mapped{{}, 1});
  first("query", wire::Query{{}, wire::QueryKind::status, 0});
  first("status", wire::Status{});
  first("hello", honest_hello(kFakeChannel));
  wire::Refused refused{};
  refused.code = 7777;
  first("unknown code", refused);
  refused.code = static_cast<std::uint32_t>(Code::permission_denied);
  first("refused", refused, Code::permission_denied);
  for (const Code code : {Code::empty, Code::timed_out, Code::peer_gone, Code::interrupted,
                          Code::aborted, Code::wrong_state}) {
    refused.code = static_cast<std::uint32_t>(code);
    first("a code that is not a publisher's to give", refused);
  }
  refused.code = static_cast<std::uint32_t>(Code::permission_denied);
  refused.text.fill('x');
  first("text without an end", refused);
  expect_open_fails("offer twice", Code::corrupt, [](RawPeer& peer) {
    Offering offering;
    Offering again;
    static_cast<void>(peer.next());
    for (Offering* one : {&offering, &again}) {
      seal(one->broadcast_fd.get(), os::kFullSeals);
      seal(one->payload_fd.get(), os::kFullSeals);
      peer.send(one->message, one->fds());
    }
    peer.wait_for_end();
  });
  expect_open_fails("half an offer", Code::corrupt, [](RawPeer& peer) {
    Offering offering;
    static_cast<void>(peer.next());
    peer.send_bytes(wire::encode(offering.message).first(40));
    peer.wait_for_end();
  });
  expect_open_fails("another version", Code::incompatible, [](RawPeer& peer) {
    wire::Go go{{}, 1, 1, 0};
    static_cast<void>(wire::encode(go));
    ++go.header.wire;
    static_cast<void>(peer.next());
    peer.send_bytes(std::as_bytes(std::span(&go, 1)));
    peer.wait_for_end();
  });
}

TEST_F(HostilePublisher, OffersGenerationsThatCannotBe) {
  const auto expect_gone = [&](const char* what, const std::function<void(Offering&)>& spoil) {
    SCOPED_TRACE(what);
    {
      const FakePublisher fake(directory_.path(), kFakeChannel, [&](RawPeer& peer) {
        Offering first;
        if (!offer_all(peer, first)) return;
        Offering second;
        second.broadcast().generation = 2;
        second.words().generation = 2;
        second.message.generation = 2;
        second.go.generation = 2;
        spoil(second);
        seal(second.broadcast_fd.get(), os::kFullSeals);
        seal(second.payload_fd.get(), os::kFullSeals);
        peer.send(second.message, second.fds());
        const auto mapped = peer.next();
        if (mapped && mapped->type() == wire::MessageType::mapped) {
          seal(second.private_fd.get(), os::kFullSeals);
          peer.send(second.go);
        }
        peer.wait_for_end();
      });
      auto subscriber = Subscriber::open(runtime_, kFakeChannel, Deadline::after(seconds(60)),
                                         {.reconnect = false});
      // The second offer may come before the session of the first is made.
      if (!subscriber) {
        EXPECT_EQ(subscriber.error().code(), Code::corrupt) << to_string(subscriber.error());
      } else {
        EXPECT_TRUE(subscriber->receive(Deadline::after(seconds(60))).failed_with(Code::peer_gone));
      }
    }
    expect_honest_channel_works();
  };
  expect_gone("the same again", [](Offering& second) { second.message.generation = 1; });
  expect_gone("another epoch", [](Offering& second) {
    second.message.epoch = 78;
    second.broadcast().epoch = 78;
    second.words().epoch = 78;
  });
  expect_gone("another generation in the segment",
              [](Offering& second) { second.broadcast().generation = 3; });
  expect_gone("a cursor before its first frame",
              [](Offering& second) { second.broadcast().first_sequence = 5; });
  expect_gone("go for another", [](Offering& second) { second.go.generation = 1; });
  expect_gone("more held than asked", [](Offering& second) {
    second.message.granted_max_held = 3;
    second.words().max_held = 3;
  });
}

TEST_F(HostilePublisher, OffersGenerationsWithoutEnd) {
  const FakePublisher fake(directory_.path(), kFakeChannel, [&](RawPeer& peer) {
    Offering first;
    if (!offer_all(peer, first)) return;
    std::vector<std::unique_ptr<Offering>> all;
    for (std::uint64_t generation = 2;; ++generation) {
      Offering& next = *all.emplace_back(std::make_unique<Offering>());
      next.broadcast().generation = generation;
      next.words().generation = generation;
      next.message.generation = generation;
      next.go.generation = generation;
      seal(next.broadcast_fd.get(), os::kFullSeals);
      seal(next.payload_fd.get(), os::kFullSeals);
      if (!peer.send(next.message, next.fds())) break;
      const auto mapped = peer.next();
      if (!mapped || mapped->type() != wire::MessageType::mapped) break;
      seal(next.private_fd.get(), os::kFullSeals);
      peer.send(next.go);
      ASSERT_LT(generation, 100U);
    }
  });
  auto subscriber =
      Subscriber::open(runtime_, kFakeChannel, Deadline::after(seconds(60)), {.reconnect = false});
  ASSERT_TRUE(subscriber);
  EXPECT_TRUE(subscriber->receive(Deadline::after(seconds(60))).failed_with(Code::peer_gone));
  subscriber = Error(Code::empty, "no longer");
  expect_honest_channel_works();
}

TEST_F(HostilePublisher, ThatSaysNothingIsLeftAtTheDeadline) {
  const FakePublisher fake(directory_.path(), kFakeChannel,
                           [](RawPeer& peer) { peer.wait_for_end(); });
  const auto subscriber =
      Subscriber::open(runtime_, kFakeChannel, Deadline::after(milliseconds(50)));
  EXPECT_TRUE(subscriber.failed_with(Code::timed_out));
}

TEST_F(HostilePublisher, OffersForWritingWhatItOfferedForReading) {
  // Three slots of a page have the size of a private segment. Offered as payload it is mapped for
  // reading; offered then as a private segment, the same file is written to.
  Offering first;
  auto file = os::SharedSegment::create("both", sizeof(wire::Private)).value();
  const auto shape = [](Offering& offering) {
    offering.broadcast().slot_count = 3;
    offering.message.slot_count = 3;
    offering.message.payload_bytes = 3 * Offering::kPitch;
    offering.payload_fd = os::UniqueFd();
  };
  {
    // It would pass for a private segment.
    const auto mapping = file.map(os::Access::read_write).value();
    std::memcpy(mapping.data(), first.own.data(), sizeof(wire::Private));
  }
  shape(first);
  first.payload_fd = os::duplicate(file.fd()).value();
  int connections = 0;
  const FakePublisher fake(directory_.path(), kFakeChannel, [&](RawPeer& peer) {
    if (++connections == 1) {
      offer_all(peer, first);
    } else {
      Offering second;
      second.private_fd = os::duplicate(file.fd()).value();
      second.private_seals = 0;
      offer_all(peer, second);
      peer.wait_for_end();
    }
  });
  // The first connection stays open: the script returns, and its end is seen only by a subscriber
  // that reconnects.
  auto reader = open({.reconnect = false});
  ASSERT_TRUE(reader) << to_string(reader.error());
  const auto victim = open();
  ASSERT_FALSE(victim);
  EXPECT_EQ(victim.error().code(), Code::corrupt) << to_string(victim.error());
}

TEST_F(HostilePublisher, OffersAsPayloadWhatItMadeTheProcessMapUnsealed) {
  // The private segment of a connection that never comes to its GO is mapped here and not sealed.
  // Offered as payload on the way, it could be cut off under its reader.
  std::promise<void> mapped;
  std::promise<void> done;
  Offering first;
  const FakePublisher other(directory_.path(), "other", [&, served = false](RawPeer& peer) mutable {
    static_cast<void>(peer.next());
    if (std::exchange(served, true)) {
      wire::Refused enough{};
      enough.code = static_cast<std::uint32_t>(Code::permission_denied);
      peer.send(enough);
      return;
    }
    seal(first.broadcast_fd.get(), os::kFullSeals);
    seal(first.payload_fd.get(), os::kFullSeals);
    peer.send(first.message, first.fds());
    static_cast<void>(peer.next());
    mapped.set_value();
    done.get_future().wait();
  });
  std::thread waiting([&] {
    static_cast<void>(Subscriber::open(runtime_, "other", Deadline::after(seconds(60))));
  });
  mapped.get_future().wait();
  {
    const FakePublisher fake(directory_.path(), kFakeChannel, [&](RawPeer& peer) {
      Offering second;
      second.broadcast().slot_count = 3;
      second.message.slot_count = 3;
      second.message.payload_bytes = 3 * Offering::kPitch;
      second.payload_fd = os::duplicate(first.private_fd.get()).value();
      second.payload_seals = 0;
      offer_all(peer, second);
      peer.wait_for_end();
    });
    const auto victim = open();
    EXPECT_TRUE(victim.failed_with(Code::corrupt));
  }
  EXPECT_EQ(::ftruncate(first.private_fd.get(), 0), 0);
  done.set_value();
  waiting.join();
}

TEST_F(HostilePublisher, GivesAnObserverNothingThatItBelieves) {
  const auto expect_trouble = [&](const char* what, FakePublisher::Script script) {
    SCOPED_TRACE(what);
    const FakePublisher fake(directory_.path(), kFakeChannel, std::move(script));
    const auto info = inspect_channel(runtime_, kFakeChannel, Deadline::after(seconds(60)));
    ASSERT_TRUE(info);
    EXPECT_FALSE(info->responsive);
    EXPECT_NE(info->trouble, "");
  };
  expect_trouble("nothing", [](RawPeer& peer) { static_cast<void>(peer.next()); });
  expect_trouble("go", [](RawPeer& peer) {
    static_cast<void>(peer.next());
    peer.send(wire::Go{{}, 1, 1, 0});
  });
  expect_trouble("unsealed", [](RawPeer& peer) {
    Offering offering;
    static_cast<void>(peer.next());
    peer.send(offering.message, offering.fds());
  });
  expect_trouble("status without an end", [](RawPeer& peer) {
    Offering offering;
    offering.message.private_bytes = 0;
    offering.message.granted_max_held = 0;
    seal(offering.broadcast_fd.get(), os::kFullSeals);
    static_cast<void>(peer.next());
    peer.send(offering.message, std::array{offering.broadcast_fd.get()});
    static_cast<void>(peer.next());
    wire::Status status{};
    status.parts = 1;
    status.subscriber_count = 0xffff'ffff;
    peer.send(status);
  });
}

TEST_F(HostilePublisher, GivesAnObserverTimesThatCannotBe) {
  const FakePublisher fake(directory_.path(), kFakeChannel, [](RawPeer& peer) {
    Offering offering;
    offering.message.private_bytes = 0;
    offering.message.granted_max_held = 0;
    constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    auto& slots = offering.broadcast().slot;
    slots[0].tag.store(1);
    slots[0].publish_ns.store(static_cast<std::uint64_t>(kMin));
    slots[1].tag.store(~std::uint64_t{0});
    slots[1].publish_ns.store(static_cast<std::uint64_t>(kMax));
    seal(offering.broadcast_fd.get(), os::kFullSeals);
    static_cast<void>(peer.next());
    peer.send(offering.message, std::array{offering.broadcast_fd.get()});
    static_cast<void>(peer.next());
    wire::Status status{};
    status.parts = 1;
    peer.send(status);
    peer.wait_for_end();
  });
  const auto info = inspect_channel(runtime_, kFakeChannel, Deadline::after(seconds(60)));
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->responsive) << info->trouble;
}

}  // namespace
}  // namespace vramlink::test
