// A publisher is killed, or stopped and then goes on or is killed, at every named step. The
// subscriber, which lives through all rounds, loses nothing that was complete.
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <optional>

#include "scoreboard.hpp"
#include "support/frame_pattern.hpp"
#include "survivor.hpp"
#include "victims.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kManyLeases{100};

/// The end of one publisher's life as the subscriber was told of it.
struct SeenEnd {
  std::uint64_t life = 0;  ///< 0: no frame of it came
  std::uint64_t last_sequence = 0;
  Code code = Code::empty;
};

class PublisherSteps : public CrashTest, public ::testing::WithParamInterface<StepCase> {
 protected:
  PublisherSteps() : runtime_(Runtime::open({directory_.path()}).value()) {
    orders_.directory = directory_.path();
    orders_.mode = GetParam().mode;
    orders_.step = GetParam().step.name;
  }

  void SetUp() override {
    CrashTest::SetUp();
    if (cannot_run()) return;
    if (GetParam().step.only_stream && TestDevice::is_host()) GTEST_SKIP() << "the host has none";
    // The subscriber exists before the first victim does.
    SpawnedProcess first("orderly_publisher", orders_.arguments(), -1);
    ASSERT_EQ(first.wait_ready(), 1);
    ASSERT_TRUE(until("attached", [&] { return receive(Deadline::after(milliseconds(100))); }));
    first.go(0);
    ASSERT_TRUE(until("the end", [&] { return receive(Deadline::after(milliseconds(100))); }));
    EXPECT_EQ(first.wait(), 0);
    ends_.clear();
    board_ = SharedScoreboard::create();
    counts_ = least_counts();
  }

  void TearDown() override {
    if (cannot_run()) return;
    // A publisher that closes in order takes the dead one's files along.
    orders_.step.clear();
    held_.clear();
    evicted_.clear();
    subscriber_.reset();
    SpawnedProcess last("orderly_publisher", orders_.arguments(), -1);
    EXPECT_EQ(last.wait_ready(), 1);
    last.go(0);
    EXPECT_EQ(last.wait(), 0);
  }

  [[nodiscard]] bool evicts() const { return orders_.mode == Mode::evict_latest; }

  /// Takes what is there; false if it had to wait in vain.
  bool receive(Deadline deadline) {
    if (!subscriber_) return open_subscriber(deadline);
    // On a device every other one in a stream's order, which is let go on when the victim dies.
    const bool by_stream = !TestDevice::is_host() && ++received_ % 2 == 0;
    TestDevice::finish(TestDevice::stream());  // frames that were dropped in it are given back
    auto frame = by_stream ? subscriber_->receive(TestDevice::stream(), deadline)
                           : subscriber_->receive(deadline);
    if (frame && by_stream) TestDevice::finish(TestDevice::stream());
    if (!frame) {
      if (frame.failed_with(Code::timed_out)) return false;
      const Code code = frame.error().code();
      if (evicts() && code == Code::resource_exhausted) {
        // It waits to be evicted. What it holds of slots that were replaced meanwhile is in
        // nobody's way, and no claim would ever meet it.
        if (!let_go_) let_go_ = Deadline::after(kManyLeases);
        if (let_go_->has_passed()) {
          held_.clear();
          let_go_.reset();
        }
        return false;
      }
      const bool is_end = code == Code::closed || code == Code::peer_gone;
      EXPECT_TRUE(is_end || (evicts() && code == Code::revoked)) << to_string(frame.error());
      if (evicts()) {  // what it holds next is the next life's, or the next session's
        expect_held_unchanged();
        evicted_ = std::exchange(held_, {});
      }
      now_.code = code;
      ends_.push_back(std::exchange(now_, SeenEnd()));
      return true;
    }
    check(*frame);
    const std::size_t held_max = evicts() ? 2 : 1;
    if (held_.size() < held_max && !frame->aborted()) held_.push_back(*std::move(frame));
    return true;
  }

  bool open_subscriber(Deadline deadline) {
    SubscriberOptions options = subscriber_options(orders_.mode);
    options.held_count_max = 3;
    auto subscriber = Subscriber::open(runtime_, orders_.name, deadline, options);
    if (subscriber) subscriber_ = *std::move(subscriber);
    return subscriber.has_value();
  }

  void check(const Frame& frame) {
    let_go_.reset();
    const std::uint64_t life = pattern_info(frame).life;
    EXPECT_TRUE(frame.aborted() || is_whole(frame)) << "frame " << frame.sequence() << " is torn";
    if (now_.life == 0) {
      now_.life = life;
    } else {
      EXPECT_EQ(now_.life, life) << "a new life began and the old one's end was not told";
      if (orders_.mode == Mode::block_queue) {
        EXPECT_EQ(frame.sequence(), now_.last_sequence + 1) << "of life " << life;
      } else {
        EXPECT_GT(frame.sequence(), now_.last_sequence) << "of life " << life;
      }
    }
    now_.last_sequence = frame.sequence();
  }

  /// A second subscriber comes and goes, so that the publisher meets all that belongs to it.
  void churn() {
    if (visitor_) {
      const auto frame = visitor_->try_receive();
      EXPECT_TRUE(!frame || is_whole(*frame)) << "a frame is torn";
      visitor_.reset();
      return;
    }
    auto visitor = Subscriber::open(runtime_, orders_.name, Deadline::after(milliseconds(10)),
                                    subscriber_options(orders_.mode));
    if (visitor) visitor_ = *std::move(visitor);
  }

  /// Works until the victim has stopped or ended at its step.
  bool work_until_hit(SpawnedProcess& victim) {
    // Under drop_queue a slow reader: what the publisher is about to overwrite is still unread. But
    // only who has read all sleeps, to be woken.
    const bool is_slow = orders_.mode == Mode::drop_queue && orders_.step != "wake.bells_taken";
    const int pace = is_slow ? 8 : 1;
    int turn = 0;
    return until("the victim reaches its step", [&] {
      if (++turn % pace == 0) receive(Deadline::after(milliseconds(3)));
      if (turn % 16 == 0) churn();
      return victim.state() != SpawnedProcess::State::running;
    });
  }

  /// Nothing arrives from a stopped publisher, and nothing is lost: a wait ends at its deadline.
  void expect_patience() {
    visitor_.reset();
    // What it takes now it holds when the publisher goes on, perhaps in the middle of a claim.
    expect_held_unchanged();
    held_.clear();
    while (receive(Deadline::after(milliseconds(10)))) {
    }
    expect_held_unchanged();
  }

  void expect_progress(SpawnedProcess& victim, const Scoreboard& board) {
    const std::uint64_t life = board.lives.load();
    const std::uint64_t before = now_.last_sequence;
    EXPECT_TRUE(until("frames after the stop", [&] {
      receive(Deadline::after(milliseconds(3)));
      EXPECT_NE(victim.state(), SpawnedProcess::State::ended);
      return board.lives.load() > life + 1 || now_.life > life || now_.last_sequence > before + 5 ||
             HasFailure();
    }));
  }

  void expect_held_unchanged() {
    for (const Frame& frame : held_) EXPECT_TRUE(is_whole(frame)) << "a held frame changed";
    for (const Frame& frame : evicted_) EXPECT_TRUE(is_whole(frame)) << "of an evicted one";
  }

  /// After the victim's death: all that was visible arrives, then the end, once.
  void expect_end(const Scoreboard& board) {
    visitor_.reset();
    const std::uint64_t life = board.lives.load();
    expect_held_unchanged();
    if (evicts()) held_.clear();  // or it could take no more
    if (now_.life != 0) {
      const std::size_t ends_before = ends_.size();
      EXPECT_TRUE(until("the end is told", [&] {
        receive(Deadline::after(milliseconds(100)));
        return ends_.size() > ends_before;
      }));
    }
    expect_held_unchanged();
    held_.clear();
    evicted_.clear();
    // A session that was on its way when the victim died comes late, and ends as the others.
    EXPECT_TRUE(until("all sessions have ended and left nothing",
                      [&] {
                        while (receive(Deadline::after(milliseconds(2)))) held_.clear();
                        evicted_.clear();
                        return current_counts() == counts_;
                      }))
        << counts_ << " before, now " << current_counts();
    for (const SeenEnd& end : ends_) {
      if (end.life == 0 || end.code == Code::revoked) continue;
      SCOPED_TRACE("life " + std::to_string(end.life) + " of " + std::to_string(life));
      const Scoreboard::Life& victim = board.life[end.life % kLifeCountMax];
      if (victim.end_begun.load() == victim.ended.load()) {
        EXPECT_EQ(end.code, victim.ended.load() != 0 ? Code::closed : Code::peer_gone);
      }
      // What a device had not completed may have died with its process.
      const std::uint64_t complete =
          TestDevice::is_host() ? victim.visible.load() : victim.complete.load();
      EXPECT_GE(end.last_sequence, complete) << "a complete frame was not delivered";
      EXPECT_LE(end.last_sequence, victim.visible_begun.load());
    }
    ends_.clear();
  }

  void run_round(Fate fate, std::mt19937_64& random) {
    orders_.occurrence =
        std::uniform_int_distribution<std::uint32_t>(1, GetParam().step.occurrence_max)(random);
    orders_.signal = fate == Fate::killed ? SIGKILL : SIGSTOP;
    board_ = SharedScoreboard::create();
    SpawnedProcess victim("publisher", orders_.arguments(), board_->fd());
    if (!work_until_hit(victim)) return;
    if (victim.state() == SpawnedProcess::State::stopped) {
      expect_patience();
      if (fate == Fate::stopped_resumed) {
        victim.resume();
        expect_progress(victim, **board_);
      }
    }
    EXPECT_EQ(victim.kill_and_wait(), 128 + SIGKILL) << "the victim ended by itself";
    expect_end(**board_);
  }

  Orders orders_;
  Runtime runtime_;
  int received_ = 0;
  std::optional<Deadline> let_go_;  ///< while it can take no more
  std::optional<Subscriber> subscriber_;
  std::optional<Subscriber> visitor_;
  std::vector<Frame> held_;
  std::vector<Frame> evicted_;  ///< held when it was disconnected for them
  SeenEnd now_;
  std::vector<SeenEnd> ends_;
  std::optional<SharedScoreboard> board_;  // counted among the descriptors
  Counts counts_;
};

TEST_P(PublisherSteps, EndsWithoutHarm) {
  const std::uint64_t start = seed();
  SCOPED_TRACE("VRAMLINK_CRASH_SEED=" + std::to_string(start));
  std::mt19937_64 random(start);
  for (const Fate fate : {Fate::killed, Fate::stopped_killed, Fate::stopped_resumed}) {
    for (int round = 0; round < round_count(); ++round) {
      SCOPED_TRACE("fate " + std::to_string(static_cast<int>(fate)) + ", round " +
                   std::to_string(round));
      run_round(fate, random);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, PublisherSteps,
                         ::testing::ValuesIn(stream_cases_of(Victim::publisher)), name_of);
INSTANTIATE_TEST_SUITE_P(All, PublisherSteps, ::testing::ValuesIn(cases_of(Victim::publisher)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Rotated, PublisherSteps,
                         ::testing::ValuesIn(rotated_cases_of(Victim::publisher)), name_of);
INSTANTIATE_TEST_SUITE_P(StreamsRotated, PublisherSteps,
                         ::testing::ValuesIn(rotated_stream_cases_of(Victim::publisher)), name_of);

}  // namespace
}  // namespace vramlink::test
