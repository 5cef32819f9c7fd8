#include "channel/age_histogram.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace vramlink {
namespace {

using channel::AgeHistogram;

double error_of(std::int64_t found, std::int64_t exact) {
  return std::abs(static_cast<double>(found - exact)) / static_cast<double>(exact);
}

TEST(AgeHistogram, KnowsNothingAtFirst) {
  EXPECT_EQ(AgeHistogram().percentile(0.5), -1);
  EXPECT_EQ(AgeHistogram().percentile(0.99), -1);
}

TEST(AgeHistogram, OneAgeIsWithinFourPercent) {
  for (std::int64_t age = 1; age > 0 && age < std::numeric_limits<std::int64_t>::max() / 3;
       age += age / 3 + 1) {
    AgeHistogram ages;
    ages.add(age);
    for (const double fraction : {0.0, 0.5, 0.99, 1.0}) {
      EXPECT_LT(error_of(ages.percentile(fraction), age), 0.04) << age;
    }
  }
}

TEST(AgeHistogram, SmallAgesAreExact) {
  for (std::int64_t age = 0; age < 32; ++age) {
    AgeHistogram ages;
    ages.add(age);
    EXPECT_EQ(ages.percentile(0.5), age);
  }
}

TEST(AgeHistogram, TakesTheLargestAge) {
  AgeHistogram ages;
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  ages.add(largest);
  EXPECT_LT(error_of(ages.percentile(1.0), largest), 0.04);
}

TEST(AgeHistogram, PercentilesOfARampAreWithinFourPercent) {
  AgeHistogram ages;
  constexpr std::int64_t kCount = 10'000;
  for (std::int64_t i = 1; i <= kCount; ++i) ages.add(i * 1'000);
  for (const double fraction : {0.01, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    const auto exact = static_cast<std::int64_t>(fraction * kCount) * 1'000;
    EXPECT_LT(error_of(ages.percentile(fraction), exact), 0.04) << fraction;
  }
}

TEST(AgeHistogram, DoesNotCountANegativeAge) {
  AgeHistogram ages;
  ages.add(-1);
  EXPECT_EQ(ages.percentile(0.5), -1);
  ages.add(100);
  EXPECT_LT(error_of(ages.percentile(0.0), 100), 0.04);
}

}  // namespace
}  // namespace vramlink
