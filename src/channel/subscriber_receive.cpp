// SubscriberCore: taking a frame, and what it needs before the caller gets it (see
// subscriber_core.hpp).
#include <algorithm>
#include <utility>

#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/device_wait.hpp"
#include "channel/subscriber_core.hpp"
#include "os/fork_guard.hpp"

namespace vramlink::inline v0::channel {
namespace {

Error nothing_to_receive() { return Error(Code::empty, "receive frame"); }

}  // namespace

Result<void> SubscriberCore::take_once(const StreamOrder* order, Catch& caught) {
  using Look = SubscriberSession::Look;
  if (os::in_forked_child()) [[unlikely]] {
    return os::require_not_forked("receive frame").error();
  }
  Sessions dropped;  // end outside the lock
  const std::lock_guard lock(mutex_);
  // It was taken before whatever is there now.
  if (!copying_.empty()) return take_copying_locked(order, caught);
  settle_locked(dropped);
  if (!current_) return nobody_locked();
  while (true) {
    const std::optional<SubscriberSession::End> end = current_->end();  // before the look
    // Nothing is ours to take any more, or our device cannot read it.
    if (end && (end->code == Code::revoked || end->code == Code::driver)) {
      VRAMLINK_STEP("revoked.heard");
      const std::optional<Error> failure = current_->failure();
      Error reported = report_end_locked(*end, dropped);
      if (failure) return *failure;
      if (end->code != Code::revoked) return reported;
      return explain_revoked(std::move(reported), end->is_lease);
    }
    // The session may be another than a moment ago, of a publisher on another device. Where nothing
    // is left in one that has ended, its end is to be told whatever the stream is.
    const bool fits = order == nullptr || order->fits(current_);
    if (!fits && !(end && current_->is_drained(*end))) {
      caught.unchecked = current_;
      return {};
    }
    // After the end was asked for: a session whose GO came before it is on its way, or is there.
    const bool comes = current_->link()->is_coming();
    const bool follows = successor_locked() != nullptr;
    Taken taken;
    const bool queued = current_->granted().depth != 0;
    // What will never be complete is nothing to wait for.
    const bool by_stream =
        order != nullptr && current_->stream_work() && !(end && end->pending_too);
    Look look = Look::nothing;
    if (fits) {
      look = queued ? current_->take_queued(taken, by_stream)
                    : current_->take_latest(taken, by_stream);
    }
    switch (look) {
      case Look::taken:
        caught.ticket = taken.ticket;
        fill(caught.frame, taken);
        return {};
      case Look::full:
        return Error(Code::resource_exhausted, "receive frame")
            .about(name())
            .because("all the frames that may be held at once are held")
            .remedy("release frames sooner, or open with a larger held_count_max")
            .numbers(current_->granted().max_held, current_->granted().max_held);
      case Look::corrupt:
        return report_end_locked({Code::corrupt, true}, dropped)
            .about(name())
            .because("the publisher named a slot or a sequence that cannot be");
      case Look::nothing:
        break;
      case Look::pending:
        if (end && end->pending_too) break;
        caught.pending = true;
        return nothing_to_receive();
    }
    if (!follows) {
      caught.pending = end && comes && current_->is_replaced();
      if (end && !caught.pending) return report_end_locked(*end, dropped);
      return nothing_to_receive();
    }
    move_on_locked(dropped);
  }
}

Result<void> SubscriberCore::take_copying_locked(const StreamOrder* order, Catch& caught) {
  Copying& first = copying_.front();
  const std::shared_ptr<SubscriberSession>& session = first.frame.session_;
  if (order != nullptr) {
    if (!order->fits(session)) {
      caught.unchecked = session;
      return {};
    }
    caught.is_copied_already = true;  // its stream waits for the copy
  } else if (is_copied(first.frame)) {
    first.frame.slot_.stream = StreamView::already_complete();
    caught.is_copied_already = true;
  } else {
    caught.pending = true;
    if (first.health_at.has_passed()) {
      first.health_at = Deadline::after(kOverdue);
      caught.overdue = session;
    }
    return nothing_to_receive();
  }
  caught.frame = std::move(first.frame);
  copying_.pop_front();
  return {};
}

bool SubscriberCore::is_copied(const Frame& frame) const noexcept {
  return frame.session_->is_copied(frame.slot_.index, frame.slot_.hold_number);
}

bool SubscriberCore::has_copying_news_locked() const noexcept {
  const Copying& first = copying_.front();
  return is_copied(first.frame) || first.health_at.has_passed();
}

Result<Frame> SubscriberCore::receive_once(StreamOrder* order, bool& pending) {
  while (true) {
    Catch caught;
    const Result<void> took = take_once(order, caught);
    pending = caught.pending;
    // Outside the mutex: what follows calls the driver.
    if (caught.overdue) VRAMLINK_CHECK(check_copying(*caught.overdue));
    if (!took) return took.error();
    if (caught.unchecked) {
      // Nothing was taken for a stream that cannot have it.
      VRAMLINK_CHECK(caught.unchecked->check_stream(order->stream));
      order->checked = caught.unchecked;
      continue;
    }
    // If it fails, the frame is released here.
    const Result<void> handed = hand_over(caught, order);
    Frame& frame = caught.frame;
    if (handed && !frame.session_->copies_frames()) return std::move(frame);
    bool others_sleep = false;
    {
      const std::lock_guard lock(mutex_);
      if (!handed) {
        ++totals_.lost;
        return handed.error();
      }
      if (!caught.is_copied_already) ++totals_.copied;
      if (order != nullptr || caught.is_copied_already) return std::move(frame);
      // Nobody can drop it without its copy, and no other is taken before it.
      copying_.push_back({std::move(frame), Deadline::after(kOverdue)});
      others_sleep = bell_taken_;
    }
    // Whoever of them looks first when it is copied gets it: we may have left by then.
    if (others_sleep) wake();
  }
}

Result<void> SubscriberCore::hand_over(Catch& caught, const StreamOrder* order) {
  Frame& frame = caught.frame;
  SubscriberSession& session = *frame.session_;
  const std::uint32_t slot_index = frame.slot_.index;
  if (order == nullptr) {
    if (!session.copies_frames() || caught.is_copied_already) return {};
    // Before the copy: what the driver refuses may run all the same.
    frame.slot_.stream = session.copies_stream();
    return session.start_copy(slot_index, frame.slot_.hold_number);
  }
  if (caught.is_copied_already) {
    VRAMLINK_CHECK(session.order_behind_copies(order->stream));
    frame.slot_.stream = order->stream;
    return {};
  }
  const Taken taken{slot_index, frame.slot_.sequence, frame.slot_.hold_number, caught.ticket};
  frame.slot_.waited = VRAMLINK_TRY(session.order(taken, order->stream, order->wait_until));
  frame.slot_.stream = order->stream;
  return session.copies_frames() ? session.copy_frame(slot_index, order->stream) : Result<void>();
}

Result<void> SubscriberCore::check_copying(SubscriberSession& session) {
  const Result<void> healthy = session.check_health();
  if (healthy) return {};
  std::deque<Copying> lost;  // end outside the lock
  const std::lock_guard lock(mutex_);
  const auto kept = std::stable_partition(
      copying_.begin(), copying_.end(),
      [&](const Copying& copying) { return copying.frame.session_.get() != &session; });
  std::move(kept, copying_.end(), std::back_inserter(lost));
  copying_.erase(kept, copying_.end());
  totals_.lost += lost.size();
  return healthy;
}

Result<void> SubscriberCore::check_order(const StreamOrder& order) const {
  if (!order.wait_until.is_never()) return {};
  return Error(Code::invalid_argument, "receive frame")
      .about(name())
      .because("a stream cannot be made to wait for ever")
      .remedy("pass a deadline");
}

Result<Frame> SubscriberCore::try_receive() { return receive_now(nullptr); }

Result<Frame> SubscriberCore::receive(Deadline deadline) {
  return receive_until(nullptr, deadline);
}

Result<Frame> SubscriberCore::try_receive(StreamView stream, Deadline wait_until) {
  if (stream.is_already_complete()) return receive_now(nullptr);
  StreamOrder order{stream, wait_until, {}};
  VRAMLINK_CHECK(check_order(order));
  return receive_now(&order);
}

Result<Frame> SubscriberCore::receive(StreamView stream, Deadline deadline) {
  if (stream.is_already_complete()) return receive_until(nullptr, deadline);
  StreamOrder order{stream, deadline, {}};
  VRAMLINK_CHECK(check_order(order));
  return receive_until(&order, deadline);
}

Result<Frame> SubscriberCore::receive_now(StreamOrder* order) {
  const auto nothing_to_do = [](const Result<Frame>& frame) {
    return frame.failed_with(Code::empty) || frame.failed_with(Code::resource_exhausted);
  };
  bool pending = false;
  Result<Frame> frame = receive_once(order, pending);
  if (!has_readiness_.load(std::memory_order_acquire) || !nothing_to_do(frame)) return frame;
  std::shared_ptr<Readiness> readiness;
  {
    const std::lock_guard lock(readiness_mutex_);
    readiness = readiness_;
  }
  if (!readiness) return frame;
  // Clear the descriptor, then look once more, so that nothing falls between. Several threads may
  // be here at once: each sets the descriptor or has it set after it was the last to clear it.
  readiness->clear();
  frame = receive_once(order, pending);
  if (nothing_to_do(frame)) {
    readiness->rearm();
  } else {
    readiness->set();
  }
  return frame;
}

Result<Frame> SubscriberCore::receive_until(StreamOrder* order, Deadline deadline) {
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_seq_cst);
  Backoff backoff(Backoff::kForReady);
  while (true) {
    bool pending = false;
    Result<Frame> frame = receive_once(order, pending);
    if (!frame.failed_with(Code::empty)) return frame;
    if (interrupts_.load(std::memory_order_seq_cst) != interrupts) {
      return Error(Code::interrupted, "receive frame");
    }
    if (deadline.has_passed()) return Error(Code::timed_out, "receive frame");
    if (pending) {
      backoff.pause(deadline);
    } else {
      sleep(deadline, interrupts, nullptr);
    }
  }
}

}  // namespace vramlink::inline v0::channel
