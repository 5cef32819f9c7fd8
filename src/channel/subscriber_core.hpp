// What a Subscriber is behind its pointer: the session it reads from, and those that follow.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>

#include "channel/age_histogram.hpp"
#include "channel/attacher.hpp"
#include "channel/backoff.hpp"
#include "channel/inert.hpp"
#include "channel/readiness.hpp"
#include "channel/subscriber_session.hpp"
#include "runtime/process_state.hpp"

namespace vramlink::inline v0::channel {

/// Owned by the Subscriber. Thread-safe.
///
/// mutex_ guards taking and is never held asleep. One thread at a time sleeps on the session's
/// bell, since a ring wakes one; the others sleep on news_, and the one that leaves the bell wakes
/// them.
class SubscriberCore : public std::enable_shared_from_this<SubscriberCore> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<SubscriberCore>> open(
      const Runtime& runtime, std::string_view name, Deadline deadline,
      const SubscriberOptions& options);
  SubscriberCore(const SubscriberCore&) = delete;
  SubscriberCore& operator=(const SubscriberCore&) = delete;
  ~SubscriberCore();

  [[nodiscard]] Result<Frame> try_receive();
  [[nodiscard]] Result<Frame> receive(Deadline deadline);
  [[nodiscard]] Result<Frame> try_receive(StreamView stream, Deadline wait_until);
  [[nodiscard]] Result<Frame> receive(StreamView stream, Deadline deadline);
  [[nodiscard]] Result<int> readiness_fd();
  void interrupt() noexcept;
  /// The Subscriber goes: no new frames, no new sessions; frames that are held live on.
  void shut_down() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return attacher_->name(); }
  [[nodiscard]] Format format() const;
  [[nodiscard]] DeviceId device() const;
  [[nodiscard]] std::uint32_t granted_queue_depth() const noexcept;
  [[nodiscard]] SubscriberStatistics statistics() const;

  // For Attacher, from its threads.
  void attached(std::shared_ptr<SubscriberSession> session);
  void attach_failed(const Error& why);

  // For Readiness.
  /// Blocks until a frame or an outcome may be there, or `stop`.
  void wait_for_news(const std::atomic<bool>& stop);
  /// Wakes whoever sleeps, to look again.
  void wake() noexcept;

 private:
  SubscriberCore(std::shared_ptr<runtime::ProcessState> process, const SubscriberOptions& options);
  /// A receive by stream: the frame may be one that is not complete.
  struct StreamOrder {
    StreamView stream;
    Deadline wait_until;
    /// The session whose device was asked about the stream; another one may be its neighbour's.
    std::weak_ptr<const SubscriberSession> checked;

    [[nodiscard]] bool fits(const std::shared_ptr<SubscriberSession>& session) const noexcept {
      return !checked.owner_before(session) && !session.owner_before(checked);
    }
  };
  /// What a look brought, and what is to be done with it outside the mutex.
  struct Catch {
    Frame frame;
    std::uint64_t ticket = 0;
    bool is_copied_already = false;  ///< its copy was started by a call before
    bool pending = false;            ///< empty, but a frame is submitted, or being copied
    std::shared_ptr<SubscriberSession> unchecked;  ///< set: no frame; it has not seen the stream
    std::shared_ptr<SubscriberSession> overdue;    ///< set: is its device still at work?
  };
  /// A frame that was taken by CPU and is being copied. Dropped, it is given back behind the copy.
  struct Copying {
    Frame frame;
    Deadline health_at;  ///< when its device is to be asked after
  };
  /// `order` null: complete frames only.
  [[nodiscard]] Result<void> take_once(const StreamOrder* order, Catch& caught);
  [[nodiscard]] Result<void> take_copying_locked(const StreamOrder* order, Catch& caught);
  /// The same, and the stream of `order` is made to wait. Never blocks. `pending`: as in Catch.
  [[nodiscard]] Result<Frame> receive_once(StreamOrder* order, bool& pending);
  /// What a frame that was taken needs before the caller gets it. Codes: driver, wrong_state.
  [[nodiscard]] Result<void> hand_over(Catch& caught, const StreamOrder* order);
  [[nodiscard]] bool is_copied(const Frame& frame) const noexcept;
  /// A receive by CPU has something to do with the frame that is being copied; there is one.
  [[nodiscard]] bool has_copying_news_locked() const noexcept;
  /// Whether the device that copies works; if not, what it copies is lost. Codes: driver.
  [[nodiscard]] Result<void> check_copying(SubscriberSession& session);
  [[nodiscard]] Result<Frame> receive_now(StreamOrder* order);
  [[nodiscard]] Result<Frame> receive_until(StreamOrder* order, Deadline deadline);
  /// Whether a receive by stream can be. Codes: invalid_argument.
  [[nodiscard]] Result<void> check_order(const StreamOrder& order) const;
  [[nodiscard]] Result<void> wait_attached(const os::RuntimeDirectory& directory,
                                           Deadline deadline);
  using Sessions = std::vector<std::shared_ptr<SubscriberSession>>;
  // Under the mutex. What is dropped must end outside it.
  [[nodiscard]] Error report_end_locked(SubscriberSession::End end, Sessions& dropped);
  [[nodiscard]] Error explain_revoked(Error error, bool is_lease) const;
  /// The generation after the current one, once it has taken its place; else null.
  [[nodiscard]] SubscriberSession* successor_locked() const noexcept;
  /// Goes on with it if the current one is replaced and read.
  void settle_locked(Sessions& dropped);
  void move_on_locked(Sessions& dropped);
  void queue_locked(std::shared_ptr<SubscriberSession> session, Sessions& dropped);
  [[nodiscard]] const SubscriberSession* newest_locked() const noexcept;
  /// Nothing is attached: empty, or what keeps the next publisher from us.
  [[nodiscard]] Error nobody_locked();
  void fill(Frame& frame, const Taken& taken);
  void sleep(Deadline deadline, std::uint32_t interrupts, const std::atomic<bool>* stop);
  void count_path_locked(const SubscriberSession& session) noexcept {
    if (session.path() == MemoryPath::legacy_handle) ++totals_.legacy_imports;
  }

  const std::shared_ptr<runtime::ProcessState> process_;
  const SubscriberOptions options_;
  std::shared_ptr<Attacher> attacher_;

  mutable std::mutex mutex_;
  std::shared_ptr<SubscriberSession> current_;
  /// First the later generations of the current one's publisher, then the next publisher's.
  std::deque<std::shared_ptr<SubscriberSession>> next_;
  /// In the order in which they were taken; nothing else is taken by CPU meanwhile.
  std::deque<Copying> copying_;
  std::optional<Error> attach_error_;  ///< of the latest search; none while attached
  bool attach_error_told_ = false;     ///< by a receive
  bool end_reported_ = false;
  bool shut_down_ = false;
  // Of the session that was moved on to last: for a forked child, and when there is none.
  ForkValue<Format> format_;
  ForkValue<DeviceId> device_;
  std::uint32_t granted_depth_ = 0;
  SubscriberStatistics totals_;  ///< of ended sessions, and the counts that are ours alone
  AgeHistogram ages_;
  std::int64_t last_age_publish_ns_ = 0;

  bool bell_taken_ = false;           ///< a thread sleeps on a session's bell
  std::uint32_t bell_followers_ = 0;  ///< threads that sleep on news_ because of that
  /// Futex of this process, for sleeps without a bell: bumped by attached, failed, interrupt, and
  /// by the thread that leaves the bell.
  std::atomic<std::uint32_t> news_{0};
  std::atomic<std::uint32_t> interrupts_{0};
  std::mutex readiness_mutex_;
  std::shared_ptr<Readiness> readiness_;
  std::atomic<bool> has_readiness_{false};
};

}  // namespace vramlink::inline v0::channel
