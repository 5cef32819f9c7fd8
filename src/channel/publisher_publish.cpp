// PublisherCore: frames on their way out, and a device that fails on them.
#include <chrono>
#include <span>
#include <utility>

#include "base/log.hpp"
#include "base/prefetch.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attachment.hpp"
#include "channel/device_wait.hpp"
#include "channel/publisher_core.hpp"
#include "channel/slot_copies.hpp"
#include "os/fork_guard.hpp"

namespace vramlink::inline v0::channel {

Result<void> PublisherCore::check_publish(const WritableFrame& frame, const FrameInfo& info) const {
  if (os::in_forked_child()) [[unlikely]] {
    return os::require_not_forked("publish frame").error();
  }
  if (frame.core_.get() != this) {
    return Error(Code::invalid_argument, "publish frame")
        .about(name_)
        .because("the frame was claimed from another publisher, or was used already");
  }
  if (info.user_data.size() > kUserDataBytesMax) {
    return Error(Code::invalid_argument, "publish frame")
        .about("user_data")
        .because("it has more than 256 bytes")
        .numbers(info.user_data.size(), kUserDataBytesMax);
  }
  return {};
}

Result<Receipt> PublisherCore::publish(WritableFrame& frame, StreamView stream,
                                       const FrameInfo& info) {
  VRAMLINK_CHECK(check_publish(frame, info));
  SlotRing& ring = *frame.slot_.ring;
  Generation& generation = *ring.generation();
  // Readers that spin share this line; while they fetch it back, the store of newest gets ready.
  base::prefetch_for_write(&generation.broadcast->newest);
  const Claim claim{frame.slot_.index, frame.slot_.ticket};
  const std::int64_t publish_ns = monotonic_ns();
  if (!(stream == frame.slot_.stream)) {
    if (frame.slot_.stream.is_already_complete()) {
      VRAMLINK_CHECK(generation.backend->check_stream(stream));
    } else if (!stream.is_already_complete()) {  // else it is complete by the caller's word
      VRAMLINK_CHECK(generation.backend->order(frame.slot_.stream, stream));
    }
    // Work on the slot may be in it: if the next step fails, the slot is abandoned behind it.
    frame.slot_.stream = stream;
  }
  VRAMLINK_STEP("publish.before_ready");
  const ReadyWords ready(generation, ring.members_of(claim), claim.slot_index, claim.ticket);
  VRAMLINK_CHECK(generation.backend->signal(stream, ready.writes()));
  VRAMLINK_STEP("publish.ready_enqueued");
  return make_visible(frame, info, publish_ns);
}

Result<Receipt> PublisherCore::make_visible(WritableFrame& frame, const FrameInfo& info,
                                            std::int64_t publish_ns) {
  const std::shared_ptr<PublisherCore> self = std::move(frame.core_);  // not to be abandoned now
  const Claim claim{frame.slot_.index, frame.slot_.ticket};
  SlotRing& ring = *frame.slot_.ring;
  WakeList wakes;
  const Result<std::uint64_t> sequence = ring.publish(claim, info, publish_ns, wakes);
  wakes.wake();
  if (sequence.failed_with(Code::stale)) {
    add(counters_.abandoned);
    return sequence.error();
  }
  if (!sequence) return end_error("publish frame");
  // The frame that was newest before may be claimed now. Pairs with add_claim_waiter(): whoever
  // sleeps was counted before it looked at the slots (seq_cst both).
  if (ring.generation()->broadcast->claim_waiters.load(std::memory_order_seq_cst) != 0) {
    wake_claimers();
  }
  add(counters_.published);
  Receipt receipt;
  receipt.generation_ = ring.generation();
  receipt.sequence_ = *sequence;
  receipt.ticket_ = claim.ticket;
  receipt.slot_index_ = claim.slot_index;
  return receipt;
}

void PublisherCore::abandon(const WritableFrame& frame) noexcept {
  SlotRing& ring = *frame.slot_.ring;
  Generation& generation = *ring.generation();
  const backend::WordWrite ready{generation.ready_word(frame.slot_.index), frame.slot_.ticket};
  VRAMLINK_STEP("abandon.before_ready");
  const auto signal = [&] { return generation.backend->signal(frame.slot_.stream, {&ready, 1}); };
  Result<void> signalled = signal();
  // A slot is lost without it, and its generation's memory is kept as long as the device works: so
  // a driver that fails once is asked again. The word may be written twice.
  if (!signalled) signalled = signal();
  if (!signalled) {
    // Nothing is under way then that could be overdue.
    suspect_device();
    base::report_failure("abandon frame", signalled.error());
  }
  ring.abandon({frame.slot_.index, frame.slot_.ticket}, !signalled);
  VRAMLINK_STEP("abandon.done");
  add(counters_.abandoned);
  wake_claimers();
}

Result<void> PublisherCore::check_source(std::span<const std::byte> source,
                                         std::uint64_t frame_bytes) const {
  if (source.size() == frame_bytes) return {};
  return Error(Code::invalid_argument, "publish copy")
      .about(name_)
      .because("the source has " + std::to_string(source.size()) + " bytes, a frame has " +
               std::to_string(frame_bytes))
      .numbers(source.size(), frame_bytes);
}

Result<Receipt> PublisherCore::publish_copy(WritableFrame& frame, std::span<const std::byte> source,
                                            StreamView stream, const FrameInfo& info) {
  const Generation& generation = *frame.slot_.ring->generation();
  if (generation.capabilities.streams) {
    return publish_device_copy(frame, source, stream, info);
  }
  VRAMLINK_CHECK(generation.backend->copy(stream, frame.slot_.data, source.data(), source.size()));
  return publish(frame, stream, info);
}

Result<Receipt> PublisherCore::publish_device_copy(WritableFrame& frame,
                                                   std::span<const std::byte> source,
                                                   StreamView stream, const FrameInfo& info) {
  VRAMLINK_CHECK(check_publish(frame, info));
  const std::shared_ptr<SlotRing>& ring = frame.slot_.ring;
  Generation& generation = *ring->generation();
  SlotCopies* const copies = VRAMLINK_TRY(copies_of(generation));
  const Claim claim{frame.slot_.index, frame.slot_.ticket};
  const std::int64_t publish_ns = monotonic_ns();
  const Membership& members = ring->members_of(claim);
  const std::uint64_t set = members.stream_set;
  const ReadyWords ready(generation, members, claim.slot_index, claim.ticket);
  const SlotCopies::Outcome outcome =
      copies->submit(claim.slot_index, ready.writes(), set, stream, source.data());
  if (!outcome.submitted) {
    frame.slot_.stream = outcome.behind;  // the slot's only work was to be this copy
    return outcome.submitted.error();
  }
  if (outcome.unprepared) prepare_copies(ring, set);
  VRAMLINK_STEP("publish.ready_enqueued");
  return make_visible(frame, info, publish_ns);
}

void PublisherCore::prepare_copies(const std::shared_ptr<SlotRing>& ring, std::uint64_t set) {
  // Once for each set: what failed once is not tried with every frame.
  if (ring->generation()->prepared_set.exchange(set, std::memory_order_relaxed) == set) return;
  process_->janitor().post([weak = std::weak_ptr<SlotRing>(ring)] {
    const std::shared_ptr<SlotRing> self = weak.lock();
    if (!self) return;
    const std::shared_ptr<const Membership> members = self->members();
    const Result<void> prepared = self->generation()->copies.load()->prepare(*members);
    VRAMLINK_STEP("copy.prepared");
    if (!prepared) base::report_failure("prepare copies", prepared.error());
  });
}

void PublisherCore::watch_device() {
  process_->janitor().post_at(kOverdue, [weak = weak_from_this()] {
    const std::shared_ptr<PublisherCore> self = weak.lock();
    if (!self || self->has_failed()) return;
    self->check_device();
    self->watch_device();
  });
}

void PublisherCore::check_device() {
  bool overdue = false;
  for (const std::shared_ptr<SlotRing>& ring : rings()) overdue = ring->is_overdue() || overdue;
  const bool suspect = suspect_.exchange(false, std::memory_order_relaxed);
  if (!overdue && !suspect) return;
  const Result<void> healthy = ring()->generation()->backend->check_health();
  if (!healthy) fail(healthy.error());
}

void PublisherCore::fail(const Error& why) {
  {
    const std::lock_guard lock(failure_mutex_);
    failure_ = why;
  }
  has_failed_.store(true, std::memory_order_release);
  base::report_failure("publish frames", why);
  end_ring(wire::ChannelState::failed);
  const auto code = static_cast<std::uint32_t>(why.code());
  for_each_attachment([code](Attachment& attachment) { attachment.tell_failure(code); });
}

Error PublisherCore::end_error(const char* operation) const {
  if (!has_failed()) return Error(Code::closed, operation);
  const std::lock_guard lock(failure_mutex_);
  return *failure_;
}

}  // namespace vramlink::inline v0::channel
