// Random schedules: from one seed follow the shape of a channel, what each side does with its
// frames, and how long its threads stay at each named step. Every byte is checked.
//
// VRAMLINK_SCHEDULES is how many seeds are tried, in blocks; VRAMLINK_SCHEDULE_SEED repeats the one
// that a failure names: the same choices and the same delays, as far as the machine lets them be.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/steps.hpp"
#include "support/channel_fixture.hpp"
#include "support/test_device.hpp"

#if VRAMLINK_STEPS

namespace vramlink {
namespace {

using test::ChildLink;
using test::soon;

constexpr std::uint64_t kSeedsInABlock = 25;
constexpr std::uint32_t kPeersMax = 3;
constexpr std::uint64_t kFramesMax = 40;
/// A reader that gets nothing for so long lets go of what it holds: all slots may be held.
constexpr std::chrono::milliseconds kTakePatience{2};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t block_count() {
#if VRAMLINK_LONG_TESTS
  constexpr std::uint64_t kSchedules = 10'000;
#else
  constexpr std::uint64_t kSchedules = kSeedsInABlock;
#endif
  const std::uint64_t schedules = from_environment("VRAMLINK_SCHEDULES", kSchedules);
  return std::max<std::uint64_t>((schedules + kSeedsInABlock - 1) / kSeedsInABlock, 1);
}

/// Choices of one thread. Which of them a seed gives depends on what it is asked, in which order.
class Choices {
 public:
  Choices(std::uint64_t seed, std::uint64_t role) {
    std::seed_seq sequence{seed, seed >> 32, role};
    random_.seed(sequence);
  }
  /// `from` to `to`, both of them too.
  std::uint64_t between(std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>(from, to)(random_);
  }
  bool one_in(std::uint64_t count) { return between(1, count) == 1; }

 private:
  std::mt19937_64 random_;
};

/// What the threads of this process stay at the steps: set before they start.
struct Delays {
  std::uint64_t seed = 0;
  std::uint64_t role = 0;
  std::uint64_t max_us = 0;
};
Delays delays;
std::atomic<std::uint64_t> thread_count{0};

void stay(const char* /*step*/) {
  thread_local Choices choices(delays.seed, 1000 * (delays.role + 1) + thread_count.fetch_add(1));
  if (!choices.one_in(4)) return;
  if (choices.one_in(2)) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(choices.between(0, delays.max_us)));
  }
}

/// What all sides of a channel know of the schedule.
struct Plan {
  explicit Plan(std::uint64_t of_seed) : seed(of_seed) {
    Choices choices(seed, 0);
    peers = static_cast<std::uint32_t>(choices.between(1, kPeersMax));
    frames = choices.between(4, kFramesMax);
    slots = static_cast<std::uint32_t>(choices.between(2, 6));
    when_full = choices.one_in(2) ? WhenFull::block : WhenFull::drop;
    max_us = choices.one_in(3) ? 400 : 40;
  }
  std::uint64_t seed;
  std::uint32_t peers = 0;
  std::uint64_t frames = 0;
  std::uint32_t slots = 0;
  WhenFull when_full = WhenFull::drop;
  std::uint64_t max_us = 0;
};

class RandomSchedule : public test::ChannelFixture,
                       public ::testing::WithParamInterface<std::tuple<test::Mode, std::uint64_t>> {
 protected:
  void run(const Plan& plan) const {
    std::vector<std::unique_ptr<test::Peer>> peers;
    for (std::uint32_t i = 0; i < plan.peers; ++i) {
      peers.push_back(std::make_unique<test::Peer>(std::get<0>(GetParam()),
                                                   [this, &plan, i](const ChildLink& link) {
                                                     begin_delays(plan, i + 1);
                                                     Choices choices(plan.seed, i + 1);
                                                     read_all(plan, choices, link);
                                                   }));
    }
    begin_delays(plan, 0);
    publish_all(plan, peers);
    for (const auto& peer : peers) peer->finish();
    base::step_hook.store(nullptr);
  }

 private:
  /// In a process of its own, or once for all that are threads of this one.
  void begin_delays(const Plan& plan, std::uint64_t role) const {
    if (std::get<0>(GetParam()) == test::Mode::threads && role != 0) return;
    delays = {plan.seed, role, plan.max_us};
    base::step_hook.store(&stay);
  }

  void publish_all(const Plan& plan, const std::vector<std::unique_ptr<test::Peer>>& peers) const {
    Choices choices(plan.seed, 0);
    const Runtime runtime = open_runtime();
    Publisher publisher =
        open_publisher(runtime, {.slot_count = plan.slots, .when_full = plan.when_full},
                       choices.between(1, kFrameBytes));
    for (const auto& peer : peers) peer->wait_ready();
    bool all_are_back = false;
    for (std::uint64_t number = 1; number <= plan.frames;) {
      if (number > plan.frames / 2 && !all_are_back) {  // who left has a frame to come back for
        for (const auto& peer : peers) peer->wait_ready();
        all_are_back = true;
      }
      if (choices.one_in(12)) {
        ASSERT_TRUE(publisher.resize(Format::bytes(choices.between(1, kFrameBytes)).value(), soon(),
                                     {.follow_within = std::chrono::seconds(30)}));
      }
      if (choices.one_in(8)) static_cast<void>(publisher.try_claim(test::TestDevice::stream()));
      const Result<Receipt> receipt = publish_one(publisher, choices, number);
      if (!receipt) {
        ASSERT_TRUE(receipt.failed_with(Code::full)) << to_string(receipt.error());
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(receipt->sequence(), number++);
    }
    ASSERT_TRUE(publisher.close(soon()));
    // Not how many died: a peer that ends by _exit() may do so before its farewell is sent.
    EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
  }

  static Result<Receipt> publish_one(Publisher& publisher, Choices& choices, std::uint64_t number) {
    if (!choices.one_in(4)) return test::publish_number(publisher, number);
    std::vector<std::byte> bytes(publisher.format().payload_bytes);
    test::fill_frame(bytes, number);
    return publisher.publish_copy(bytes, test::kNow, soon(),
                                  {.media_ns = static_cast<std::int64_t>(number)});
  }

  Subscriber join(const Runtime& runtime, Choices& choices) const {
    const std::uint64_t depth = choices.between(0, 5);
    return open_subscriber(
        runtime, {.policy = depth == 0 ? ReceivePolicy::latest()
                                       : ReceivePolicy::queue(static_cast<std::uint32_t>(depth)),
                  .held_count_max = static_cast<std::uint32_t>(choices.between(1, 3)),
                  .stream_order = false});
  }

  /// Holds a random choice of frames while it reads on.
  void read_all(const Plan& plan, Choices& choices, const ChildLink& link) const {
    const Runtime runtime = open_runtime();
    std::uint64_t last = 0;
    {
      Subscriber subscriber = join(runtime, choices);
      link.ready();
      if (choices.one_in(3)) {
        last = subscriber.receive(soon()).value().sequence();
      } else {
        link.ready();
        read_on(plan, subscriber, choices, 0, true);
        return;
      }
    }
    Subscriber subscriber = join(runtime, choices);
    link.ready();
    // A newcomer finds the newest frame, which may be the one that it knows.
    read_on(plan, subscriber, choices, last - 1, false);
  }

  static void read_on(const Plan& plan, Subscriber& subscriber, Choices& choices,
                      std::uint64_t last, bool from_the_start) {
    const bool gets_all = from_the_start && plan.when_full == WhenFull::block &&
                          subscriber.granted_queue_depth() != 0;
    std::vector<Frame> held;
    while (true) {
      Result<Frame> frame = choices.one_in(2) ? subscriber.try_receive()
                                              : subscriber.receive(Deadline::after(kTakePatience));
      if (frame.failed_with(Code::closed)) break;
      if (frame.failed_with(Code::empty)) {
        std::this_thread::yield();
        continue;
      }
      if (frame.failed_with(Code::timed_out) || frame.failed_with(Code::resource_exhausted)) {
        held.clear();
        continue;
      }
      ASSERT_TRUE(frame) << to_string(frame.error());
      if (gets_all) {
        ASSERT_EQ(frame->sequence(), last + 1);
      } else {
        ASSERT_GT(frame->sequence(), last);
      }
      last = frame->sequence();
      ASSERT_EQ(frame->size_bytes(), frame->format().payload_bytes);
      check(*frame);
      if (choices.one_in(2)) held.push_back(*std::move(frame));
      if (!held.empty() && choices.one_in(3)) {
        const auto which = static_cast<std::ptrdiff_t>(choices.between(0, held.size() - 1));
        check(held[static_cast<std::size_t>(which)]);
        held.erase(held.begin() + which);
      }
    }
    for (const Frame& frame : held) check(frame);
    EXPECT_EQ(last, plan.frames) << "the newest is never lost";
    EXPECT_EQ(subscriber.statistics().peer_deaths, 0U);
  }

  static void check(const Frame& frame) {
    ASSERT_EQ(frame.media_ns(), static_cast<std::int64_t>(frame.sequence()));
    ASSERT_TRUE(test::holds_frame(frame.bytes(), frame.sequence()));
  }
};

TEST_P(RandomSchedule, EveryByteIsWhole) {
  const std::uint64_t first = std::get<1>(GetParam()) * kSeedsInABlock + 1;
  const std::uint64_t wanted = from_environment("VRAMLINK_SCHEDULE_SEED", 0);
  for (std::uint64_t seed = first; seed < first + kSeedsInABlock; ++seed) {
    const Plan plan(wanted != 0 ? wanted : seed);
    // A process without threads for each: it forks peers, and a device is used in it alone.
    test::ChildProcess schedule([&](const ChildLink&) {
      run(plan);
      return 0;
    });
    ASSERT_EQ(schedule.wait(), 0) << "VRAMLINK_SCHEDULE_SEED=" << plan.seed << " repeats it";
    ASSERT_TRUE(files().empty());
  }
}

std::string name_of(const ::testing::TestParamInfo<RandomSchedule::ParamType>& info) {
  return std::string(test::name(std::get<0>(info.param))) + "_" +
         std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Both, RandomSchedule,
                         ::testing::Combine(::testing::Values(test::Mode::threads,
                                                              test::Mode::processes),
                                            ::testing::Range<std::uint64_t>(0, block_count())),
                         name_of);

}  // namespace
}  // namespace vramlink

#endif
