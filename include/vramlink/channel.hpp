// Frames from one process to many: Publisher, Subscriber and the frames that they hand out.
//
//   publisher: try_claim | claim -> WritableFrame -> publish          (or dropped: abandoned)
//   subscriber: try_receive | receive -> Frame -> release             (or dropped: released)
#ifndef VRAMLINK_CHANNEL_HPP
#define VRAMLINK_CHANNEL_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/export.hpp>
#include <vramlink/format.hpp>
#include <vramlink/result.hpp>
#include <vramlink/runtime.hpp>
#include <vramlink/statistics.hpp>
#include <vramlink/stream.hpp>

namespace vramlink::inline v0 {

inline constexpr std::uint32_t kSlotCountMin = 2;
inline constexpr std::uint32_t kSlotCountMax = 64;
inline constexpr std::uint32_t kSubscriberCountMax = 64;
inline constexpr std::uint32_t kUserDataBytesMax = 256;
/// Subscribers of one channel that receive in stream order; each adds a word to every publish.
inline constexpr std::uint32_t kStreamOrderedSubscriberCountMax = 16;
/// How long a stream is made to wait for a frame unless the caller says otherwise.
inline constexpr std::chrono::seconds kStreamWaitDefault{1};

namespace channel {
class PublisherCore;
class SlotRing;
class SubscriberCore;
class StreamWork;
class SubscriberSession;
struct Generation;
struct Verdict;
}  // namespace channel

/// What a claim does when every slot is held, queued or in work.
enum class WhenFull : std::uint8_t {
  drop,   ///< fail with full at once: the frame is the publisher's loss, nobody waits
  block,  ///< wait for the deadline: no queue subscriber ever loses a frame
  /// As drop, but who has held a frame for the lease when a claim wants its slot is disconnected:
  /// its calls end with revoked. What it holds stays as it is; the slots are missing until it lets
  /// go, and if fewer than two are left, new ones take the place of all.
  evict,
};

/// Whether memory of a GPU may go to subscribers by the driver's legacy IPC handles instead of file
/// descriptors. Slower to attach; every subscriber could write into the frames, since nothing makes
/// such a mapping read-only; a subscriber must run in the publisher's pid namespace and on its GPU;
/// and whoever learns a handle can open it. Some virtual GPUs have nothing better.
enum class LegacyHandles : std::uint8_t {
  never,
  if_needed,  ///< where the GPU's memory cannot go by descriptors
  always      ///< for a program that cannot take descriptors, and for tests
};

struct PublisherOptions {
  /// 2 to 64. The newest complete frame is never overwritten, so that a newcomer finds one: claims
  /// never fail with 1 + all that subscribers may hold + all that are claimed or not complete yet.
  std::uint32_t slot_count = 4;
  WhenFull when_full = WhenFull::drop;
  std::uint32_t subscriber_count_max = kSubscriberCountMax;
  /// Frames that one subscriber may hold at once, whatever it asks for; 0: slot_count - 1.
  std::uint32_t held_count_max = 0;
  DeviceId device = DeviceId::host();  ///< where the slots live
  /// WhenFull::evict: how long a frame may be held, counted from the first claim that wants its
  /// slot; more than 0. A subscriber that is stopped or stuck costs its slots for so long.
  std::chrono::nanoseconds lease{std::chrono::seconds(1)};
  /// 0: the number of slots is fixed. Else slot_count to 64: where claims find no slot again and
  /// again because subscribers hold and queue more than fits, the channel gets more slots by
  /// itself, so many at most. They are made in the background, in memory of their own, as by
  /// resize(), and put in place by a claim in a moment in which no frame is claimed. The number
  /// does not shrink again by itself.
  std::uint32_t slot_count_max = 0;
  /// Of a channel on a GPU. Taken or not, statistics() says.
  LegacyHandles legacy_handles = LegacyHandles::never;
};

struct ResizeOptions {
  std::uint32_t slot_count = 0;  ///< 2 to 64; 0: as many as before
  /// How long the change waits for subscribers to be ready for it, and before that for room among
  /// the generations; one that is stopped, for example, is not waited for any longer.
  std::chrono::nanoseconds follow_within{std::chrono::milliseconds(500)};
};

/// What travels beside a frame's bytes.
struct FrameInfo {
  std::int64_t media_ns = 0;               ///< the application's own time stamp
  std::span<const std::byte> user_data{};  ///< at most 256 bytes, copied
  std::uint32_t flags = 0;                 ///< the application's own
};

/// The right to fill one slot. Move-only; dropping it abandons the slot, which costs nobody
/// anything. A moved-from or published one has null data() and may be destroyed or assigned.
class VRAMLINK_API WritableFrame {
 public:
  WritableFrame(WritableFrame&&) noexcept;
  WritableFrame& operator=(WritableFrame&&) noexcept;
  WritableFrame(const WritableFrame&) = delete;
  WritableFrame& operator=(const WritableFrame&) = delete;
  ~WritableFrame();

  /// First byte of the slot, an address of the channel's device; aligned to 4096 bytes. Holds an
  /// old frame's bytes, not zeros. Null once the frame was published or moved. Not of a temporary:
  /// the slot would be gone with it.
  [[nodiscard]] std::byte* data() const& noexcept { return slot_.data; }
  [[nodiscard]] std::byte* data() const&& = delete;
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return slot_.size_bytes; }
  [[nodiscard]] std::span<std::byte> bytes() const& noexcept {
    return {slot_.data, static_cast<std::size_t>(slot_.size_bytes)};
  }
  [[nodiscard]] std::span<std::byte> bytes() const&& = delete;
  /// The same as elements. Codes: invalid_argument (the channel has another dtype), wrong_state
  /// (the frame was published or moved).
  template <class T>
  [[nodiscard]] Result<std::span<T>> as() const&;
  template <class T>
  [[nodiscard]] Result<std::span<T>> as() const&& = delete;

 private:
  friend class channel::PublisherCore;
  struct Slot {
    std::byte* data = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t ticket = 0;
    StreamView stream = StreamView::already_complete();
    std::uint32_t index = 0;
    DType dtype = DType::uint8;
    std::shared_ptr<channel::SlotRing> ring;  ///< the slot's generation
    std::uint64_t spare = 0;
  };
  WritableFrame() noexcept = default;
  void abandon() noexcept;

  std::shared_ptr<channel::PublisherCore> core_;
  Slot slot_;
};

/// Says when the bytes of one published frame are complete. Copyable; keeps the slots' memory.
class VRAMLINK_API Receipt {
 public:
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// True once all work of the frame is complete; then a copied source may be reused. False in a
  /// forked child.
  [[nodiscard]] bool ready() const noexcept;
  /// Blocks until ready(). Codes: timed_out, driver (the device has failed), wrong_state.
  [[nodiscard]] Result<void> wait(Deadline deadline) const;

 private:
  friend class channel::PublisherCore;
  Receipt() noexcept = default;

  std::shared_ptr<const channel::Generation> generation_;
  std::uint64_t sequence_ = 0;
  std::uint64_t ticket_ = 0;
  std::uint32_t slot_index_ = 0;
  std::array<std::uint64_t, 2> spare_{};
};

/// Publishes frames under a name. One publisher a name at a time; the name is free again as soon as
/// the process ends. Move-only. The destructor announces the end of the stream and never waits.
/// Thread-safety: all members from any thread; several threads may claim and publish at once.
/// Nothing here allocates or makes a system call in steady state but to wake a sleeping subscriber,
/// and, where ordinary host memory is copied to a GPU, to look whether that memory can be read.
class VRAMLINK_API Publisher {
 public:
  /// Allocates the slots and listens. `name`: 1 to 120 of letters, digits and `._@+-`, no leading
  /// dot. May block for about a second on the runtime directory's lock, and on a GPU until its
  /// slots are zeroed. Codes: invalid_argument, already_exists (with the owner's pid),
  /// permission_denied, out_of_memory, resource_exhausted, no_driver, no_device, unsupported,
  /// driver, os, not_found (the runtime directory is gone), timed_out (its lock, or a GPU that
  /// stands still), corrupt (the name's lock is no file), wrong_state (a forked child, also of a
  /// process that used the driver).
  [[nodiscard]] static Result<Publisher> open(const Runtime& runtime, std::string_view name,
                                              const Format& format,
                                              const PublisherOptions& options = {});
  Publisher(Publisher&&) noexcept;
  Publisher& operator=(Publisher&&) noexcept;
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  ~Publisher();

  /// A slot to write into; never blocks. Work on `stream` may begin to write at once: the slot's
  /// earlier work is complete. If the frame is dropped, the slot is reused behind the work that is
  /// in `stream` then, so the stream must live until the frame is published or dropped. Codes:
  /// full, closed, driver (the device has failed, or a call of its driver), out_of_memory (of the
  /// driver), wrong_state (a forked child; a stream of another device).
  [[nodiscard]] Result<WritableFrame> try_claim(StreamView stream);
  /// The same; under WhenFull::block and evict waits for a slot, under evict also for the end of a
  /// lease. Codes: full (drop; evict, by the deadline, or at once where there is no memory for the
  /// slots that are missing), timed_out (block), closed, interrupted, driver, out_of_memory,
  /// wrong_state.
  [[nodiscard]] Result<WritableFrame> claim(StreamView stream, Deadline deadline);
  /// Makes the frame visible; complete when all work put into `stream` before, and into the claim's
  /// stream, is complete. With an already complete stream the bytes are final now, whatever stream
  /// the claim had. Consumes the frame also on failure (it is abandoned then). Never blocks. Codes:
  /// invalid_argument (user data too long, another publisher's frame), closed, stale (it was
  /// claimed before a resize; under WhenFull::evict also half a second before new slots had to
  /// take the place of lost ones), wrong_state (a stream of another device), driver, out_of_memory
  /// (of the driver).
  [[nodiscard]] Result<Receipt> publish(WritableFrame&& frame, StreamView stream,
                                        const FrameInfo& info = {});
  /// Claims, copies `source` after the work that is in `stream`, and publishes. `source` has
  /// exactly payload_bytes and is memory that the channel's device can copy from or, for the host,
  /// in this process; it may be reused when the receipt is ready. On a device the copy runs beside
  /// `stream`, which does not wait for it. Codes: those of claim and publish, invalid_argument (the
  /// size, or no such memory), out_of_memory, resource_exhausted, os.
  [[nodiscard]] Result<Receipt> try_publish_copy(std::span<const std::byte> source,
                                                 StreamView stream, const FrameInfo& info = {});
  [[nodiscard]] Result<Receipt> publish_copy(std::span<const std::byte> source, StreamView stream,
                                             Deadline deadline, const FrameInfo& info = {});

  /// Goes on with frames of another format or with another number of slots, in memory of their own:
  /// a new generation. Subscribers follow by themselves: a queue takes what it has queued first.
  /// The sequence of frames goes on. Frames that are held, receipts, and streams that wait for
  /// frames of the old memory stay valid; the old memory is freed when nobody uses it any more.
  /// Frames that were claimed before and are published after it fail with stale. Blocks until all
  /// subscribers are ready for the new memory, `follow_within` at most, and not beyond the
  /// deadline; then the change takes place. Who was late, because it is stopped for example, comes
  /// after, and under WhenFull::block it loses nothing. Claims and publishes of other threads go on
  /// meanwhile. There are 8 generations at most: while subscribers have yet to take or to release
  /// frames of so many, it waits for the end of one of them, for `follow_within` and until the
  /// deadline. If it fails, the channel goes on as it was. Codes: invalid_argument (the format or
  /// the number of slots), out_of_memory (with the bytes wanted and free), resource_exhausted (8
  /// generations, or too few descriptors), os, driver, closed, wrong_state (another resize is under
  /// way; a forked child), interrupted (only the wait for subscribers: the change has taken place;
  /// or that for the end of a generation, or for slots which the publisher is just making by
  /// itself, which come first: nothing has changed), timed_out (they were not in place by the
  /// deadline).
  [[nodiscard]] Result<void> resize(const Format& format, Deadline deadline,
                                    const ResizeOptions& options = {});

  /// Blocks until at least `count` subscribers are attached. Codes: timed_out, interrupted, closed,
  /// driver (the device has failed), wrong_state.
  [[nodiscard]] Result<void> wait_for_subscribers(std::uint32_t count, Deadline deadline);
  /// Announces the end of the stream, waits until every queue subscriber has taken what it had
  /// queued and every one that was late for a resize has come after, and gives the name back. Later
  /// calls fail with closed. Held frames stay valid. Codes: timed_out (closed all the same),
  /// interrupted and driver (likewise), wrong_state.
  [[nodiscard]] Result<void> close(Deadline deadline);
  /// Every call that blocks now, and only those, ends with interrupted. Not async-signal-safe.
  void interrupt() noexcept;

  [[nodiscard]] const std::string& name() const noexcept;
  /// Of the frames that are claimed now; a resize changes it.
  [[nodiscard]] Format format() const noexcept;
  [[nodiscard]] PublisherStatistics statistics() const;

 private:
  explicit Publisher(std::shared_ptr<channel::PublisherCore> core) noexcept;
  std::shared_ptr<channel::PublisherCore> core_;
};

/// Which of the frames that it has not seen a subscriber is given.
struct ReceivePolicy {
  std::uint32_t queue_depth = 0;  ///< 0: the newest complete frame; k: in order, up to k behind

  [[nodiscard]] static constexpr ReceivePolicy latest() noexcept { return {0}; }
  [[nodiscard]] static constexpr ReceivePolicy queue(std::uint32_t depth) noexcept {
    return {depth};
  }
};

/// Whether a subscriber on a GPU may be given a copy of each frame on its own GPU. A copy costs the
/// way between the two, and as much memory as the publisher's slots; the slot is held all the same.
/// A receive by CPU hands a frame out when its copy is complete: receive(deadline) waits for that,
/// at most until the deadline, and try_receive() says empty meanwhile. The frame is not lost then;
/// the next call gets it.
enum class CopyFrames : std::uint8_t {
  never,      ///< frames are read where they are; if that cannot be, unsupported
  if_needed,  ///< copied, through host memory, only where the two GPUs cannot reach one another
  always,     ///< copied in any case: one trip, however often a frame is read
};

struct SubscriberOptions {
  ReceivePolicy policy = ReceivePolicy::latest();
  /// Frames of one generation held at once, 1 to 63, as far as the publisher grants.
  std::uint32_t held_count_max = 2;
  bool reconnect = true;  ///< after the end or a death, wait for the next publisher of the name
  /// The device that reads the frames; by default the one that the publisher's slots live on.
  std::optional<DeviceId> device{};
  /// Needs a `device` other than the publisher's; without one nothing is copied.
  CopyFrames copy_frames = CopyFrames::never;
  /// Whether receive() can take a stream, where the device has streams. Costs the publisher a word
  /// with every frame, and 16 subscribers of a channel can have it.
  bool stream_order = true;
};

/// Says when a release behind a stream has been reached, and whether what the stream read was
/// valid. Copyable.
class VRAMLINK_API ReleaseReceipt {
 public:
  /// True once the slot was given back. False in a forked child.
  [[nodiscard]] bool ready() const noexcept;
  /// True if the stream was let go on without the frame, whose publisher died, failed or was late:
  /// then nothing that it read from the frame is valid. Final once ready().
  [[nodiscard]] bool aborted() const noexcept;
  /// Blocks until ready(). Codes: timed_out, aborted, driver (the device has failed), wrong_state.
  [[nodiscard]] Result<void> wait(Deadline deadline) const;

 private:
  friend class Frame;
  ReleaseReceipt() noexcept = default;

  std::shared_ptr<const channel::StreamWork> work_;  ///< null: given back at once
  std::shared_ptr<const channel::Verdict> verdict_;  ///< null: no stream waited
  std::uint64_t hold_number_ = 0;
  std::uint32_t slot_index_ = 0;
  std::array<std::uint64_t, 2> spare_{};
};

/// One received frame: the right to read a slot, which is not overwritten until it is given back.
/// Move-only; dropping releases. May outlive its Subscriber, and its publisher's process. A frame
/// that was received with a stream is released behind the work that is in that stream then, so the
/// stream must live until the frame is dropped or released.
class VRAMLINK_API Frame {
 public:
  Frame(Frame&&) noexcept;
  Frame& operator=(Frame&&) noexcept;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();

  /// An address of the device that reads the frames; read-only: on the host a write is a fault
  /// (but in the publisher's own process, which has the slots mapped for writing).
  /// Null once the frame was released or moved. Not of a temporary: the slot would be given back
  /// with it.
  [[nodiscard]] const std::byte* data() const& noexcept { return slot_.data; }
  [[nodiscard]] const std::byte* data() const&& = delete;
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return slot_.size_bytes; }
  [[nodiscard]] std::span<const std::byte> bytes() const& noexcept {
    return {slot_.data, static_cast<std::size_t>(slot_.size_bytes)};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const&& = delete;
  /// The same as elements. Codes: invalid_argument (the frame has another dtype), wrong_state (it
  /// was released or moved).
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const&;
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const&& = delete;
  /// Its own: a publisher may change the format of later frames. Valid while the frame is held.
  [[nodiscard]] const Format& format() const& noexcept;
  [[nodiscard]] const Format& format() const&& = delete;
  /// Whose work reads the bytes; the CPU if it is the host. Valid while the frame is held.
  [[nodiscard]] const DeviceId& device() const& noexcept;
  [[nodiscard]] const DeviceId& device() const&& = delete;
  /// data() is a copy on that device, made on the way (CopyFrames). Needs a held frame.
  [[nodiscard]] bool is_copy() const noexcept;
  /// 1, 2, ... as published; strictly increasing at one subscriber while epoch() stays the same.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return slot_.sequence; }
  /// Identifies the life of the publisher; a restart is another epoch and counts from 1. Needs a
  /// held frame.
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// 1, 2, ... within the epoch: which of the publisher's shapes it has; every resize begins
  /// another. Needs a held frame.
  [[nodiscard]] std::uint64_t generation() const noexcept;
  /// CLOCK_MONOTONIC at publish.
  [[nodiscard]] std::int64_t publish_ns() const noexcept { return slot_.publish_ns; }
  [[nodiscard]] std::int64_t media_ns() const noexcept { return slot_.media_ns; }
  [[nodiscard]] std::uint32_t flags() const noexcept { return slot_.flags; }
  /// Valid while the frame is held; empty otherwise and in a forked child.
  [[nodiscard]] std::span<const std::byte> user_data() const& noexcept;
  [[nodiscard]] std::span<const std::byte> user_data() const&& = delete;

  /// True if a stream that was to wait for this frame was let go on without it: the publisher died
  /// or failed, or the deadline passed first. What was read in that stream is not valid then. Final
  /// once the stream has got past the wait; until then ask again. Always false for a frame that was
  /// complete when it was received.
  [[nodiscard]] bool aborted() const noexcept;

  /// Gives the slot back; the bytes must not be touched any more. Never blocks. A second call does
  /// nothing. A frame that was received with a stream is given back behind its work.
  void release() noexcept;
  /// Gives the slot back when the work that is in `stream` now is done (and that in the stream that
  /// it was received with); the frame counts as held until then. With an already complete stream
  /// that is at once. Codes: wrong_state (released before; no stream order; a stream of another
  /// device), driver, out_of_memory (of the driver); the frame is still held then.
  [[nodiscard]] Result<ReleaseReceipt> release(StreamView stream);

 private:
  friend class channel::SubscriberCore;
  struct Slot {
    const std::byte* data = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t sequence = 0;
    std::uint64_t hold_number = 0;
    std::int64_t publish_ns = 0;
    std::int64_t media_ns = 0;
    std::uint32_t index = 0;
    std::uint32_t user_bytes = 0;
    std::uint32_t flags = 0;
    DType dtype = DType::uint8;
    bool waited = false;                                 ///< a stream waits for it
    StreamView stream = StreamView::already_complete();  ///< that it was received with
    std::array<std::uint64_t, 2> spare{};
  };
  Frame() noexcept = default;

  std::shared_ptr<channel::SubscriberSession> session_;
  Slot slot_;
};

/// Receives the frames of a name. Move-only. Attaches and comes back by itself; nothing that it
/// does can hurt the publisher or other subscribers. The destructor never waits. Thread-safety: all
/// members from any thread; each frame is received once. Frames still unread when a publisher ends
/// are delivered first; then its end is reported once, as closed (announced) or peer_gone; after
/// that, with reconnect, calls wait for the next publisher. When a publisher resizes, calls go on
/// with its next frames: each frame says what its format is.
class VRAMLINK_API Subscriber {
 public:
  /// Waits until a publisher of that name has let us in. `runtime` as the publisher's.
  /// Codes: invalid_argument, not_found (nobody published by the deadline; the remedy names similar
  /// channels), timed_out (a publisher is there and does not answer), resource_exhausted (its
  /// subscribers or our fds), incompatible, permission_denied, no_driver, no_device (its frames
  /// live on a GPU that is not visible here), unsupported (or cannot be reached), out_of_memory,
  /// driver, corrupt, os, wrong_state.
  [[nodiscard]] static Result<Subscriber> open(const Runtime& runtime, std::string_view name,
                                               Deadline deadline,
                                               const SubscriberOptions& options = {});
  Subscriber(Subscriber&&) noexcept;
  Subscriber& operator=(Subscriber&&) noexcept;
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;
  ~Subscriber();

  /// The next frame of the policy, if it is complete; never blocks. Where frames are copied
  /// (CopyFrames) the first call starts the copy, and a later one gets the frame.
  /// Codes: empty (also while a frame is being copied), closed, peer_gone, revoked (a frame was
  /// held for longer than the publisher's lease: held frames stay valid; or the publisher met words
  /// that the protocol forbids: they may change), corrupt, resource_exhausted (held_count_max
  /// frames are held), driver (our device has failed; or a call of its driver did, and a frame that
  /// was to be copied counts as lost), out_of_memory (of the driver), wrong_state. With reconnect,
  /// what keeps the next publisher from us for good (its wire version, a GPU that is not visible)
  /// is reported once, with its code.
  [[nodiscard]] Result<Frame> try_receive();
  /// The same; waits, also for a copy. Codes: as try_receive, with timed_out for empty (a frame
  /// that is being copied comes with a later call), and interrupted.
  [[nodiscard]] Result<Frame> receive(Deadline deadline);
  /// The next frame of the policy that is published, complete or not: work put into `stream` from
  /// now on starts when the frame is complete, or, at `wait_until` at the latest, without it.
  /// Whether it was valid, Frame::aborted() says afterwards. Never blocks. With an already complete
  /// stream as above. Codes: as above, driver (a frame that was to be waited for counts as lost),
  /// invalid_argument (`wait_until` is kForever), wrong_state (the subscriber has no stream order;
  /// a stream of another device than the publisher's frames are read on, which may be another
  /// publisher than before: no frame is taken then).
  [[nodiscard]] Result<Frame> try_receive(StreamView stream,
                                          Deadline wait_until = kStreamWaitDefault);
  /// The same; waits here, too, until the deadline, for a frame to be published. In a circle of
  /// processes at least one has to receive without a stream: streams that wait for one another may
  /// share a queue of the device.
  [[nodiscard]] Result<Frame> receive(StreamView stream, Deadline deadline = kStreamWaitDefault);

  /// A file descriptor for poll and epoll, this object's own (do not close or read it): readable
  /// when a frame or an outcome is waiting. Call try_receive until empty or an outcome, then poll
  /// again; without reconnect the end stays, and the descriptor readable. The
  /// first call starts a thread. Codes: resource_exhausted, os, wrong_state.
  [[nodiscard]] Result<int> readiness_fd();
  /// Ends the calls that block now with interrupted. Not async-signal-safe.
  void interrupt() noexcept;

  [[nodiscard]] const std::string& name() const noexcept;
  /// The format that the publisher attached last publishes in now; a frame that is received next
  /// may be older, and has its own.
  [[nodiscard]] Format format() const;
  /// Whose work reads the frames of that publisher here.
  [[nodiscard]] DeviceId device() const;
  /// Depth that the publisher granted: min(asked, its slots - 1); 0 for latest. A resize may change
  /// it, and so does a publisher that gets more slots by itself.
  [[nodiscard]] std::uint32_t granted_queue_depth() const noexcept;
  [[nodiscard]] SubscriberStatistics statistics() const;

 private:
  explicit Subscriber(std::shared_ptr<channel::SubscriberCore> core) noexcept;
  std::shared_ptr<channel::SubscriberCore> core_;
};

template <class T>
Result<std::span<T>> WritableFrame::as() const& {
  if (Result<void> same = check_elements(slot_.data, slot_.dtype, dtype_of<T>()); !same) {
    return same.error();
  }
  return std::span<T>(reinterpret_cast<T*>(slot_.data), slot_.size_bytes / sizeof(T));
}

template <class T>
Result<std::span<const T>> Frame::as() const& {
  if (Result<void> same = check_elements(slot_.data, slot_.dtype, dtype_of<T>()); !same) {
    return same.error();
  }
  return std::span<const T>(reinterpret_cast<const T*>(slot_.data), slot_.size_bytes / sizeof(T));
}

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_CHANNEL_HPP
