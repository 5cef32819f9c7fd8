#include "../../../cli/parse.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace vramlink::cli {
namespace {

TEST(Parse, Sizes) {
  EXPECT_EQ(parse_size("1920x1080")->width, 1920U);
  EXPECT_EQ(parse_size("1920x1080")->height, 1080U);
  for (const char* text : {"", "x", "1920", "1920x", "x1080", "0x1", "1x0", "-1x1", "1x1x1", "1 x1",
                           "99999999999x1"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Parse, Rates) {
  EXPECT_EQ(parse_rate("60")->numerator, 60U);
  EXPECT_EQ(parse_rate("29.97")->numerator, 2997U);
  EXPECT_EQ(parse_rate("29.97")->denominator, 100U);
  EXPECT_EQ(parse_rate("30000/1001")->denominator, 1001U);
  EXPECT_TRUE(parse_rate("0")->is_unlimited());
  EXPECT_TRUE(parse_rate("0.0")->is_unlimited());
  for (const char* text :
       {"", "-1", "1/0", "/1", "1/", "1.", ".5", "1.2.3", "fast", "1e3", "1.0123456789"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(Parse, FramesAreDueByAbsoluteTimes) {
  const Rate ntsc{30000, 1001};
  EXPECT_EQ(ntsc.due_ns(0), 0);
  EXPECT_EQ(ntsc.due_ns(30000), 1'001'000'000'000);
  EXPECT_EQ(ntsc.due_ns(1), 33'366'666);
  const Rate fast{1000, 1};
  EXPECT_EQ(fast.due_ns(1'000'000'000'000), 1'000'000'000'000'000'000);
}

TEST(Parse, Policies) {
  EXPECT_EQ(parse_receive_policy("latest"), 0U);
  EXPECT_EQ(parse_receive_policy("queue:6"), 6U);
  EXPECT_EQ(parse_receive_policy("queue:63"), 63U);
  for (const char* text : {"", "queue", "queue:", "queue:0", "queue:64", "queue:-1", "newest"}) {
    EXPECT_FALSE(parse_receive_policy(text)) << text;
  }
}

TEST(Parse, PoliciesOfAPublisher) {
  EXPECT_EQ(parse_publish_policy("drop")->when_full, WhenFull::drop);
  EXPECT_EQ(parse_publish_policy("block")->when_full, WhenFull::block);
  EXPECT_EQ(parse_publish_policy("evict")->when_full, WhenFull::evict);
  EXPECT_FALSE(parse_publish_policy("evict")->lease_ns);
  EXPECT_EQ(parse_publish_policy("evict:0.5")->when_full, WhenFull::evict);
  EXPECT_EQ(parse_publish_policy("evict:0.5")->lease_ns, 500'000'000);
  for (const char* text : {"", "evict:", "evict:0", "evict:-1", "evict:soon", "drop:1", "wait"}) {
    EXPECT_FALSE(parse_publish_policy(text)) << text;
  }
}

TEST(Parse, Slots) {
  EXPECT_EQ(parse_slots("2")->count, 2U);
  EXPECT_EQ(parse_slots("64")->count_max, 0U);
  EXPECT_EQ(parse_slots("4:16")->count, 4U);
  EXPECT_EQ(parse_slots("4:16")->count_max, 16U);
  EXPECT_EQ(parse_slots("4:4")->count_max, 4U);
  for (const char* text : {"", "1", "65", "4:", ":4", "4:3", "4:65", "4:8:9", "-4", "four"}) {
    EXPECT_FALSE(parse_slots(text)) << text;
  }
}

TEST(Parse, Seconds) {
  EXPECT_EQ(parse_seconds("2"), 2'000'000'000);
  EXPECT_EQ(parse_seconds("0.25"), 250'000'000);
  EXPECT_EQ(parse_seconds("0"), 0);
  EXPECT_EQ(parse_seconds("inf"), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"", "-1", "soon", "1s", "1."}) EXPECT_FALSE(parse_seconds(text)) << text;
}

}  // namespace
}  // namespace vramlink::cli
