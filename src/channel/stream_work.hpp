// What streams of this process still do with the slots of one session: waits for frames that are
// not complete, and releases that are not reached. Sections 8 and 10 of the protocol.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>

#include "backend/backend.hpp"
#include "channel/parking.hpp"
#include "runtime/process_state.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::inline v0::channel {

/// Whether a stream was let go on without the frame that it waited for. Set once, and never taken
/// back: after a wait was ended by hand, nothing that its word says later makes the frame valid.
struct Verdict {
  std::atomic<bool> aborted{false};
};

/// Of a session that receives in stream order. Owned by it and by every receipt of a release;
/// outlives it while a stream has yet to get past something. The reactor steps it when the
/// publisher is gone or a deadline has passed, so its mutex is never held over a back-end call.
/// Thread-safe.
class StreamWork : public std::enable_shared_from_this<StreamWork> {
 public:
  struct Parts {
    std::shared_ptr<runtime::ProcessState> process;
    /// Declared before the pages: where it is the last to have them, they must not outlive it here.
    std::shared_ptr<Parking> parking;
    backend::Backend* backend = nullptr;
    runtime::SharedView broadcast;
    ControlPages words;
    std::shared_ptr<backend::RegisteredWords> my_ready;
    std::shared_ptr<backend::RegisteredWords> released;
    std::uint32_t slot_count = 0;
  };

  explicit StreamWork(Parts parts);
  ~StreamWork();
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;

  /// Makes `stream` wait for the frame of a slot that is held, until the deadline at the latest.
  /// Codes: driver (it may wait all the same, until the deadline), wrong_state (nothing waits).
  [[nodiscard]] Result<void> wait(StreamView stream, std::uint32_t slot_index, std::uint64_t ticket,
                                  Deadline deadline);
  /// Stores the hold number to `released` behind `last_user`, if that is another stream, and
  /// `stream`. Codes: driver, wrong_state; then the slot is still held.
  [[nodiscard]] Result<void> release(StreamView last_user, StreamView stream,
                                     std::uint32_t slot_index, std::uint64_t hold_number);
  /// No stream can be made to release this hold: it stands until the session's process ends.
  void forsake(std::uint32_t slot_index, std::uint64_t hold_number) noexcept;
  /// The verdict on the latest wait for a slot. While the hold that waited stands, it is its own.
  [[nodiscard]] std::shared_ptr<const Verdict> verdict(std::uint32_t slot_index) const noexcept;
  [[nodiscard]] bool has_released(std::uint32_t slot_index,
                                  std::uint64_t hold_number) const noexcept {
    // Pairs with the device's store: what read the slot has been done.
    return words_->released[slot_index].load(std::memory_order_acquire) >= hold_number;
  }

  /// A stream has yet to release the slot, whatever the publisher has put there since: no honest
  /// one has put anything.
  [[nodiscard]] bool is_releasing(std::uint32_t slot_index) const noexcept {
    const std::uint64_t hold = last_release_[slot_index].load(std::memory_order_relaxed);
    return hold != 0 && !has_released(slot_index, hold);
  }
  /// Releases that were reached since the last call.
  [[nodiscard]] std::uint32_t reap() noexcept;
  /// Some stream has yet to release a slot.
  [[nodiscard]] bool has_pending_releases() const noexcept;
  /// No stream waits or has yet to release anything.
  [[nodiscard]] bool is_idle() noexcept;
  /// Something has been under way since before `time_ns`.
  [[nodiscard]] bool has_work_since(std::int64_t time_ns) const noexcept;
  [[nodiscard]] std::uint64_t aborted_count() const noexcept {
    return aborted_count_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] backend::Backend& backend() const noexcept { return *parts_.backend; }
  /// The device has refused something since the last call: reason to ask whether it works.
  [[nodiscard]] bool take_suspicion() noexcept {
    return suspect_.exchange(false, std::memory_order_relaxed);
  }

  /// From the reactor: READY may never come any more. Ends all waits, those to come as well.
  void set_gone() noexcept;

 private:
  struct Wait {
    std::uint64_t ticket = 0;  ///< 0: none
    std::int64_t deadline_ns = 0;
    std::int64_t since_ns = 0;
    std::shared_ptr<Verdict> verdict;
  };
  struct Release {
    std::uint64_t hold_number = 0;  ///< 0: none
    std::int64_t since_ns = 0;
  };

  // Under the mutex.
  void list_release(std::uint32_t slot_index, std::uint64_t hold_number) noexcept;
  [[nodiscard]] std::shared_ptr<Verdict> take_verdict();
  void end_wait(std::uint32_t slot_index, Wait& wait) noexcept;
  [[nodiscard]] bool has_passed(std::uint32_t slot_index, const Wait& wait) const noexcept;
  /// The watchdog: ends the waits that are due. Returns when it must look again.
  [[nodiscard]] Deadline step_locked(std::int64_t now_ns) noexcept;
  void step();
  void arm(Deadline when);

  Parts parts_;
  const wire::Broadcast* const broadcast_;
  wire::Private* const words_;
  std::atomic<bool> flag_set_{false};  ///< kReleasesByStream
  std::atomic<bool> gone_{false};
  std::atomic<bool> suspect_{false};
  std::atomic<std::uint64_t> aborted_count_{0};
  std::array<std::atomic<std::uint64_t>, kSlotCountMax> last_release_{};  ///< hold numbers

  mutable std::mutex mutex_;
  std::array<Wait, kSlotCountMax> waits_;
  std::array<Release, kSlotCountMax> releases_;
  std::uint32_t reached_ = 0;  ///< releases of slots that were released once more before a reap
  std::vector<std::shared_ptr<Verdict>> verdicts_;  ///< reused once nobody else has one
  runtime::WatchId timer_ = 0;
  Deadline timer_at_ = kForever;
};

}  // namespace vramlink::inline v0::channel
