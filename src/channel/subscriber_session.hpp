// The subscriber's side of one generation: taking frames, holding them, letting go.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>

#include "channel/local_copies.hpp"
#include "channel/session_link.hpp"
#include "channel/stream_work.hpp"
#include "runtime/import_registry.hpp"
#include "runtime/process_state.hpp"
#include "wire/layout_v1.hpp"
#include "wire/segment_check.hpp"

namespace vramlink::inline v0::channel {

/// A frame that was taken: its header as it stands while the hold lasts.
struct Taken {
  std::uint32_t slot_index = 0;
  std::uint64_t sequence = 0;
  std::uint64_t hold_number = 0;
  std::uint64_t ticket = 0;
};

/// Owned by the Subscriber while it is current and by every Frame of it. The last of them says
/// farewell; the janitor unmaps. The shared words are untrusted: what they say is held against what
/// was checked at attach. When the publisher replaces the generation, the next session of the same
/// link goes on.
class SubscriberSession {
 public:
  /// What attaching made.
  struct Parts {
    std::shared_ptr<runtime::ProcessState> process;
    std::shared_ptr<SessionLink> link;
    runtime::SharedView broadcast;
    runtime::SharedView words;
    runtime::SharedView payload;
    DeviceId device;                              ///< whose work reads the frames here
    MemoryPath path = MemoryPath::shared_memory;  ///< by which the payload came
    std::unique_ptr<LocalCopies> copies;          ///< null: they are read in place
    wire::BroadcastFacts facts;
    wire::PrivateFacts granted;
    std::uint64_t first_cursor = 0;  ///< the last sequence that we are not given
    backend::Backend* backend = nullptr;
    std::shared_ptr<StreamWork> stream_work;  ///< null: receives by CPU only
    std::shared_ptr<void> connection_owner;   ///< hears of the publisher's end while we live
  };
  using Fate = channel::Fate;
  /// The publisher's end: what to report once there is no frame left to take.
  struct End {
    Code code;
    bool pending_too;       ///< frames that are not complete now never will be
    bool is_lease = false;  ///< of revoked: for a hold beyond its lease; what is held is ours
  };
  /// What a look at the channel found.
  enum class Look : std::uint8_t {
    taken,    ///< a frame
    nothing,  ///< no frame beyond the cursor
    pending,  ///< one is submitted, its work not complete (or its claim is being undone)
    full,     ///< held_count_max frames are held
    corrupt,  ///< the publisher wrote what the protocol forbids
  };

  [[nodiscard]] static std::shared_ptr<SubscriberSession> make(Parts parts);
  /// On the janitor.
  ~SubscriberSession();
  /// Its last owner has gone. Says farewell, unless streams have yet to release what it holds.
  void let_go() noexcept;
  /// On the janitor, when nobody has it any more: no stream works for it.
  [[nodiscard]] bool may_end();
  SubscriberSession(const SubscriberSession&) = delete;
  SubscriberSession& operator=(const SubscriberSession&) = delete;

  // take_latest, take_queued and has_news: under the Subscriber's mutex.
  // `submitted`: also a frame that is not complete, if its READY writes my_ready.
  [[nodiscard]] Look take_latest(Taken& taken, bool submitted = false);
  [[nodiscard]] Look take_queued(Taken& taken, bool submitted = false);
  /// To be asked before a look, so that no frame published before the end is missed.
  [[nodiscard]] std::optional<End> end() const noexcept;
  /// The next generation has taken this one's place: no frame comes here any more, and this alone
  /// is no end. To be asked before a look, as that.
  [[nodiscard]] bool is_replaced() const noexcept;
  /// Nothing is left to take here that `next`, which follows, should wait for.
  [[nodiscard]] bool is_through(const SubscriberSession& next) const noexcept;
  /// Replaced before anything was published.
  [[nodiscard]] bool is_void() const noexcept;
  /// After its end, which was asked for before: no frame is left that anybody could be given.
  [[nodiscard]] bool is_drained(const End& end) const noexcept;
  /// Takes over from the session before, which takes no more. Both of one link; before the first
  /// look here. What was not taken there counts as skipped or lost.
  void go_on_after(SubscriberSession& before) noexcept;
  /// Something for receive() to look at. seq_cst: the look of a sleeper that has set its bell.
  [[nodiscard]] bool has_news() const noexcept;
  /// A look would find a complete frame (with `in_order`: the next one is complete).
  [[nodiscard]] bool finds_frame(bool in_order) const noexcept;
  /// The same, or the end, or that the publisher's words are nonsense.
  [[nodiscard]] bool has_complete_news(bool in_order) const noexcept;
  /// All holds are used, and a stream has yet to release one, which rings nothing. Counts those
  /// that it has released.
  [[nodiscard]] bool awaits_release() noexcept;

  /// From any thread; once a hold. Makes a system call only if the publisher sleeps for it.
  void release(std::uint32_t slot_index, std::uint64_t hold_number) noexcept;

  /// Makes `stream` wait for a frame that was taken, if it is not complete; true: it waits.
  /// Codes: driver, wrong_state; the frame is still held then.
  [[nodiscard]] Result<bool> order(const Taken& taken, StreamView stream, Deadline deadline);
  /// The release of a frame once the streams that used it have got there. Codes: driver,
  /// wrong_state; the frame is still held then.
  [[nodiscard]] Result<void> release_behind(StreamView last_user, StreamView stream,
                                            std::uint32_t slot_index, std::uint64_t hold_number);
  /// The same for a frame that is dropped: it never fails, but the hold may stay for good.
  void drop_behind(StreamView last_user, std::uint32_t slot_index,
                   std::uint64_t hold_number) noexcept;
  /// Whether `stream` can be passed. Codes: wrong_state.
  [[nodiscard]] Result<void> check_stream(StreamView stream) const;

  /// From the reactor: no new frames, and whoever sleeps looks again.
  void set_fate(Fate fate) noexcept;
  /// Our device has failed.
  void set_failure(const Error& why) noexcept;
  /// Wakes our own sleeper.
  void ring_own_bell() noexcept;
  /// Tells the publisher that no new frames will be taken here. After the last take.
  void leave() noexcept;

  [[nodiscard]] wire::AtomicU32& bell() noexcept { return words_->bell; }
  [[nodiscard]] const wire::SlotHeader& header(std::uint32_t slot_index) const noexcept {
    return broadcast_->slot[slot_index];
  }
  /// Where the frame is read: in the slot, or in the copy of it.
  [[nodiscard]] const std::byte* slot_data(std::uint32_t slot_index) const noexcept {
    return parts_.copies ? parts_.copies->data(slot_index) : payload_data(slot_index);
  }
  [[nodiscard]] bool copies_frames() const noexcept { return parts_.copies != nullptr; }
  // Where frames are copied: of one that was taken. Codes: as Backend::copy; the frame is still
  // held then.
  /// Copies it in the order of a stream of the caller's.
  [[nodiscard]] Result<void> copy_frame(std::uint32_t slot_index, StreamView stream);
  /// Copies it beside, on copies_stream(). Never waits. What failed may run there all the same.
  [[nodiscard]] Result<void> start_copy(std::uint32_t slot_index, std::uint64_t hold_number);
  [[nodiscard]] StreamView copies_stream() const noexcept { return parts_.copies->stream(); }
  [[nodiscard]] bool is_copied(std::uint32_t slot_index, std::uint64_t hold_number) const noexcept {
    return parts_.copies->is_done(slot_index, hold_number);
  }
  /// Work put into `stream` from now on starts when what start_copy() began is complete.
  [[nodiscard]] Result<void> order_behind_copies(StreamView stream);
  /// Codes: as Backend::check_health.
  [[nodiscard]] Result<void> check_health() const { return parts_.backend->check_health(); }
  [[nodiscard]] const DeviceId& device() const noexcept { return parts_.device; }
  [[nodiscard]] MemoryPath path() const noexcept { return parts_.path; }
  /// Null without stream order.
  [[nodiscard]] const std::shared_ptr<StreamWork>& stream_work() const noexcept {
    return parts_.stream_work;
  }
  /// Why our device failed, if it did.
  [[nodiscard]] std::optional<Error> failure() const;
  [[nodiscard]] const std::shared_ptr<SessionLink>& link() const noexcept { return parts_.link; }
  [[nodiscard]] const wire::BroadcastFacts& facts() const noexcept { return parts_.facts; }
  [[nodiscard]] const wire::PrivateFacts& granted() const noexcept { return parts_.granted; }
  // Counters, under the Subscriber's mutex.
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  enum class Attempt : std::uint8_t { taken, lost, incomplete };
  explicit SubscriberSession(Parts parts) noexcept;
  [[nodiscard]] Attempt take(std::uint32_t slot_index, std::uint64_t sequence, bool submitted,
                             Taken& taken);
  void say_farewell(wire::ByeReason reason) noexcept;
  void reap() noexcept;
  void count_release(std::uint64_t count) noexcept;
  [[nodiscard]] const std::byte* payload_data(std::uint32_t slot_index) const noexcept {
    return parts_.payload.data + parts_.facts.slot_pitch * slot_index;
  }
  static void watch_device(const std::shared_ptr<SubscriberSession>& session);
  void check_device();
  /// Complete, or (with `submitted`) a stream of ours can wait for it.
  [[nodiscard]] bool is_usable(std::uint32_t slot_index, std::uint64_t ticket,
                               bool submitted) const noexcept {
    if (parts_.stream_work && parts_.stream_work->is_releasing(slot_index)) return false;
    return is_ready(slot_index, ticket) || (submitted && ticket >= parts_.granted.first_ticket);
  }
  [[nodiscard]] bool hold(std::uint32_t slot_index, std::uint64_t sequence) noexcept;
  [[nodiscard]] bool is_ready(std::uint32_t slot_index, std::uint64_t ticket) const noexcept;
  [[nodiscard]] bool valid(std::uint64_t packed) const noexcept;
  void give_up(std::uint32_t slot_index, std::uint64_t hold_number) noexcept;
  void ring_free_bell() noexcept;
  void fetch(std::uint32_t slot_index) const noexcept;
  [[nodiscard]] std::uint64_t held_count() const noexcept {
    return received_ - released_count_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] bool is_full() noexcept;
  void advance(std::uint64_t sequence, std::uint64_t& gaps) noexcept;

  Parts parts_;
  const wire::Broadcast* const broadcast_;
  wire::Private* const words_;
  std::uint64_t cursor_;
  std::uint64_t hold_number_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t lost_ = 0;
  /// Of the sessions before, for display at the publisher.
  struct Reported {
    std::uint64_t received = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t skipped = 0;
    std::uint64_t lost = 0;
  };
  [[nodiscard]] Reported reported() const noexcept;
  Reported before_;
  std::atomic<std::uint64_t> released_count_{0};
  /// A look found a frame and no right to one more hold: the next release is news.
  std::atomic<bool> full_{false};
  std::atomic<Fate> fate_{Fate::live};
  std::atomic<bool> left_{false};
  std::atomic<bool> superseded_{false};  ///< the next session takes the new frames
  std::atomic<bool> farewell_said_{false};
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
};

}  // namespace vramlink::inline v0::channel
