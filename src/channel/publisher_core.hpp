// What a Publisher is behind its pointer: slots, name, and the connections of its subscribers.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>

#include "channel/inert.hpp"
#include "channel/slot_ring.hpp"
#include "link/endpoint.hpp"
#include "os/futex.hpp"
#include "os/group_directory.hpp"
#include "runtime/process_state.hpp"
#include "wire/messages.hpp"

namespace vramlink::inline v0::channel {

class Attachment;
class SlotCopies;

/// Owned by the Publisher and by every WritableFrame. Thread-safe.
class PublisherCore : public std::enable_shared_from_this<PublisherCore> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<PublisherCore>> open(const Runtime& runtime,
                                                                   std::string_view name,
                                                                   const Format& format,
                                                                   const PublisherOptions& options);
  PublisherCore(const PublisherCore&) = delete;
  PublisherCore& operator=(const PublisherCore&) = delete;
  ~PublisherCore();

  /// What a slot is claimed for.
  struct Purpose {
    StreamView stream;  ///< whose work comes first
    /// A copy of this: if it is not one frame's bytes, the claim fails with invalid_argument.
    const std::span<const std::byte>* source = nullptr;
  };
  [[nodiscard]] Result<WritableFrame> try_claim(const Purpose& purpose);
  [[nodiscard]] Result<WritableFrame> claim(const Purpose& purpose, Deadline deadline);
  /// A frame that is left with its owner when this fails is the owner's to abandon. The way to the
  /// store of `newest` is short: a frame is not moved on it.
  [[nodiscard]] Result<Receipt> publish(WritableFrame& frame, StreamView stream,
                                        const FrameInfo& info);
  void abandon(const WritableFrame& frame) noexcept;
  /// Into a frame that was claimed for it; else as publish().
  [[nodiscard]] Result<Receipt> publish_copy(WritableFrame& frame,
                                             std::span<const std::byte> source, StreamView stream,
                                             const FrameInfo& info);
  [[nodiscard]] Result<void> resize(const Format& format, Deadline deadline,
                                    const ResizeOptions& options);
  [[nodiscard]] Result<void> wait_for_subscribers(std::uint32_t count, Deadline deadline);
  [[nodiscard]] Result<void> close(Deadline deadline);
  /// Announces the end and gives the name back, without waiting. Idempotent.
  void shut_down() noexcept;
  void interrupt() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Format format() const noexcept;
  [[nodiscard]] PublisherStatistics statistics() const;

  // For Attachment, on the reactor's thread.
  /// Of the generation that is published in now. Any thread.
  [[nodiscard]] std::shared_ptr<SlotRing> ring() const noexcept {
    const std::lock_guard lock(ring_mutex_);
    return ring_;
  }
  /// Of the one that is about to take its place, which all members are to follow; else null.
  [[nodiscard]] const std::shared_ptr<SlotRing>& next_ring() const noexcept { return next_ring_; }
  [[nodiscard]] const std::shared_ptr<Parking>& parking() const noexcept { return parking_; }
  /// Frames that one subscriber may hold.
  [[nodiscard]] std::uint32_t held_count_max(std::uint32_t slot_count) const noexcept {
    return options_.held_count_max != 0 ? std::min(options_.held_count_max, slot_count)
                                        : slot_count - 1;
  }
  /// Slots that this publisher may come to have by itself.
  [[nodiscard]] std::uint32_t slot_count_max(std::uint32_t slot_count) const noexcept {
    return std::max(options_.slot_count_max, slot_count);
  }
  /// Names one subscriber among those of this publisher.
  [[nodiscard]] std::uint64_t new_subscriber() noexcept { return ++subscribers_; }
  [[nodiscard]] runtime::ProcessState& process() noexcept { return *process_; }
  /// The device has refused something: the janitor asks whether it works at all. Any thread.
  void suspect_device() noexcept { suspect_.store(true, std::memory_order_relaxed); }
  /// Whether one more may begin to attach. Codes: resource_exhausted, with the numbers.
  [[nodiscard]] Result<void> check_places(bool stream_ordered);
  [[nodiscard]] Result<void> check_observers();
  /// A new member was added to a ring.
  void count_newcomer() noexcept { add(counters_.subscribers_ever); }
  /// After GO was sent: wait_for_subscribers() counts it from here on.
  void welcome(Member& member, wire::MemoryKind kind) noexcept;
  enum class Leave : std::uint8_t { farewell, died, revoked, evicted };
  /// A member goes: to be called before its entries in the rings are removed.
  void count_leave(Leave how) noexcept;
  void forget(const Attachment& attachment);
  void wake_claimers() noexcept;
  /// Who waits for slots or for members looks again.
  void members_changed();
  [[nodiscard]] wire::Status status() const;

 private:
  /// One sleep until a slot may be free: counted as a waiter from construction to destruction, with
  /// the bells as they were before the caller looks at the slots (never after: a ring between the
  /// look and the load would be missed).
  class Sleep {
   public:
    explicit Sleep(PublisherCore& core);
    ~Sleep();
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;
    /// `nap_ns` caps the sleep where a GPU may free a slot, which rings nothing: a subscriber
    /// releases by stream, or `work_pending` when the caller looked at the slots.
    void wait(Deadline deadline, bool work_pending, std::int64_t nap_ns);

   private:
    PublisherCore& core_;
    const std::shared_ptr<SlotRing> ring_;
    const std::shared_ptr<const Membership> members_;
    std::array<os::FutexWaiter, wire::kSubscriberCountMax + 1> waiters_;
    std::size_t count_ = 0;
    bool stale_ = false;
  };
  struct Counters {
    std::atomic<std::uint64_t> published{0};
    std::atomic<std::uint64_t> abandoned{0};
    std::atomic<std::uint64_t> refused_full{0};
    std::atomic<std::uint64_t> timed_out{0};
    std::atomic<std::uint64_t> subscribers_ever{0};
    std::atomic<std::uint64_t> subscribers_died{0};
    std::atomic<std::uint64_t> subscribers_revoked{0};
    std::atomic<std::uint64_t> subscribers_evicted{0};
    std::atomic<std::uint64_t> resizes{0};  ///< that somebody has called for
    std::atomic<std::uint64_t> replacements{0};
    std::atomic<std::uint64_t> growths{0};
    std::atomic<std::uint64_t> legacy_imports{0};
  };
  /// The turn of a renewal, on its way from thread to thread.
  class RenewalTurn;
  /// A generation that the publisher makes by itself, in the background:
  ///   begin_renewal --built on the janitor--> announced --its members have come, or 500 ms-->
  ///   ready --no slot is claimed, or (there are too few) 500 ms--> in place
  struct Renewal {
    std::shared_ptr<SlotRing> before;
    SlotRing::Want want;
    std::shared_ptr<SlotRing> next{};  ///< once it is announced
    Deadline patience = kForever;      ///< for members, and for frames that are claimed
    runtime::WatchId timer = 0;
  };
  /// Who may make the next generation.
  enum class Turn : std::uint8_t { free, resize, renewal };

  PublisherCore(std::shared_ptr<runtime::ProcessState> process, std::string name,
                const os::DirectoryUsers& users, const PublisherOptions& options,
                std::shared_ptr<SlotRing> ring);
  [[nodiscard]] Result<void> start(std::unique_ptr<link::Endpoint> endpoint);
  void accept(os::Socket socket, bool refused_for_fds);
  [[nodiscard]] Result<WritableFrame> claim_once(const Purpose& purpose, SlotRing::Look& look);
  /// Codes: invalid_argument (not one frame's bytes).
  [[nodiscard]] Result<void> check_source(std::span<const std::byte> source,
                                          std::uint64_t frame_bytes) const;
  [[nodiscard]] Result<void> check_publish(const WritableFrame& frame, const FrameInfo& info) const;
  /// READY is enqueued.
  [[nodiscard]] Result<Receipt> make_visible(WritableFrame& frame, const FrameInfo& info,
                                             std::int64_t publish_ns);
  [[nodiscard]] Result<Receipt> publish_device_copy(WritableFrame& frame,
                                                    std::span<const std::byte> source,
                                                    StreamView stream, const FrameInfo& info);
  void prepare_copies(const std::shared_ptr<SlotRing>& ring, std::uint64_t set);
  /// The current one and those before that are in use still.
  [[nodiscard]] std::vector<std::shared_ptr<SlotRing>> rings() const;
  /// Ends the current one, even if it is just replaced.
  void end_ring(wire::ChannelState state) noexcept;
  // The steps of resize().
  /// Codes: wrong_state, interrupted, timed_out.
  [[nodiscard]] Result<void> take_turn(Deadline deadline);
  /// Until there are not too many generations for one more. Codes: resource_exhausted, closed,
  /// driver, interrupted.
  [[nodiscard]] Result<void> wait_for_room(Deadline deadline);
  void free_turn() noexcept;
  [[nodiscard]] Result<void> resize_once(const Format& format, Deadline deadline,
                                         const ResizeOptions& options);
  /// Any thread but the reactor's. Codes: as Generation::create().
  [[nodiscard]] Result<std::shared_ptr<SlotRing>> build_after(const SlotRing& before,
                                                              const Format& format,
                                                              std::uint32_t slot_count) const;
  [[nodiscard]] FullPolicy policy() const noexcept {
    return {options_.when_full, options_.lease, options_.slot_count_max};
  }
  /// Room for one more in replaced_: for who has the turn, so that the change itself allocates
  /// nothing.
  void reserve_place();
  /// Lets all members follow; on return each of them has an entry in `next`. Codes: out_of_memory,
  /// and then none of them has heard of it.
  [[nodiscard]] Result<void> announce(const std::shared_ptr<SlotRing>& next);
  /// On the reactor. Throws what allocating throws, and then none of them has heard of it.
  void let_follow(const std::shared_ptr<SlotRing>& next);
  /// On the reactor: each hears of the generation that is next for it.
  static void let_go_on(const std::vector<std::shared_ptr<Attachment>>& all) noexcept;
  /// Codes: interrupted; a deadline that passes is none.
  [[nodiscard]] Result<void> wait_for_members(const SlotRing& next, Deadline deadline);
  /// Codes: full (with `only_unclaimed`: a slot is claimed), closed, driver.
  [[nodiscard]] Result<void> put_in_place(const std::shared_ptr<SlotRing>& next,
                                          std::atomic<std::uint64_t>& counter,
                                          bool only_unclaimed = false);
  /// Looks every 100 ms, on the janitor, whether a device that is late still works.
  void watch_device();
  void check_device();
  void fail(const Error& why);
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_acquire);
  }
  /// Why there are no more claims and publishes: closed, or the device's error.
  [[nodiscard]] Error end_error(const char* operation) const;
  /// On the reactor, soon.
  void for_each_attachment(std::function<void(Attachment&)> action);
  [[nodiscard]] std::vector<std::shared_ptr<Attachment>> attachments();
  [[nodiscard]] Result<WritableFrame> sleep_and_claim(const Purpose& purpose, Deadline deadline,
                                                      std::int64_t nap_ns, std::uint32_t interrupts,
                                                      SlotRing::Look& last);
  /// Why a claim found no slot, counted.
  [[nodiscard]] Error refuse_claim(bool by_deadline) noexcept;
  /// On the reactor, soon: members that claims found to be in the wrong go, and other slots come
  /// where they are wanted.
  void take_care();
  // The steps of a renewal, on the reactor but for the last.
  void begin_renewal();
  void announce_renewal(RenewalTurn& turn, const Result<std::shared_ptr<SlotRing>>& built);
  void settle_renewal();
  /// Any thread: there will be none now, and `before` goes on.
  void give_up_renewal(SlotRing& before, const Error& why) noexcept;
  void forget_renewal_if_over() noexcept;
  /// Any thread. `at_once`: also while slots are claimed.
  void finish_renewal(bool at_once);
  void limit_silent();
  static void add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool queues_drained() const;

  const std::shared_ptr<runtime::ProcessState> process_;
  const std::string name_;
  const os::DirectoryUsers users_;
  const PublisherOptions options_;
  const std::int64_t start_ns_;
  const std::shared_ptr<Parking> parking_;
  mutable std::mutex ring_mutex_;  ///< below the rings' own; held for the pointers alone
  std::shared_ptr<SlotRing> ring_;
  ForkValue<Format> format_;  ///< of ring_; changed with it
  std::vector<std::weak_ptr<SlotRing>> replaced_;
  std::atomic<Turn> turn_{Turn::free};
  std::atomic<bool> renewal_over_{false};   ///< renewal_ is in place, or was given up
  std::atomic<bool> renewal_ready_{false};  ///< a claim that finds it puts it in place
  std::mutex renewal_mutex_;                ///< above those of the rings
  std::shared_ptr<SlotRing> ready_;         ///< under it
  bool ready_grows_ = false;
  std::atomic<bool> caring_{false};  ///< take_care() is on its way
  mutable Counters counters_;
  std::atomic<std::uint32_t> interrupts_{0};
  /// Futex of this process: bumped with every change of the membership, close and interrupt.
  std::atomic<std::uint32_t> local_bell_{0};

  std::atomic<bool> suspect_{false};  ///< the device has refused something
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> shut_down_{false};
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;

  std::mutex attachments_mutex_;
  std::map<const Attachment*, std::shared_ptr<Attachment>> attachments_;
  // On the reactor's thread only.
  std::deque<std::weak_ptr<Attachment>> newcomers_;  ///< who may not have said HELLO yet
  std::shared_ptr<SlotRing> next_ring_;
  std::optional<Renewal> renewal_;
  std::uint64_t subscribers_ = 0;
  std::mutex endpoint_mutex_;
  std::unique_ptr<link::Endpoint> endpoint_;
};

/// For tests: false lets claims sleep until somebody rings, so that a ring that is missed hangs.
void limit_claim_sleeps(bool limited) noexcept;

}  // namespace vramlink::inline v0::channel
