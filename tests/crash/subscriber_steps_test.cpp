// A subscriber is killed, or stopped and then goes on or is killed, at every named step. The
// publisher, which lives through all rounds, gets its slots back, and a second subscriber loses
// nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "os/threads.hpp"
#include "scoreboard.hpp"
#include "support/frame_pattern.hpp"
#include "support/stream_gate.hpp"
#include "survivor.hpp"
#include "victims.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;

class SubscriberSteps : public CrashTest, public ::testing::WithParamInterface<StepCase> {
 protected:
  SubscriberSteps()
      : runtime_(Runtime::open({directory_.path()}).value()),
        publisher_(Publisher::open(runtime_, Orders().name, Format::bytes(kPayloadBytes).value(),
                                   publisher_options(GetParam().mode))
                       .value()),
        witness_(Subscriber::open(runtime_, Orders().name,
                                  Deadline::after(std::chrono::seconds(60)),
                                  subscriber_options(GetParam().mode))
                     .value()) {
    orders_.directory = directory_.path();
    orders_.mode = GetParam().mode;
    orders_.step = GetParam().step.name;
  }

  void SetUp() override {
    CrashTest::SetUp();
    if (cannot_run() || TestDevice::is_host()) return;
    // The watchdog has nothing to do where every frame is complete in time.
    if (orders_.step.rfind("watchdog.", 0) == 0) slow_frames_.emplace();
  }

  [[nodiscard]] bool drops() const { return orders_.mode != Mode::block_queue; }
  [[nodiscard]] bool evicts() const { return orders_.mode == Mode::evict_latest; }

  /// Publishes one frame; full or timed_out where there is no slot.
  Result<void> publish() {
    // The device gets through with what it has, or drop would have fewer slots than it counts on.
    TestDevice::finish(TestDevice::stream());
    auto frame =
        publisher_.claim(TestDevice::stream(), Deadline::after(milliseconds(drops() ? 0 : 20)));
    if (!frame) return frame.error();
    if (slow_frames_) slow_frames_->close(TestDevice::stream());
    const auto receipt =
        publish_pattern(publisher_, *std::move(frame), PatternInfo{0, sequence_ + 1});
    if (slow_frames_) {
      // Longer than the victim's streams wait for at times.
      os::nap_until(Deadline::after(milliseconds(1)));
      slow_frames_->open();
    }
    if (!receipt) return receipt.error();  // stale, where it evicts and was slow
    EXPECT_EQ(receipt->sequence(), ++sequence_);
    return {};
  }

  /// Now and then another generation; whoever is stopped is not waited for.
  void resize() {
    const std::uint64_t bytes = ++resizes_ % 2 == 0 ? kPayloadBytes : kPayloadBytes / 2;
    const auto resized =
        publisher_.resize(Format::bytes(bytes).value(), Deadline::after(milliseconds(2)));
    // Refused where a stopped or slow one has yet to let go of as many generations as there may be.
    EXPECT_TRUE(resized || resized.failed_with(Code::resource_exhausted))
        << to_string(resized.error());
  }

  /// The second subscriber takes all that is there; under block_queue it misses none.
  void witness() {
    TestDevice::finish(TestDevice::stream());
    while (true) {
      // After a resize it may come to the new frames a moment later.
      const auto frame = witnessed_ < sequence_
                             ? witness_.receive(Deadline::after(std::chrono::seconds(20)))
                             : witness_.try_receive();
      if (!frame) {
        EXPECT_EQ(frame.error().code(), Code::empty) << to_string(frame.error());
        return;
      }
      EXPECT_TRUE(is_whole(*frame)) << "frame " << frame->sequence() << " is torn";
      const bool in_order = drops() || witnessed_ == 0 ? frame->sequence() > witnessed_
                                                       : frame->sequence() == witnessed_ + 1;
      EXPECT_TRUE(in_order) << "frame " << frame->sequence() << " after " << witnessed_;
      witnessed_ = frame->sequence();
    }
  }

  void work() {
    // Where it evicts, other slots come by themselves.
    if (++turns_ % 24 == 0 && !evicts()) resize();
    const Result<void> published = publish();
    EXPECT_TRUE(published || published.failed_with(drops() ? Code::full : Code::timed_out) ||
                (evicts() && published.failed_with(Code::stale)))
        << to_string(published.error());
    witness();
  }

  void let_it_pass(SpawnedProcess& victim) {
    if (victim.poll_ready() != kLetItPass) return;
    for (std::uint32_t i = 0; i < kSlotCount + 2; ++i) work();
    victim.go();
  }

  bool work_until_hit(SpawnedProcess& victim) {
    return until("the victim reaches its step", [&] {
      for (int i = 0; i < 8; ++i) work();  // then a pause, in which it falls asleep
      let_it_pass(victim);
      return victim.state() != SpawnedProcess::State::running || HasFailure();
    });
  }

  [[nodiscard]] bool is_member(pid_t pid) const {
    for (const SubscriberView& view : publisher_.statistics().subscribers) {
      if (view.pid == pid) return true;
    }
    return false;
  }

  /// A stopped subscriber delays a publisher that drops never, and one that blocks until its
  /// deadline; all that was published reaches the second subscriber.
  void expect_patience(const SpawnedProcess& victim) {
    if (evicts()) {
      const std::uint64_t before = sequence_;
      EXPECT_TRUE(until("frames go on without it", [&] {
        work();
        return sequence_ > before + 3 * kSlotCount || HasFailure();
      }));
      return;
    }
    for (std::uint32_t i = 0; i < 3 * kSlotCount; ++i) {
      if (i == kSlotCount / 2) resize();
      const Result<void> published = publish();
      witness();
      if (published) continue;
      if (!drops() && published.failed_with(Code::timed_out) && is_member(victim.pid())) break;
      ADD_FAILURE() << "a stopped subscriber cost a frame: " << to_string(published.error());
    }
    EXPECT_EQ(witnessed_, sequence_);
  }

  void expect_progress(SpawnedProcess& victim, const Scoreboard& board) {
    const std::uint64_t before = board.received.load();
    EXPECT_TRUE(until("the victim goes on", [&] {
      work();
      let_it_pass(victim);
      EXPECT_EQ(victim.state(), SpawnedProcess::State::running) << "it ended by itself";
      return board.received.load() > before + 10 || HasFailure();
    }));
  }

  /// All slots but the one that newcomers find can be claimed at once.
  void expect_slots_back() {
    witness();
    std::vector<WritableFrame> claimed;
    for (std::uint32_t i = 0; i + 1 < slot_count_of(orders_.mode); ++i) {
      auto frame = publisher_.try_claim(StreamView::already_complete());
      ASSERT_TRUE(frame) << "slot " << i << " is missing: " << to_string(frame.error());
      claimed.push_back(*std::move(frame));
    }
  }

  void run_round(Fate fate, std::mt19937_64& random) {
    orders_.occurrence =
        std::uniform_int_distribution<std::uint32_t>(1, GetParam().step.occurrence_max)(random);
    orders_.signal = fate == Fate::killed ? SIGKILL : SIGSTOP;
    const PublisherStatistics before = publisher_.statistics();
    const SharedScoreboard board = SharedScoreboard::create();
    SpawnedProcess victim("subscriber", orders_.arguments(), board.fd());
    if (!work_until_hit(victim)) return;
    if (victim.state() == SpawnedProcess::State::stopped) {
      expect_patience(victim);
      if (fate == Fate::stopped_resumed) {
        victim.resume();
        expect_progress(victim, *board);
      }
    }
    EXPECT_EQ(victim.kill_and_wait(), 128 + SIGKILL) << "the victim ended by itself";
    EXPECT_TRUE(until("its death is noticed", [&] {
      work();
      return publisher_.statistics().subscribers.size() == 1 || HasFailure();
    }));
    const PublisherStatistics after = publisher_.statistics();
    // Everyone who came has left in order or died, once.
    const std::uint64_t came = after.subscribers_ever - before.subscribers_ever;
    const std::uint64_t died = after.subscribers_died - before.subscribers_died;
    // The one before may have left while a stream had yet to release a frame of it, or while it was
    // following a resize; then its farewell comes a little later, and may not come at all.
    constexpr std::uint64_t kLingering = 1;
    EXPECT_LE(died, 1u + kLingering);
    EXPECT_GE(came + kLingering, board->left.load() + died);
    // One that was evicted came once more, and is not counted among the dead.
    const std::uint64_t evicted = after.subscribers_evicted - before.subscribers_evicted;
    EXPECT_LE(came, board->leaving.load() + died + 2 * evicted);
    EXPECT_TRUE(evicts() || evicted == 0);
    EXPECT_TRUE(evicted > 0 || !GetParam().step.only_evict);
    EXPECT_EQ(after.subscribers_revoked, 0u);
    expect_slots_back();
  }

  Orders orders_;
  Runtime runtime_;
  Publisher publisher_;
  Subscriber witness_;
  std::uint64_t sequence_ = 0;
  std::uint64_t witnessed_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t resizes_ = 0;
  std::optional<StreamGate> slow_frames_;
};

TEST_P(SubscriberSteps, CostsOthersNothing) {
  if (GetParam().step.only_stream && TestDevice::is_host()) GTEST_SKIP() << "the host has none";
  const std::uint64_t start = seed();
  SCOPED_TRACE("VRAMLINK_CRASH_SEED=" + std::to_string(start));
  std::mt19937_64 random(start);
  const Counts counts = least_counts();
  for (const Fate fate : {Fate::killed, Fate::stopped_killed, Fate::stopped_resumed}) {
    for (int round = 0; round < round_count(); ++round) {
      SCOPED_TRACE("fate " + std::to_string(static_cast<int>(fate)) + ", round " +
                   std::to_string(round));
      run_round(fate, random);
      if (HasFailure()) return;
      // Where slots were replaced last, the witness leaves the old ones when it looks for a frame.
      EXPECT_TRUE(until("descriptors are closed",
                        [&] {
                          witness();
                          return current_counts() == counts || HasFatalFailure();
                        }))
          << counts << " before, now " << current_counts();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, SubscriberSteps,
                         ::testing::ValuesIn(stream_cases_of(Victim::subscriber)), name_of);
INSTANTIATE_TEST_SUITE_P(All, SubscriberSteps, ::testing::ValuesIn(cases_of(Victim::subscriber)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Rotated, SubscriberSteps,
                         ::testing::ValuesIn(rotated_cases_of(Victim::subscriber)), name_of);
INSTANTIATE_TEST_SUITE_P(StreamsRotated, SubscriberSteps,
                         ::testing::ValuesIn(rotated_stream_cases_of(Victim::subscriber)), name_of);

}  // namespace
}  // namespace vramlink::test
