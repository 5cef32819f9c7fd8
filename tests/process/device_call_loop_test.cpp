// A whole life of a channel on a GPU, in which each call of the driver fails once: whatever call it
// is, every public call ends in a way that its declaration names, nobody else is harmed, and
// nothing is left. On the stand-in driver alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "loop_roles.hpp"
#include "support/channel_fixture.hpp"
#include "support/sanitized.hpp"
#include "support/scoped_settings.hpp"
#include "support/shared_page.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using simcuda::Fault;
using simcuda::FaultKind;
using simcuda::FaultMoment;
using test::ChildLink;
using test::ChildProcess;
using test::LoopOrders;
using test::TestDevice;

enum class Victim : std::uint8_t { publisher, subscriber };

/// Every how many-th call fails: $VRAMLINK_LOOP_STRIDE. The others have their turn in another run.
std::uint64_t stride() {
  if (const char* text = std::getenv("VRAMLINK_LOOP_STRIDE")) {
    return std::max<std::uint64_t>(1, std::strtoull(text, nullptr, 10));
  }
#if defined(VRAMLINK_TEST_SANITIZED)
  return 211;
#elif defined(VRAMLINK_LONG_TESTS)
  return 1;
#else
  return 23;
#endif
}

std::uint64_t seed() {
  if (const char* text = std::getenv("VRAMLINK_LOOP_SEED")) {
    return std::strtoull(text, nullptr, 10);
  }
  return std::random_device()();
}

class DeviceCallLoopTest : public test::ChannelFixture {
 protected:
  void SetUp() override {
    ChannelFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!TestDevice::is_stand_in()) {
      GTEST_SKIP() << "only the stand-in driver fails on demand";
    }
  }

  /// One life of the channel; false if the victim's calls did not get as far as the fault.
  bool run(Victim victim, const std::optional<Fault>& fault) const {
    ::alarm(test::Watchdog::kSeconds);  // for this one alone
    const test::SharedPage page;
    auto* const board = &page.at<test::LoopBoard>(0);
    const auto orders = [&](Victim whose) {
      return LoopOrders{directory_.path(), board, whose == victim ? fault : std::nullopt};
    };
    ChildProcess second([&](const ChildLink& link) {
      return run_second_publisher({directory_.path(), board, std::nullopt}, link);
    });
    ChildProcess subscriber(
        [&](const ChildLink&) { return run_loop_subscriber(orders(Victim::subscriber)); });
    ChildProcess first(
        [&](const ChildLink&) { return run_first_publisher(orders(Victim::publisher)); });
    EXPECT_EQ(first.wait(), 0) << "the first publisher";
    second.go();
    EXPECT_EQ(second.wait_ready(), 1);
    EXPECT_EQ(subscriber.wait(), 0) << "the subscriber";
    second.go();
    EXPECT_EQ(second.wait(), 0) << "the second publisher";
    EXPECT_EQ(files(), std::vector<std::string>{});
    // Who has no fault gets through.
    EXPECT_EQ(board->second.errors, 0U);
    if (victim == Victim::publisher) {
      EXPECT_EQ(board->subscriber.errors, 0U);
      EXPECT_EQ(board->frames_of_second, board->second.frames);
    } else {
      EXPECT_EQ(board->first.errors, 0U);
    }
    const auto& score = victim == Victim::publisher ? board->first : board->subscriber;
    if (score.met == 0) {
      EXPECT_EQ(board->first.errors + board->subscriber.errors, 0U);
      EXPECT_EQ(board->subscriber.frames, board->first.frames + board->second.frames);
      EXPECT_GT(board->first.frames, 6U);
      last_calls_ = score.calls;
    }
    return score.met != 0;
  }

  /// Until the victim's life has no call of that number.
  void fail_each_call(Victim victim) const {
    const std::uint64_t start = seed();
    const std::string seed_text = "VRAMLINK_LOOP_SEED=" + std::to_string(start);
    std::printf("%s\n", seed_text.c_str());
    std::uint64_t number = 1 + start % stride();
    for (;; number += stride()) {
      SCOPED_TRACE(seed_text + ", call " + std::to_string(number));
      static constexpr std::array kStatuses{2, 1, 801, 999};
      const int status = kStatuses.at((number + start) % kStatuses.size());
      if (!run(victim, Fault{nullptr, number, 1, FaultKind::fail,
                             static_cast<std::uint64_t>(status), FaultMoment::as_driver})) {
        break;
      }
      if (HasFailure()) return;
      const bool before = (number + start) % 2 == 0;
      run(victim, Fault{nullptr, number, 1, FaultKind::sticky, 700,
                        before ? FaultMoment::before : FaultMoment::after});
      if (HasFailure()) return;
    }
    std::printf("%u driver calls in a life without a fault\n", last_calls_);
    EXPECT_GT(number, 100U) << "the loop ended early";
  }

 private:
  test::TemporaryDirectory account_;
  test::ScopedEnvironment own_account_{"VRAMLINK_SIMCUDA_DIR", account_.path()};
  mutable std::uint32_t last_calls_ = 0;
};

TEST_F(DeviceCallLoopTest, ALifeWithoutAFaultHasNoErrors) {
  EXPECT_FALSE(run(Victim::publisher, std::nullopt));
}

TEST_F(DeviceCallLoopTest, APublisherSurvivesTheFailureOfEachOfItsCalls) {
  fail_each_call(Victim::publisher);
}

TEST_F(DeviceCallLoopTest, ASubscriberSurvivesTheFailureOfEachOfItsCalls) {
  fail_each_call(Victim::subscriber);
}

}  // namespace
}  // namespace vramlink
