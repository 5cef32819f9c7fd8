// See subscriber_core.hpp.
#include "channel/subscriber_core.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/checked.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attach_error.hpp"
#include "link/names.hpp"
#include "os/fork_guard.hpp"
#include "os/futex.hpp"
#include "runtime/runtime_state.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// Frames published closer together than this share one entry among the ages.
constexpr std::int64_t kAgeIntervalNs = 100'000;

Result<void> check(const SubscriberOptions& options) {
  const auto bad = [](const char* field, std::uint32_t value, const char* range) {
    return Error(Code::invalid_argument, "open subscriber")
        .about(field)
        .because(std::to_string(value) + " is not within " + range);
  };
  if (options.held_count_max < 1 || options.held_count_max >= kSlotCountMax) {
    return bad("held_count_max", options.held_count_max, "1 to 63");
  }
  if (options.policy.queue_depth > wire::kQueueDepthMax) {
    return bad("queue_depth", options.policy.queue_depth, "0 to 63");
  }
  if (options.copy_frames > CopyFrames::always) {
    return bad("copy_frames", static_cast<std::uint32_t>(options.copy_frames), "0 to 2");
  }
  return {};
}

/// What one session has counted. Under the Subscriber's mutex.
void add_counters(const SubscriberSession& session, SubscriberStatistics& sum) noexcept {
  sum.received += session.received();
  sum.received_bytes += session.received() * session.facts().format.payload_bytes;
  sum.skipped += session.skipped();
  sum.lost += session.lost();
  if (session.stream_work()) sum.aborted += session.stream_work()->aborted_count();
}

}  // namespace

SubscriberCore::SubscriberCore(std::shared_ptr<runtime::ProcessState> process,
                               const SubscriberOptions& options)
    : process_(std::move(process)), options_(options) {}

SubscriberCore::~SubscriberCore() { shut_down(); }

Result<std::shared_ptr<SubscriberCore>> SubscriberCore::open(const Runtime& runtime,
                                                             std::string_view name,
                                                             Deadline deadline,
                                                             const SubscriberOptions& options) {
  VRAMLINK_CHECK(os::require_not_forked("open subscriber"));
  VRAMLINK_CHECK(link::check_name(name));
  VRAMLINK_CHECK(check(options));
  const std::shared_ptr<runtime::ProcessState>& process = runtime.state()->process();
  VRAMLINK_CHECK(process->janitor().start());
  // Here rather than with the first offer, so that the caller hears of it.
  if (options.device) {
    static_cast<void>(VRAMLINK_TRY(process->backends().find_any(*options.device)));
  }
  std::shared_ptr<SubscriberCore> core(new SubscriberCore(process, options));
  const os::RuntimeDirectory& directory = runtime.state()->directory();
  core->attacher_ = std::make_shared<Attacher>(process, directory, std::string(name), options);
  core->attacher_->start(core);
  VRAMLINK_CHECK(core->wait_attached(directory, deadline));
  return core;
}

Result<void> SubscriberCore::wait_attached(const os::RuntimeDirectory& directory,
                                           Deadline deadline) {
  while (true) {
    const std::uint32_t news = news_.load(std::memory_order_seq_cst);
    Error why(Code::timed_out, "open subscriber");
    {
      const std::lock_guard lock(mutex_);
      if (current_ || !next_.empty()) return {};
      if (attach_error_) why = *attach_error_;
    }
    if (is_lasting(why)) return of_channel(std::move(why), name());
    if (deadline.has_passed()) {
      const Result<std::vector<std::string>> names = link::list_names(directory);
      if (!names) return names.error();
      if (std::find(names->begin(), names->end(), name()) == names->end()) {
        return link::unknown_name("open subscriber", directory.path, name());
      }
      // What it said, if it said anything: that it is closing, for one.
      const bool refused = why.code() != Code::timed_out && why.facts() != nullptr;
      return Error(Code::timed_out, "open subscriber")
          .about(name())
          .because("its publisher is there and did not let us in by the deadline" +
                   (refused ? ": " + to_string(why) : std::string()))
          .remedy("look whether it is stopped or overloaded");
    }
    static_cast<void>(os::futex_wait(news_, news, deadline));
  }
}

void SubscriberCore::attached(std::shared_ptr<SubscriberSession> session) {
  Sessions dropped;  // end outside the lock
  {
    const std::lock_guard lock(mutex_);
    if (shut_down_ || session->link()->is_retired()) return;
    attach_error_.reset();
    queue_locked(std::move(session), dropped);
    settle_locked(dropped);
  }
  wake();
}

void SubscriberCore::queue_locked(std::shared_ptr<SubscriberSession> session, Sessions& dropped) {
  const auto is_of_link = [link = session->link()](const auto& other) {
    return other->link() == link;
  };
  const bool follows =
      (current_ && is_of_link(current_)) || std::any_of(next_.begin(), next_.end(), is_of_link);
  if (follows) {
    // Generations in between that are over already and that nobody misses.
    std::erase_if(next_, [&](std::shared_ptr<SubscriberSession>& between) {
      if (!is_of_link(between) || !between->is_replaced()) return false;
      if (options_.policy.queue_depth != 0 && !between->is_void()) return false;
      dropped.push_back(std::move(between));
      return true;
    });
    // Before the next publisher's, which may have been quicker.
    const auto before = std::find_if(next_.rbegin(), next_.rend(), is_of_link);
    const bool after_current = before == next_.rend() && current_ && is_of_link(current_);
    next_.insert(after_current ? next_.begin() : before.base(), std::move(session));
    return;
  }
  ++totals_.connects;
  count_path_locked(*session);
  last_age_publish_ns_ = 0;  // another publisher, perhaps in another time namespace
  format_.set(session->facts().format);
  device_.set(session->device());
  granted_depth_ = session->granted().depth;
  if (!current_) {
    current_ = std::move(session);
    return;
  }
  // One life waits while an earlier one is still read; a third takes its place, unread. More
  // would keep the memory of as many dead publishers as there were.
  std::shared_ptr<SessionLink> counted;
  std::erase_if(next_, [&](std::shared_ptr<SubscriberSession>& waiting) {
    if (waiting->link() == current_->link()) return false;
    const auto end = waiting->end();
    if (end && end->code == Code::peer_gone && counted != waiting->link()) {
      counted = waiting->link();
      ++totals_.peer_deaths;
    }
    dropped.push_back(std::move(waiting));
    return true;
  });
  next_.push_back(std::move(session));
}

SubscriberSession* SubscriberCore::successor_locked() const noexcept {
  if (!current_ || next_.empty() || next_.front()->link() != current_->link()) return nullptr;
  return current_->is_replaced() ? next_.front().get() : nullptr;
}

void SubscriberCore::settle_locked(Sessions& dropped) {
  if (next_.empty()) return;
  if (!current_) {
    current_ = std::move(next_.front());
    next_.pop_front();
  }
  for (SubscriberSession* next = successor_locked(); next && current_->is_through(*next);
       next = successor_locked()) {
    move_on_locked(dropped);
  }
}

void SubscriberCore::move_on_locked(Sessions& dropped) {
  add_counters(*current_, totals_);
  ++totals_.resizes;
  std::shared_ptr<SubscriberSession> next = std::move(next_.front());
  next_.pop_front();
  next->go_on_after(*current_);
  count_path_locked(*next);
  VRAMLINK_STEP("follow.moving");
  dropped.push_back(std::exchange(current_, std::move(next)));
  dropped.back()->ring_own_bell();  // a thread may sleep on it: it has to move to the next one's
  format_.set(current_->facts().format);
  granted_depth_ = current_->granted().depth;
}

const SubscriberSession* SubscriberCore::newest_locked() const noexcept {
  const SubscriberSession* newest = current_.get();
  for (const std::shared_ptr<SubscriberSession>& next : next_) {
    if (newest && newest->link() == next->link() && !newest->is_replaced()) break;
    newest = next.get();
  }
  return newest;
}

void SubscriberCore::attach_failed(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!attach_error_ || attach_error_->code() != why.code()) attach_error_told_ = false;
    attach_error_ = why;
  }
  wake();
}

void SubscriberCore::shut_down() noexcept {
  if (os::in_forked_child()) return;
  std::shared_ptr<SubscriberSession> current;
  std::deque<std::shared_ptr<SubscriberSession>> next;
  std::deque<Copying> copying;
  {
    const std::lock_guard lock(readiness_mutex_);
    readiness_.reset();
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(shut_down_, true)) return;
    current = std::move(current_);
    next.swap(next_);
    copying.swap(copying_);
  }
  if (attacher_) attacher_->stop();
  if (current) current->leave();
}

void SubscriberCore::fill(Frame& frame, const Taken& taken) {
  const wire::SlotHeader& header = current_->header(taken.slot_index);
  // All loads after the tag's: they stand still while we hold the slot.
  frame.slot_.data = current_->slot_data(taken.slot_index);
  frame.slot_.size_bytes = current_->facts().format.payload_bytes;
  frame.slot_.sequence = taken.sequence;
  frame.slot_.hold_number = taken.hold_number;
  frame.slot_.publish_ns =
      static_cast<std::int64_t>(header.publish_ns.load(std::memory_order_relaxed));
  frame.slot_.media_ns = header.media_ns.load(std::memory_order_relaxed);
  frame.slot_.index = taken.slot_index;
  frame.slot_.user_bytes =
      std::min(header.user_bytes.load(std::memory_order_relaxed), wire::kUserBytesMax);
  frame.slot_.flags = header.flags.load(std::memory_order_relaxed);
  frame.slot_.dtype = current_->facts().format.dtype;
  frame.session_ = current_;
  // A clock read is a tenth of a frame's way: at a high rate not every frame gets one.
  if (base::saturating_subtract(frame.slot_.publish_ns, last_age_publish_ns_) >= kAgeIntervalNs) {
    last_age_publish_ns_ = frame.slot_.publish_ns;
    ages_.add(base::saturating_subtract(monotonic_ns(), frame.slot_.publish_ns));
  }
}

Error SubscriberCore::report_end_locked(SubscriberSession::End end, Sessions& dropped) {
  if (!end_reported_ && end.code == Code::peer_gone) ++totals_.peer_deaths;
  if (!end_reported_ && end.code == Code::revoked) ++totals_.revocations;
  end_reported_ = true;
  if (options_.reconnect) {
    add_counters(*current_, totals_);
    // The segment can tell of the end before the connection does.
    attacher_->part_with(current_);
    current_->ring_own_bell();  // a thread may sleep on it: it has to move to the next one's
    current_->link()->retire();
    // A generation that was announced and never took its place went with the publisher.
    while (!next_.empty() && next_.front()->link() == current_->link()) {
      dropped.push_back(std::move(next_.front()));
      next_.pop_front();
    }
    dropped.push_back(std::exchange(current_, nullptr));
    settle_locked(dropped);
    end_reported_ = false;
  }
  return Error(end.code, "receive frame");
}

Error SubscriberCore::explain_revoked(Error error, bool is_lease) const {
  Error named = std::move(error).about(name());
  if (!is_lease) return std::move(named).because("the publisher met words of ours that cannot be");
  return std::move(named)
      .because("a frame was held for longer than the publisher's lease; what is held stays valid")
      .remedy(options_.reconnect ? "release frames sooner; the next receive attaches anew"
                                 : "release frames sooner, and open the channel again");
}

Error SubscriberCore::nobody_locked() {
  // Said once: the search goes on, and may find a better one.
  if (attach_error_ && is_lasting(*attach_error_) && !std::exchange(attach_error_told_, true)) {
    return of_channel(*attach_error_, name());
  }
  return Error(Code::empty, "receive frame");
}

void SubscriberCore::sleep(Deadline deadline, std::uint32_t interrupts,
                           const std::atomic<bool>* stop) {
  VRAMLINK_STEP("receive.before_bell");
  std::shared_ptr<SubscriberSession> session;  // set: its bell is ours to sleep on
  bool follows = false;
  std::uint32_t news = 0;
  Sessions dropped;  // end outside the lock
  {
    const std::lock_guard lock(mutex_);
    settle_locked(dropped);
    news = news_.load(std::memory_order_seq_cst);
    follows = current_ && bell_taken_;
    if (current_ && !bell_taken_) session = current_;
    if (session) session->bell().store(1, std::memory_order_seq_cst);
    // The look after the bell was set: what comes later finds the bell. Pairs with publish, end,
    // set_fate and wake(), which store first and look at the bell then (seq_cst all).
    const bool look_again = (current_ && current_->has_news()) || !copying_.empty() ||
                            interrupts_.load(std::memory_order_seq_cst) != interrupts ||
                            (stop && stop->load(std::memory_order_seq_cst));
    if (look_again) {
      if (session) session->bell().store(0, std::memory_order_seq_cst);
      return;
    }
    if (session) bell_taken_ = true;
    if (follows) ++bell_followers_;
  }
  VRAMLINK_STEP("receive.asleep");
  if (session) {
    static_cast<void>(os::futex_wait(session->bell(), 1, deadline));
    session->bell().store(0, std::memory_order_seq_cst);
  } else {
    static_cast<void>(os::futex_wait(news_, news, deadline));
  }
  bool hand_on = false;
  {
    const std::lock_guard lock(mutex_);
    if (follows) --bell_followers_;
    if (session) bell_taken_ = false;
    hand_on = session && bell_followers_ != 0;
  }
  if (!hand_on) return;
  // All of them look; one takes the bell.
  news_.fetch_add(1, std::memory_order_seq_cst);
  os::futex_wake(news_, INT32_MAX);
}

void SubscriberCore::wait_for_news(const std::atomic<bool>& stop) {
  Backoff backoff(Backoff::kForReady);
  while (!stop.load(std::memory_order_seq_cst)) {
    bool submitted = false;
    Sessions dropped;  // end outside the lock
    {
      const std::lock_guard lock(mutex_);
      settle_locked(dropped);
      if (!copying_.empty()) {
        // A device rings no bell; and nothing else is taken before.
        if (has_copying_news_locked()) return;
        submitted = true;
      } else {
        if (current_ && current_->has_complete_news(current_->granted().depth != 0)) return;
        // What comes in the next generation does not ring the bell of one in which all holds are
        // used.
        submitted =
            current_ && (current_->has_news() || current_->awaits_release() || successor_locked());
      }
    }
    if (submitted) {
      backoff.pause(kForever);
    } else {
      sleep(kForever, interrupts_.load(std::memory_order_seq_cst), &stop);
    }
  }
}

void SubscriberCore::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (current_) current_->ring_own_bell();
  }
  news_.fetch_add(1, std::memory_order_seq_cst);
  os::futex_wake(news_, INT32_MAX);
}

void SubscriberCore::interrupt() noexcept {
  if (os::in_forked_child()) return;
  interrupts_.fetch_add(1, std::memory_order_seq_cst);
  wake();
}

Result<int> SubscriberCore::readiness_fd() {
  VRAMLINK_CHECK(os::require_not_forked("readiness fd"));
  const std::lock_guard lock(readiness_mutex_);
  if (!readiness_) {
    readiness_ = VRAMLINK_TRY(Readiness::start(*this));
    has_readiness_.store(true, std::memory_order_release);
  }
  return readiness_->fd();
}

Format SubscriberCore::format() const {
  if (os::in_forked_child()) return format_.get();  // the lock may be one that the parent held
  const std::lock_guard lock(mutex_);
  const SubscriberSession* const newest = newest_locked();
  return newest ? newest->facts().format : format_.get();
}

DeviceId SubscriberCore::device() const {
  if (os::in_forked_child()) return device_.get();  // as format()
  const std::lock_guard lock(mutex_);
  return device_.get();
}

std::uint32_t SubscriberCore::granted_queue_depth() const noexcept {
  if (os::in_forked_child()) return granted_depth_;
  const std::lock_guard lock(mutex_);
  const SubscriberSession* const newest = newest_locked();
  return newest ? newest->granted().depth : granted_depth_;
}

SubscriberStatistics SubscriberCore::statistics() const {
  if (os::in_forked_child()) return {};
  const std::lock_guard lock(mutex_);
  SubscriberStatistics statistics = totals_;
  if (current_) add_counters(*current_, statistics);
  statistics.age_p50_ns = ages_.percentile(0.50);
  statistics.age_p99_ns = ages_.percentile(0.99);
  return statistics;
}

}  // namespace vramlink::inline v0::channel
