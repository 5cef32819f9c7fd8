// The small parts of base: checked arithmetic, handles, assertions, deadlines, distances of names,
// versions, steps.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include <vramlink/deadline.hpp>
#include <vramlink/version.hpp>

#include "base/assert.hpp"
#include "base/checked.hpp"
#include "base/edit_distance.hpp"
#include "base/hex.hpp"
#include "base/steps.hpp"
#include "base/unique_handle.hpp"

namespace vramlink {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, SaysWhenItDoesNotFit) {
  EXPECT_EQ(base::checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(base::checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(base::checked_multiply(1U << 31, 2), std::uint64_t{1} << 32);
  EXPECT_EQ(base::checked_multiply(std::uint64_t{1} << 32, std::uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(base::checked_round_up(0, 64), 0U);
  EXPECT_EQ(base::checked_round_up(65, 64), 128U);
  EXPECT_EQ(base::checked_round_up(kMax, 2), std::nullopt);
}

TEST(Hex, ReadsWhatItWrites) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    base::append_hex(text, static_cast<std::uint8_t>(byte));
    ASSERT_EQ(text.size(), 2U);
    EXPECT_EQ(base::hex_digit(text[0]) * 16 + base::hex_digit(text[1]), byte);
  }
  EXPECT_EQ(base::hex_digit('F'), 15);
  for (const char other : {'g', 'G', '/', ':', '@', '`', '\0'})
    EXPECT_EQ(base::hex_digit(other), -1);
}

std::vector<int> g_closed;

struct IntTraits {
  using Raw = int;
  static constexpr int kEmpty = -1;
  static void close(int raw) noexcept { g_closed.push_back(raw); }
};
using IntHandle = base::UniqueHandle<IntTraits>;

TEST(UniqueHandle, ClosesOnceAndOnlyWhatItOwns) {
  g_closed.clear();
  {
    IntHandle empty;
    EXPECT_FALSE(empty);
    IntHandle first(1);
    IntHandle second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): moved-from is empty by contract
    EXPECT_EQ(second.get(), 1);
    IntHandle third(3);
    third = std::move(second);
    EXPECT_EQ(g_closed, std::vector<int>{3});
    third.reset(4);
    EXPECT_EQ(third.release(), 4);
  }
  EXPECT_EQ(g_closed, (std::vector<int>{3, 1}));
}

TEST(Deadline, IsAPointInTime) {
  using std::chrono::nanoseconds;
  EXPECT_TRUE(Deadline::never().is_never());
  EXPECT_FALSE(Deadline::never().has_passed());
  EXPECT_TRUE(Deadline::passed().has_passed());
  EXPECT_TRUE(Deadline::after(nanoseconds(0)).has_passed());
  EXPECT_TRUE(Deadline::after(nanoseconds::min()).has_passed());
  EXPECT_TRUE(Deadline::after(nanoseconds::max()).is_never());
  EXPECT_FALSE(Deadline::after(std::chrono::hours(1)).has_passed());
  EXPECT_EQ(Deadline::at_ns(5).time_ns(), 5);
  EXPECT_LT(Deadline::passed(), kForever);
}

TEST(Deadline, SaturatesOnBothSides) {
  using std::chrono::hours;
  using std::chrono::nanoseconds;
  EXPECT_EQ(Deadline(hours::max()), Deadline::never());
  EXPECT_EQ(Deadline(hours::min()), Deadline::passed());
  EXPECT_EQ(Deadline(std::chrono::duration<double>(-1e300)), Deadline::passed());
  EXPECT_EQ(Deadline(std::chrono::duration<double>(1e300)), Deadline::never());
  EXPECT_EQ(Deadline(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())),
            Deadline::passed());
  EXPECT_EQ(Deadline(nanoseconds::max()), Deadline::never());
  EXPECT_EQ(Deadline(nanoseconds::min()), Deadline::passed());
  EXPECT_EQ(Deadline::after(nanoseconds::min()), Deadline::passed());
  EXPECT_EQ(Deadline::after(nanoseconds::min() + nanoseconds(1)), Deadline::passed());
  EXPECT_GT(Deadline::after(nanoseconds(-1)), Deadline::passed());
  EXPECT_TRUE(Deadline::at_ns(std::numeric_limits<std::int64_t>::min()).has_passed());
}

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(base::edit_distance("", ""), 0U);
  EXPECT_EQ(base::edit_distance("", "abc"), 3U);
  EXPECT_EQ(base::edit_distance("abc", ""), 3U);
  EXPECT_EQ(base::edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(base::edit_distance("cam0", "cam1"), 1U);
}

TEST(Deadline, ReadsAClockThatDoesNotGoBack) {
  const std::int64_t before = monotonic_ns();
  EXPECT_GT(before, 0);
  EXPECT_GE(monotonic_ns(), before);
}

TEST(Version, IsTheHeaders) {
  EXPECT_EQ(version_string(), std::to_string(VRAMLINK_VERSION_MAJOR) + "." +
                                  std::to_string(VRAMLINK_VERSION_MINOR) + "." +
                                  std::to_string(VRAMLINK_VERSION_PATCH));
}

TEST(AssertDeathTest, NamesTheExpressionAndEnds) {
  VRAMLINK_ASSERT(1 + 1 == 2);
  EXPECT_DEATH(VRAMLINK_ASSERT(1 + 1 == 3),
               "base_test.cpp:[0-9]+: this cannot be: !\\(1 \\+ 1 == 3");
}

#if VRAMLINK_STEPS
std::vector<std::string> g_steps;

TEST(Steps, CallTheHookWithTheirName) {
  g_steps.clear();
  VRAMLINK_STEP("before");
  base::step_hook.store([](const char* step) { g_steps.emplace_back(step); });
  VRAMLINK_STEP("with");
  base::step_hook.store(nullptr);
  VRAMLINK_STEP("after");
  EXPECT_EQ(g_steps, std::vector<std::string>{"with"});
}
#endif

}  // namespace
}  // namespace vramlink
