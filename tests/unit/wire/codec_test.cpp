#include "wire/codec.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <vramlink/version.hpp>

#include "support/random_format.hpp"
#include "support/sample_messages.hpp"

namespace vramlink::wire {
namespace {

using test::sample;
using Bytes = std::vector<std::byte>;

template <class M>
Bytes bytes_of(M message) {
  const auto bytes = encode(message);
  return {bytes.begin(), bytes.end()};
}

// Encodes `message` after `change`, which may also break the rules, and decodes it.
template <class M>
Result<M> passed_on(const std::function<void(M&)>& change) {
  M message = sample<M>();
  change(message);
  const std::size_t fds = expected_fd_count(message);
  return decode<M>(bytes_of(message), fds);
}

template <class M>
void expect_corrupt(std::string_view field, const std::function<void(M&)>& change) {
  const Result<M> result = passed_on<M>(change);
  ASSERT_TRUE(result.failed_with(Code::corrupt)) << MessageTraits<M>::kName << "." << field;
  EXPECT_EQ(result.error().facts()->subject, field);
}

template <class M>
class EveryMessage : public testing::Test {};

struct MessageNames {
  template <class M>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming)
    return MessageTraits<M>::kName;
  }
};

using Messages = testing::Types<Hello, Offer, Mapped, Go, Bye, Detached, Revoked, Failed, Refused,
                                Query, Status>;
TYPED_TEST_SUITE(EveryMessage, Messages, MessageNames);

TYPED_TEST(EveryMessage, RoundTrips) {
  TypeParam message = sample<TypeParam>();
  const std::size_t fds = expected_fd_count(message);
  const Bytes bytes = bytes_of(message);
  const auto header = decode_header(bytes, fds);
  ASSERT_TRUE(header) << to_string(header.error());
  EXPECT_EQ(header->type, MessageTraits<TypeParam>::kType);
  EXPECT_EQ(name(header->type), MessageTraits<TypeParam>::kName);
  EXPECT_EQ(header->size_bytes, sizeof(TypeParam));
  EXPECT_GE(header->fd_count, MessageTraits<TypeParam>::kFdCountMin);
  EXPECT_LE(header->fd_count, MessageTraits<TypeParam>::kFdCountMax);
  auto decoded = decode<TypeParam>(bytes, fds);
  ASSERT_TRUE(decoded) << to_string(decoded.error());
  EXPECT_EQ(bytes_of(*decoded), bytes);
}

TYPED_TEST(EveryMessage, IsRefusedAtEveryOtherLength) {
  const TypeParam message = sample<TypeParam>();
  const std::size_t fds = expected_fd_count(message);
  Bytes bytes = bytes_of(message);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_TRUE(decode<TypeParam>(cut, fds).failed_with(Code::corrupt)) << size;
    if (size < sizeof(MessageHeader)) continue;
    // The same with a header that says so.
    const auto claimed = static_cast<std::uint32_t>(size);
    std::memcpy(&cut[offsetof(MessageHeader, size_bytes)], &claimed, sizeof(claimed));
    EXPECT_TRUE(decode<TypeParam>(cut, fds).failed_with(Code::corrupt)) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_TRUE(decode<TypeParam>(bytes, fds).failed_with(Code::corrupt));
  fill_header(*reinterpret_cast<MessageHeader*>(bytes.data()), MessageTraits<TypeParam>::kType,
              bytes.size(), static_cast<std::uint32_t>(fds));
  EXPECT_TRUE(decode<TypeParam>(bytes, fds).failed_with(Code::corrupt));
}

TYPED_TEST(EveryMessage, IsRefusedWithAbsurdHeaders) {
  const TypeParam message = sample<TypeParam>();
  const std::size_t fds = expected_fd_count(message);
  const auto refused = [&](auto change) {
    Bytes bytes = bytes_of(message);
    change(*reinterpret_cast<MessageHeader*>(bytes.data()));
    return decode<TypeParam>(bytes, fds).failed_with(Code::corrupt);
  };
  EXPECT_TRUE(refused([](MessageHeader& h) { h.magic = 0; }));
  EXPECT_TRUE(refused([](MessageHeader& h) { h.type = static_cast<MessageType>(0); }));
  EXPECT_TRUE(refused([](MessageHeader& h) { h.type = static_cast<MessageType>(12); }));
  EXPECT_TRUE(refused([](MessageHeader& h) { h.type = static_cast<MessageType>(0xffff); }));
  EXPECT_TRUE(refused([](MessageHeader& h) { h.size_bytes = ~0U; }));
  EXPECT_TRUE(refused([](MessageHeader& h) { h.size_bytes = 0; }));
  EXPECT_TRUE(refused([](MessageHeader& h) { h.fd_count = ~0U; }));
  EXPECT_TRUE(decode<TypeParam>(bytes_of(message), fds + 1).failed_with(Code::corrupt));
  EXPECT_TRUE(decode<TypeParam>(bytes_of(message), 1000).failed_with(Code::corrupt));
}

TYPED_TEST(EveryMessage, NamesBothVersions) {
  Bytes bytes = bytes_of(sample<TypeParam>());
  bytes.resize(20);  // Other versions have other sizes: the version is said all the same.
  reinterpret_cast<MessageHeader*>(bytes.data())->wire = 9;
  const auto result = decode<TypeParam>(bytes, 0);
  ASSERT_TRUE(result.failed_with(Code::incompatible));
  EXPECT_EQ(result.error().facts()->reason, "the peer speaks wire version 9, this process 1");
}

TYPED_TEST(EveryMessage, ChangedBytesAreRefusedOrMeanThemselves) {
  test::Random random(7);
  const TypeParam message = sample<TypeParam>();
  const std::size_t fds = expected_fd_count(message);
  const Bytes good = bytes_of(message);
  for (int i = 0; i < 3000; ++i) {
    Bytes bytes = good;
    bytes[test::pick(random, 0, bytes.size() - 1)] = static_cast<std::byte>(random());
    auto decoded = decode<TypeParam>(bytes, fds);
    if (decoded) {
      EXPECT_EQ(bytes_of(*decoded), bytes);
    } else {
      EXPECT_TRUE(decoded.error().code() == Code::corrupt ||
                  decoded.error().code() == Code::incompatible);
      EXPECT_FALSE(decoded.error().facts()->subject.empty());
    }
  }
}

TEST(DecodeHeader, LimitsSizeAndFds) {
  Bytes bytes(kMessageBytesMax + 8);
  auto& header = *reinterpret_cast<MessageHeader*>(bytes.data());
  fill_header(header, MessageType::query, bytes.size(), 0);
  EXPECT_EQ(decode_header(bytes, 0).error().facts()->subject, "size_bytes");
  bytes.resize(24);
  fill_header(*reinterpret_cast<MessageHeader*>(bytes.data()), MessageType::query, 24, 9);
  EXPECT_EQ(decode_header(bytes, 9).error().facts()->subject, "fd_count");
}

TEST(DecodeHeader, KnowsEveryType) {
  Bytes bytes(sizeof(MessageHeader));
  for (int number = 0; number <= 0xffff; ++number) {
    fill_header(*reinterpret_cast<MessageHeader*>(bytes.data()), static_cast<MessageType>(number),
                bytes.size(), 0);
    const auto header = decode_header(bytes, 0);
    ASSERT_EQ(header.has_value(), number >= 1 && number <= 11) << number;
    if (!header) {
      EXPECT_EQ(header.error().facts()->subject, "type");
    }
  }
}

TEST(Decode, SaysWhichMessageCameInstead) {
  const auto result = decode<Go>(bytes_of(sample<Mapped>()), 0);
  ASSERT_TRUE(result.failed_with(Code::corrupt));
  EXPECT_EQ(result.error().facts()->reason, "mapped came instead of go");
  EXPECT_EQ(name(static_cast<MessageType>(0)), "unknown");
}

TEST(Hello, ChecksItsFields) {
  const auto bad = expect_corrupt<Hello>;
  bad("role", [](Hello& m) { m.role = static_cast<Role>(0); });
  bad("role", [](Hello& m) { m.role = static_cast<Role>(3); });
  bad("flags", [](Hello& m) { m.flags = 4; });
  bad("pid", [](Hello& m) { m.process.pid = 0; });
  bad("pid", [](Hello& m) { m.process.pid = -1; });
  bad("process.reserved", [](Hello& m) { m.process.reserved = 1; });
  bad("queue_depth", [](Hello& m) { m.queue_depth = 64; });
  bad("max_held", [](Hello& m) { m.max_held = 0; });
  bad("max_held", [](Hello& m) { m.max_held = 65; });
  bad("name_bytes", [](Hello& m) { m.name_bytes = 0; });
  bad("name_bytes", [](Hello& m) { m.name_bytes = 121; });
  bad("name_bytes", [](Hello& m) { m.name_bytes = ~0U; });
  bad("name", [](Hello& m) { m.name[0] = '.'; });
  bad("name", [](Hello& m) { m.name[1] = '/'; });
  bad("name", [](Hello& m) { m.name_bytes = 3; });
  bad("name", [](Hello& m) { m.name_bytes = 5; });
  bad("name", [](Hello& m) { m.name[119] = 'x'; });
}

TEST(Hello, ObserversAskForNothing) {
  const auto observer = [](const std::function<void(Hello&)>& change) {
    return passed_on<Hello>([&change](Hello& m) {
      m.role = Role::observer;
      m.queue_depth = m.max_held = m.flags = 0;
      change(m);
    });
  };
  EXPECT_TRUE(observer([](Hello&) {}));
  EXPECT_TRUE(observer([](Hello& m) { m.flags = kHelloPidfd; }));
  EXPECT_FALSE(observer([](Hello& m) { m.flags = kHelloStreamOrder; }));
  EXPECT_FALSE(observer([](Hello& m) { m.queue_depth = 1; }));
  EXPECT_FALSE(observer([](Hello& m) { m.max_held = 1; }));
}

TEST(Hello, FdsFollowFromFlags) {
  Hello message = sample<Hello>();
  EXPECT_TRUE(decode<Hello>(bytes_of(message), 1));
  message.flags = 0;
  Bytes bytes = bytes_of(message);
  EXPECT_TRUE(decode<Hello>(bytes, 0));
  reinterpret_cast<MessageHeader*>(bytes.data())->fd_count = 1;
  EXPECT_EQ(decode<Hello>(bytes, 1).error().facts()->subject, "fd_count");
}

TEST(Hello, LongestNameFits) {
  Hello message = sample<Hello>();
  const std::string name(kNameBytesMax, 'n');
  set_name(message, name);
  EXPECT_EQ(name_of(decode<Hello>(bytes_of(message), 1).value()), name);
  set_name(message, "x");
  EXPECT_EQ(name_of(decode<Hello>(bytes_of(message), 1).value()), "x");
  EXPECT_DEATH(set_name(message, "a/b"), "valid_channel_name");
}

TEST(Offer, ChecksItsFields) {
  const auto bad = expect_corrupt<Offer>;
  bad("epoch", [](Offer& m) { m.epoch = 0; });
  bad("generation", [](Offer& m) { m.generation = 0; });
  bad("broadcast_bytes", [](Offer& m) { m.broadcast_bytes = 4096; });
  bad("private_bytes", [](Offer& m) { m.private_bytes = 4096; });
  bad("granted_depth", [](Offer& m) { m.private_bytes = 0; });
  bad("granted_max_held", [](Offer& m) { m.private_bytes = m.granted_depth = 0; });
  bad("granted_max_held", [](Offer& m) { m.granted_max_held = 0; });
  bad("granted_max_held", [](Offer& m) { m.granted_max_held = 65; });
  bad("granted_depth", [](Offer& m) { m.granted_depth = 4; });
  bad("slot_count", [](Offer& m) { m.slot_count = 1; });
  bad("slot_count", [](Offer& m) { m.slot_count = 65; });
  bad("payload_bytes", [](Offer& m) { m.payload_bytes = 0; });
  bad("payload_bytes", [](Offer& m) { m.payload_bytes = kPayloadBytesMax + 1; });
  bad("slot_pitch", [](Offer& m) { m.slot_pitch = 0; });
  bad("slot_pitch", [](Offer& m) { m.slot_pitch += 1; });
  bad("slot_pitch", [](Offer& m) { m.slot_pitch = std::uint64_t{1} << 62; });
  bad("memory_kind", [](Offer& m) { m.memory_kind = static_cast<MemoryKind>(0); });
  bad("memory_kind", [](Offer& m) { m.memory_kind = static_cast<MemoryKind>(4); });
  bad("pid", [](Offer& m) { m.publisher.pid = 0; });
}

TEST(Offer, ObserversGetOneFd) {
  Offer message = sample<Offer>();
  EXPECT_EQ(expected_fd_count(message), 3U);
  message.private_bytes = message.granted_depth = message.granted_max_held = 0;
  EXPECT_EQ(expected_fd_count(message), 1U);
  EXPECT_TRUE(decode<Offer>(bytes_of(message), 1));
}

TEST(SmallMessages, CheckTheirFields) {
  expect_corrupt<Mapped>("generation", [](Mapped& m) { m.generation = 0; });
  expect_corrupt<Detached>("generation", [](Detached& m) { m.generation = 0; });
  expect_corrupt<Go>("generation", [](Go& m) { m.generation = 0; });
  expect_corrupt<Go>("first_ticket", [](Go& m) { m.first_ticket = 0; });
  expect_corrupt<Go>("first_ticket", [](Go& m) { m.first_ticket = kTicketEnd; });
  expect_corrupt<Go>("cursor", [](Go& m) { m.cursor = kSequenceEnd; });
  expect_corrupt<Bye>("generation", [](Bye& m) { m.generation = 0; });
  expect_corrupt<Bye>("reason", [](Bye& m) { m.reason = static_cast<ByeReason>(4); });
  expect_corrupt<Bye>("reserved", [](Bye& m) { m.reserved = 1; });
  expect_corrupt<Revoked>("generation", [](Revoked& m) { m.generation = 0; });
  expect_corrupt<Revoked>("reason", [](Revoked& m) { m.reason = static_cast<RevokeReason>(4); });
  expect_corrupt<Revoked>("reserved", [](Revoked& m) { m.reserved = 1; });
  expect_corrupt<Failed>("reason", [](Failed& m) { m.reason = 0; });
  expect_corrupt<Failed>("reason", [](Failed& m) { m.reason |= 0x10000; });
  expect_corrupt<Failed>("reserved", [](Failed& m) { m.reserved = 1; });
  expect_corrupt<Query>("what", [](Query& m) { m.what = static_cast<QueryKind>(2); });
  expect_corrupt<Query>("reserved", [](Query& m) { m.reserved = 1; });
}

TEST(Refused, ChecksItsFields) {
  const auto bad = expect_corrupt<Refused>;
  bad("code", [](Refused& m) { m.code = 1000; });
  bad("peer_pid", [](Refused& m) { m.peer_pid = -1; });
  bad("text", [](Refused& m) { m.text.fill('x'); });
  bad("text", [](Refused& m) { m.text[0] = '\n'; });
  bad("text", [](Refused& m) { m.text[0] = '\x80'; });
  bad("text", [](Refused& m) { m.text[158] = 'x'; });
}

TEST(Refused, KeepsWhatFitsOfItsText) {
  Refused message = sample<Refused>();
  EXPECT_EQ(text_of(message), "64 subscribers are attached");
  set_text(message, "a\nb\xff");
  EXPECT_EQ(text_of(message), "a?b?");
  set_text(message, std::string(1000, 'y'));
  EXPECT_EQ(text_of(message), std::string(kTextBytes - 1, 'y'));
  EXPECT_TRUE(decode<Refused>(bytes_of(message), 0));
  set_text(message, "");
  EXPECT_TRUE(decode<Refused>(bytes_of(message), 0));
}

TEST(Status, ChecksItsFields) {
  const auto bad = expect_corrupt<Status>;
  bad("part", [](Status& m) { m.part = 1; });
  bad("parts", [](Status& m) { m.parts = 0; });
  bad("parts", [](Status& m) { m.parts = 2; });
  bad("slot_count_max", [](Status& m) { m.slot_count_max = 65; });
  bad("slots_lost", [](Status& m) { m.slots_lost = 65; });
  bad("subscriber_count", [](Status& m) { m.subscriber_count = 65; });
  bad("reserved", [](Status& m) { m.reserved = 1; });
  bad("subscribers.pid", [](Status& m) { m.subscribers[1].pid = -1; });
  bad("subscribers.depth", [](Status& m) { m.subscribers[0].depth = 64; });
  bad("subscribers.held", [](Status& m) { m.subscribers[0].held = 65; });
  bad("subscribers.flags", [](Status& m) { m.subscribers[0].flags = 8; });
  // 0: a process that the publisher cannot see.
  EXPECT_TRUE(passed_on<Status>([](Status& m) { m.subscribers[1].pid = 0; }));
}

}  // namespace
}  // namespace vramlink::wire
