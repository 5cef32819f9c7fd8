#include "wire/segment_check.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/random_format.hpp"
#include "support/sample_segments.hpp"

namespace vramlink::wire {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

Format picture() { return Format::image(PixelFormat::bgra, 640, 480).value(); }

Result<BroadcastFacts> checked_broadcast(const std::function<void(Broadcast&)>& change = nullptr) {
  const auto pages = test::sample_broadcast(picture());
  if (change) change(broadcast_at(pages->bytes.data()));
  return check_broadcast(pages->bytes.data(), pages->bytes.size());
}

Result<PrivateFacts> checked_private(const std::function<void(Private&)>& change = nullptr) {
  const auto pages = test::sample_private();
  if (change) change(private_at(pages->bytes.data()));
  return check_private(pages->bytes.data(), pages->bytes.size());
}

template <class T>
void expect_corrupt(const Result<T>& result, std::string_view field) {
  ASSERT_TRUE(result.failed_with(Code::corrupt)) << field;
  EXPECT_EQ(result.error().facts()->subject, field);
}

TEST(CheckBroadcast, CopiesWhatIsGood) {
  const auto facts = checked_broadcast();
  ASSERT_TRUE(facts) << to_string(facts.error());
  EXPECT_EQ(facts->epoch, 0x1122'3344'5566'7788U);
  EXPECT_EQ(facts->generation, 2U);
  EXPECT_EQ(facts->slot_count, 4U);
  EXPECT_EQ(facts->slot_pitch, 640U * 480 * 4);
  EXPECT_EQ(facts->first_sequence, 42U);
  EXPECT_EQ(facts->format, picture());
}

TEST(CheckBroadcast, TakesRandomFormats) {
  test::Random random(6);
  for (int i = 0; i < 200; ++i) {
    const Format format = test::random_format(random);
    const auto pages = test::sample_broadcast(format);
    const auto facts = check_broadcast(pages->bytes.data(), pages->bytes.size());
    ASSERT_TRUE(facts) << to_string(facts.error());
    EXPECT_EQ(facts->format, format);
  }
}

TEST(CheckBroadcast, NamesTheBadField) {
  using Change = std::function<void(Broadcast&)>;
  const auto bad = [](std::string_view field, const Change& change) {
    expect_corrupt(checked_broadcast(change), field);
  };
  bad("magic", [](Broadcast& s) { s.magic = kPrivateMagic; });
  bad("bytes", [](Broadcast& s) { s.bytes = 4096; });
  bad("reserved", [](Broadcast& s) { s.reserved = 1; });
  bad("epoch", [](Broadcast& s) { s.epoch = 0; });
  bad("generation", [](Broadcast& s) { s.generation = 0; });
  bad("slot_count", [](Broadcast& s) { s.slot_count = 1; });
  bad("slot_count", [](Broadcast& s) { s.slot_count = 65; });
  bad("slot_count", [](Broadcast& s) { s.slot_count = ~0U; });
  bad("slot_pitch", [](Broadcast& s) { s.slot_pitch = 0; });
  bad("slot_pitch", [](Broadcast& s) { s.slot_pitch = kHuge / 4 + 1; });  // overflows to 4
  bad("slot_pitch", [](Broadcast& s) { s.slot_pitch = kPayloadBytesMax / 4 + 4096; });
  for (const std::uint64_t off : {1U, 64U, 256U, 2048U, 4095U}) {
    bad("slot_pitch", [=](Broadcast& s) { s.slot_pitch += off; });
  }
  bad("first_sequence", [](Broadcast& s) { s.first_sequence = 0; });
  bad("first_sequence", [](Broadcast& s) { s.first_sequence = kSequenceEnd; });
  bad("payload_bytes", [](Broadcast& s) { s.slot_pitch = 640 * 480 * 4 - 4096; });
  bad("pixel_format", [](Broadcast& s) { s.format[3] = std::byte{0xff}; });
  bad("reserved", [](Broadcast& s) { s.format[767] = std::byte{1}; });
}

TEST(CheckBroadcast, AcceptsTheLimits) {
  EXPECT_TRUE(checked_broadcast([](Broadcast& s) { s.slot_pitch = kPayloadBytesMax / 4; }));
  EXPECT_TRUE(checked_broadcast([](Broadcast& s) { s.slot_pitch += 4096; }));
  EXPECT_TRUE(checked_broadcast([](Broadcast& s) { s.slot_count = kSlotCountMax; }));
  EXPECT_TRUE(checked_broadcast([](Broadcast& s) { s.slot_count = kSlotCountMin; }));
  EXPECT_TRUE(checked_broadcast([](Broadcast& s) { s.first_sequence = kSequenceEnd - 1; }));
}

TEST(CheckBroadcast, NamesBothVersions) {
  const auto result = checked_broadcast([](Broadcast& s) { s.wire = 7; });
  ASSERT_TRUE(result.failed_with(Code::incompatible));
  EXPECT_EQ(result.error().facts()->reason, "the peer speaks wire version 7, this process 1");
  EXPECT_EQ(result.error().facts()->numbers, (std::array<std::uint64_t, 2>{7, 1}));
}

TEST(CheckBroadcast, WantsTheExactSize) {
  const auto pages = test::sample_broadcast(picture());
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{64}, kBroadcastBytes - 1, kBroadcastBytes + 1}) {
    expect_corrupt(check_broadcast(pages->bytes.data(), size), "size");
  }
}

TEST(CheckBroadcast, IgnoresWhatChangesLater) {
  EXPECT_TRUE(checked_broadcast([](Broadcast& s) {
    s.newest = kHuge;
    s.state = 99;
    s.recent[0] = kHuge;
    s.slot[0].tag = kHuge;
    s.ready[0].ticket = kHuge;
  }));
}

TEST(CheckPrivate, CopiesWhatIsGood) {
  const auto facts = checked_private();
  ASSERT_TRUE(facts) << to_string(facts.error());
  EXPECT_EQ(facts->epoch, 0x1122'3344'5566'7788U);
  EXPECT_EQ(facts->generation, 2U);
  EXPECT_EQ(facts->first_ticket, 17U);
  EXPECT_EQ(facts->max_held, 2U);
  EXPECT_EQ(facts->depth, 3U);
}

TEST(CheckPrivate, NamesTheBadField) {
  using Change = std::function<void(Private&)>;
  const auto bad = [](std::string_view field, const Change& change) {
    expect_corrupt(checked_private(change), field);
  };
  bad("magic", [](Private& s) { s.magic = kBroadcastMagic; });
  bad("bytes", [](Private& s) { s.bytes = 0; });
  bad("epoch", [](Private& s) { s.epoch = 0; });
  bad("generation", [](Private& s) { s.generation = 0; });
  bad("first_ticket", [](Private& s) { s.first_ticket = 0; });
  bad("first_ticket", [](Private& s) { s.first_ticket = kTicketEnd; });
  bad("max_held", [](Private& s) { s.max_held = 0; });
  bad("max_held", [](Private& s) { s.max_held = 65; });
  bad("depth", [](Private& s) { s.depth = 64; });
  EXPECT_TRUE(checked_private([](Private& s) { s.wire = 0; }).failed_with(Code::incompatible));
  const auto pages = test::sample_private();
  expect_corrupt(check_private(pages->bytes.data(), kPrivateBytes - 4096), "size");
}

TEST(CheckSegmentDeathTest, MisalignedMemoryIsOurOwnBug) {
  const auto pages = test::sample_private();
  EXPECT_DEATH((void)check_private(pages->bytes.data() + 8, kPrivateBytes), "this cannot be");
}

}  // namespace
}  // namespace vramlink::wire
