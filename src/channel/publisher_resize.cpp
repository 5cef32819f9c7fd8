// PublisherCore: generations, one after the other. Section 11 of the protocol.
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attachment.hpp"
#include "channel/publisher_core.hpp"
#include "os/fork_guard.hpp"
#include "os/futex.hpp"
#include "runtime/call.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// Of one publisher at a time that resizes, with the one that is published in: what slow queues
/// have yet to take and readers hold. Each has the memory of all its slots, and a reader that never
/// lets go must not come to have all memory.
constexpr std::size_t kResizedGenerationsMax = 8;
/// Between two looks whether one has ended: a claimed frame that is dropped rings nothing then.
constexpr std::chrono::milliseconds kRoomNap{10};

/// Tells the thread that waits for a task whether it was done. Whoever has it last tells: also when
/// the task is dropped, or ends for want of memory.
class Telling {
 public:
  enum Word : std::uint32_t { waiting, done, dropped };
  explicit Telling(std::shared_ptr<std::atomic<std::uint32_t>> word) noexcept
      : word_(std::move(word)) {}
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;
  ~Telling() { tell(dropped); }
  /// The first word counts.
  void tell(Word word) noexcept {
    std::uint32_t found = waiting;
    if (word_->compare_exchange_strong(found, word, std::memory_order_acq_rel)) {
      os::futex_wake(*word_, INT32_MAX);
    }
  }

 private:
  const std::shared_ptr<std::atomic<std::uint32_t>> word_;
};

}  // namespace

std::vector<std::shared_ptr<SlotRing>> PublisherCore::rings() const {
  std::vector<std::shared_ptr<SlotRing>> rings;
  const std::lock_guard lock(ring_mutex_);
  rings.push_back(ring_);
  for (const std::weak_ptr<SlotRing>& replaced : replaced_) {
    if (auto ring = replaced.lock()) rings.push_back(std::move(ring));
  }
  return rings;
}

void PublisherCore::end_ring(wire::ChannelState state) noexcept {
  WakeList wakes;
  while (!ring()->end(state, wakes)) {
  }
  wakes.wake();
  wake_claimers();
}

Result<void> PublisherCore::resize(const Format& format, Deadline deadline,
                                   const ResizeOptions& options) {
  VRAMLINK_CHECK(os::require_not_forked("resize channel"));
  VRAMLINK_CHECK(validate(format));
  if (options.slot_count != 0) {
    VRAMLINK_CHECK(check_slot_count("resize channel", options.slot_count));
  }
  VRAMLINK_CHECK(take_turn(deadline));
  struct Guard {
    explicit Guard(PublisherCore& owner) noexcept : core(owner) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { core.free_turn(); }
    PublisherCore& core;
  };
  const Guard turn(*this);
  return resize_once(format, deadline, options);
}

Result<void> PublisherCore::take_turn(Deadline deadline) {
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  while (true) {
    const std::uint32_t bell = local_bell_.load(std::memory_order_seq_cst);
    Turn found = Turn::free;
    if (turn_.compare_exchange_strong(found, Turn::resize, std::memory_order_seq_cst)) return {};
    if (found == Turn::resize) {
      return Error(Code::wrong_state, "resize channel")
          .about(name_)
          .because("another thread resizes it just now");
    }
    // Of our own making: it comes first, and does not wait for claimed frames any more.
    if (renewal_ready_.load(std::memory_order_relaxed)) {
      finish_renewal(true);
      continue;
    }
    if (interrupts_.load(std::memory_order_acquire) != interrupts) {
      return Error(Code::interrupted, "resize channel");
    }
    if (deadline.has_passed()) {
      return Error(Code::timed_out, "resize channel")
          .about(name_)
          .because("slots that the publisher makes by itself were not in place by the deadline");
    }
    static_cast<void>(os::futex_wait(local_bell_, bell, deadline));
  }
}

void PublisherCore::free_turn() noexcept {
  turn_.store(Turn::free, std::memory_order_seq_cst);  // pairs with take_turn()
  wake_claimers();
}

Result<std::shared_ptr<SlotRing>> PublisherCore::build_after(const SlotRing& before,
                                                             const Format& format,
                                                             std::uint32_t slot_count) const {
  Generation::Shape shape = before.generation()->shape;
  shape.format = format;
  ++shape.generation;
  if (slot_count != 0) shape.slot_count = slot_count;
  // Frames are published meanwhile: the first one has this number or a later one.
  shape.first_sequence = before.last_sequence() + 1;
  return std::make_shared<SlotRing>(
      VRAMLINK_TRY(Generation::create(process_, *before.generation()->backend, shape, parking_)),
      policy());
}

Result<void> PublisherCore::resize_once(const Format& format, Deadline deadline,
                                        const ResizeOptions& options) {
  const std::shared_ptr<SlotRing> before = ring();
  if (before->ended()) return end_error("resize channel");
  VRAMLINK_CHECK(wait_for_room(std::min(deadline, Deadline::after(options.follow_within))));
  const std::shared_ptr<SlotRing> next =
      VRAMLINK_TRY(build_after(*before, format, options.slot_count));
  VRAMLINK_STEP("resize.built");
  reserve_place();
  VRAMLINK_CHECK(announce(next));
  VRAMLINK_STEP("resize.announced");
  const Result<void> waited =
      wait_for_members(*next, std::min(deadline, Deadline::after(options.follow_within)));
  VRAMLINK_CHECK(put_in_place(next, counters_.resizes));
  VRAMLINK_STEP("resize.in_place");
  return waited;
}

Result<void> PublisherCore::wait_for_room(Deadline deadline) {
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  while (true) {
    const std::uint32_t bell = local_bell_.load(std::memory_order_seq_cst);
    const std::size_t in_use = rings().size();
    if (in_use < kResizedGenerationsMax) return {};
    if (ring()->ended()) return end_error("resize channel");
    if (interrupts_.load(std::memory_order_acquire) != interrupts) {
      return Error(Code::interrupted, "resize channel");
    }
    if (deadline.has_passed()) {
      return Error(Code::resource_exhausted, "resize channel")
          .about(name_)
          .because("frames of as many generations as there may be at a time are held or queued")
          .remedy(
              "let subscribers take and release their frames, or end those that do not; or "
              "resize with a longer follow_within")
          .numbers(in_use, kResizedGenerationsMax);
    }
    const Deadline look = std::min(deadline, Deadline::after(kRoomNap));
    static_cast<void>(os::futex_wait(local_bell_, bell, look));
  }
}

void PublisherCore::reserve_place() {
  const std::lock_guard lock(ring_mutex_);
  std::erase_if(replaced_, [](const auto& ring) { return ring.expired(); });
  replaced_.reserve(replaced_.size() + 1);
}

Result<void> PublisherCore::announce(const std::shared_ptr<SlotRing>& next) {
  const auto word = std::make_shared<std::atomic<std::uint32_t>>(Telling::waiting);
  process_->reactor().post(
      [self = shared_from_this(), next, telling = std::make_shared<Telling>(word)] {
        self->let_follow(next);
        telling->tell(Telling::done);
      });
  while (word->load(std::memory_order_acquire) == Telling::waiting) {  // pairs with tell()
    static_cast<void>(os::futex_wait(*word, Telling::waiting, kForever));
  }
  if (word->load(std::memory_order_acquire) == Telling::done) return {};
  return Error(Code::out_of_memory, "resize channel")
      .about(name_)
      .because("there was no memory to tell subscribers of the new slots")
      .remedy("free memory of this process, and resize again");
}

void PublisherCore::let_follow(const std::shared_ptr<SlotRing>& next) {
  const std::vector<std::shared_ptr<Attachment>> all = attachments();
  try {
    for (const std::shared_ptr<Attachment>& attachment : all) attachment->follow(next);
  } catch (...) {
    for (const std::shared_ptr<Attachment>& attachment : all) attachment->unfollow(*next);
    throw;
  }
  next_ring_ = next;
  let_go_on(all);
}

void PublisherCore::let_go_on(const std::vector<std::shared_ptr<Attachment>>& all) noexcept {
  // Each has its entries: who cannot be told for want of memory is late, and is told next time.
  for (const std::shared_ptr<Attachment>& attachment : all) {
    runtime::call([&] { attachment->go_on(); });
  }
}

Result<void> PublisherCore::wait_for_members(const SlotRing& next, Deadline deadline) {
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  while (true) {
    const std::uint32_t bell = local_bell_.load(std::memory_order_seq_cst);
    if (!next.expects() || ring()->ended() || deadline.has_passed()) return {};
    if (interrupts_.load(std::memory_order_acquire) != interrupts) {
      return Error(Code::interrupted, "resize channel");
    }
    static_cast<void>(os::futex_wait(local_bell_, bell, deadline));
  }
}

Result<void> PublisherCore::put_in_place(const std::shared_ptr<SlotRing>& next,
                                         std::atomic<std::uint64_t>& counter, bool only_unclaimed) {
  const std::shared_ptr<SlotRing> before = ring();
  WakeList wakes;
  const auto replace = [&] {
    const std::lock_guard lock(ring_mutex_);
    replaced_.push_back(before);  // reserve_place() made room
    add(counter);                 // who finds the new one finds it counted
    ring_ = next;
    format_.set(next->generation()->shape.format);
  };
  const bool replaced = before->give_way(*next, wakes, std::ref(replace), only_unclaimed);
  if (!replaced && only_unclaimed && !before->ended()) return Error(Code::full, "resize channel");
  wakes.wake();
  wake_claimers();
  // It is in place whether or not there is memory for this.
  runtime::call([&] {
    process_->reactor().post([weak = weak_from_this(), next] {
      const std::shared_ptr<PublisherCore> self = weak.lock();
      if (!self) return;
      if (self->next_ring_ == next) self->next_ring_.reset();
      // Who is late passes over what was replaced before it came there.
      let_go_on(self->attachments());
    });
  });
  if (!replaced) return end_error("resize channel");
  return {};
}

}  // namespace vramlink::inline v0::channel
