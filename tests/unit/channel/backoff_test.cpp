#include "channel/backoff.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace vramlink {
namespace {

using channel::Backoff;

TEST(Backoff, NapsGrowUpToTheLimit) {
  Backoff backoff({0, 50'000, 1'000'000});
  std::int64_t last_ns = 0;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t nap_ns = backoff.next_nap_ns();
    EXPECT_GE(nap_ns, last_ns);
    EXPECT_LE(nap_ns, 1'000'000);
    if (i == 0) {
      EXPECT_EQ(nap_ns, 50'000);
    }
    last_ns = nap_ns;
  }
  EXPECT_EQ(last_ns, 1'000'000);
}

TEST(Backoff, SpinsFirst) {
  Backoff backoff({std::chrono::nanoseconds(std::chrono::hours(1)).count(), 20'000, 200'000});
  for (int i = 0; i < 1000; ++i) backoff.pause(kForever);
  EXPECT_EQ(backoff.next_nap_ns(), 20'000) << "it napped while it was to spin";
}

TEST(Backoff, NapsAfterTheSpin) {
  Backoff backoff({0, 20'000, 200'000});
  const std::int64_t begin_ns = monotonic_ns();
  backoff.pause(kForever);
  EXPECT_GE(monotonic_ns() - begin_ns, 20'000);
}

TEST(Backoff, ANapEndsAtTheDeadline) {
  const std::int64_t hour_ns = std::chrono::nanoseconds(std::chrono::hours(1)).count();
  Backoff backoff({0, hour_ns, hour_ns});
  backoff.pause(Deadline::after(std::chrono::microseconds(10)));
  backoff.pause(Deadline::passed());
}

}  // namespace
}  // namespace vramlink
