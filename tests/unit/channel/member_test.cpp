// What a publisher may conclude from words that another process changes meanwhile.
#include "channel/member.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/sample_segments.hpp"

namespace vramlink {
namespace {

class MemberTest : public ::testing::Test {
 protected:
  MemberTest() { member_.words = &wire::private_at(pages_.bytes.data()); }

  void hold(std::uint32_t slot, std::uint64_t number) { member_.words->held[slot] = number; }
  void release(std::uint32_t slot, std::uint64_t number) { member_.words->released[slot] = number; }

  test::PrivatePages pages_;
  channel::Member member_;
};

TEST_F(MemberTest, CountsWhatIsHeld) {
  EXPECT_EQ(member_.held_at_once(64), 0U);
  hold(3, 1);
  hold(63, 2);
  EXPECT_EQ(member_.held_at_once(64), 2U);
  EXPECT_EQ(member_.held_at_once(63), 1U);
  release(3, 1);
  EXPECT_EQ(member_.held_at_once(64), 1U);
}

TEST_F(MemberTest, AReaderThatMovesFromSlotToSlotHoldsOne) {
  std::atomic<bool> started{false};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    std::uint64_t number = 0;
    while (!stop) {
      for (std::uint32_t slot = 0; slot < 64; ++slot) {
        hold(slot, ++number);
        started = true;
        release(slot, number);
      }
    }
  });
  while (!started) std::this_thread::yield();
  std::uint32_t most = 0;
  for (int look = 0; look < 50000; ++look) most = std::max(most, member_.held_at_once(64));
  stop = true;
  reader.join();
  EXPECT_LE(most, 1U) << "never more than one was held at any instant";
}

}  // namespace
}  // namespace vramlink
