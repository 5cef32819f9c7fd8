// PublisherCore: generations that it makes by itself, because evictions have left too few slots or
// claims find none. Nobody waits for them: each step begins where the one before ends.
#include <chrono>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "channel/attachment.hpp"
#include "channel/publisher_core.hpp"
#include "runtime/call.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// Of one publisher at a time, with that which is published in; the others are held by
/// subscribers still. Each has the memory of all its slots.
constexpr std::size_t kGenerationsMax = 4;
/// After one could not be made.
constexpr std::chrono::seconds kRetry{1};

}  // namespace

/// Each step has it from the one before. If the last one drops it and it was not announced, because
/// it must not be, or a step has ended for want of memory, the turn is free again.
class PublisherCore::RenewalTurn {
 public:
  RenewalTurn(std::weak_ptr<PublisherCore> core, std::shared_ptr<SlotRing> before) noexcept
      : core_(std::move(core)), before_(std::move(before)) {}
  RenewalTurn(const RenewalTurn&) = delete;
  RenewalTurn& operator=(const RenewalTurn&) = delete;
  ~RenewalTurn() {
    if (!taken_) return;
    if (const auto core = core_.lock()) core->give_up_renewal(*before_, why_);
  }
  void take() noexcept { taken_ = true; }
  /// What is still to be done needs no memory.
  void announced() noexcept { taken_ = false; }
  void fail(const Error& why) noexcept { why_ = why; }

 private:
  const std::weak_ptr<PublisherCore> core_;
  const std::shared_ptr<SlotRing> before_;
  bool taken_ = false;
  Error why_{Code::out_of_memory, "begin generation"};
};

void PublisherCore::begin_renewal() {
  forget_renewal_if_over();
  if (renewal_) return;
  const std::shared_ptr<SlotRing> before = ring();
  const auto turn = std::make_shared<RenewalTurn>(weak_from_this(), before);  // throws before it is
  const SlotRing::Want want = before->take_want();
  if (want.slot_count == 0) return;
  Turn found = Turn::free;
  if (!turn_.compare_exchange_strong(found, Turn::renewal, std::memory_order_seq_cst)) {
    before->deny(Deadline::passed());  // a resize is under way: its slots may do
    return;
  }
  turn->take();
  renewal_ = Renewal{.before = before, .want = want};
  const std::size_t in_use = rings().size();
  if (in_use >= kGenerationsMax) {
    return turn->fail(
        Error(Code::resource_exhausted, "begin generation")
            .about(name_)
            .because("subscribers hold frames of as many generations as there may be at a time")
            .remedy("let subscribers release their frames, or end those that do not")
            .numbers(in_use, kGenerationsMax));
  }
  process_->janitor().post([weak = weak_from_this(), turn, before, want] {
    const std::shared_ptr<PublisherCore> self = weak.lock();
    if (!self) return;
    Result<std::shared_ptr<SlotRing>> built =
        self->build_after(*before, before->generation()->shape.format, want.slot_count);
    VRAMLINK_STEP("renew.built");
    self->process_->reactor().post([weak, turn, built = std::move(built)] {
      if (const auto core = weak.lock()) core->announce_renewal(*turn, built);
    });
  });
}

void PublisherCore::announce_renewal(RenewalTurn& turn,
                                     const Result<std::shared_ptr<SlotRing>>& built) {
  if (!built) return turn.fail(built.error());
  if (renewal_->before->ended()) return turn.fail(Error(Code::closed, "begin generation"));
  renewal_->patience = Deadline::after(ResizeOptions().follow_within);
  renewal_->timer = process_->reactor().at(renewal_->patience, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->settle_renewal();
  });
  reserve_place();
  let_follow(*built);
  turn.announced();
  renewal_->next = *built;
  VRAMLINK_STEP("renew.announced");
  settle_renewal();
}

void PublisherCore::settle_renewal() {
  if (!renewal_ || !renewal_->next) return;
  const bool is_late = renewal_->patience.has_passed();
  const bool is_over = renewal_->before->ended();
  if (renewal_->next->expects() && !is_late && !is_over) return;
  {
    const std::lock_guard lock(renewal_mutex_);
    if (turn_.load(std::memory_order_relaxed) != Turn::renewal) return;  // it is in place
    ready_ = renewal_->next;
    ready_grows_ = renewal_->want.grows;
    renewal_ready_.store(true, std::memory_order_relaxed);
  }
  wake_claimers();  // a resize may wait for it
  // A frame that is claimed now would be stale: a later claim, which finds none, puts it in place.
  // Where claims fail until then, only for a while.
  finish_renewal((is_late && !renewal_->want.grows) || is_over);
}

void PublisherCore::finish_renewal(bool at_once) {
  std::unique_lock lock(renewal_mutex_, std::defer_lock);
  if (at_once) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;  // another thread is at it
  }
  if (!ready_) return;
  std::atomic<std::uint64_t>& counter = ready_grows_ ? counters_.growths : counters_.replacements;
  const Result<void> placed = put_in_place(ready_, counter, !at_once);
  if (placed.failed_with(Code::full)) return;
  if (placed) VRAMLINK_STEP("renew.in_place");
  ready_.reset();
  renewal_ready_.store(false, std::memory_order_relaxed);
  renewal_over_.store(true, std::memory_order_relaxed);
  free_turn();  // under the mutex: settle_renewal() must not find it undone
  // Without memory for this, the next one that is wanted finds it over.
  runtime::call([&] {
    process_->reactor().post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->begin_renewal();  // what was wanted meanwhile
    });
  });
}

void PublisherCore::give_up_renewal(SlotRing& before, const Error& why) noexcept {
  if (why.code() != Code::closed) base::report_failure("make slots", why);
  before.deny(Deadline::after(kRetry));
  renewal_over_.store(true, std::memory_order_relaxed);
  free_turn();
  runtime::call([&] {
    process_->reactor().post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->forget_renewal_if_over();
    });
  });
}

void PublisherCore::forget_renewal_if_over() noexcept {
  if (!renewal_over_.exchange(false, std::memory_order_acq_rel) || !renewal_) return;
  process_->reactor().unwatch(renewal_->timer);
  renewal_.reset();
}

}  // namespace vramlink::inline v0::channel
