// See publisher_core.hpp: opening and claiming. Publishing is in publisher_publish.cpp; subscribers
// come and go in publisher_members.cpp.
#include "channel/publisher_core.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attachment.hpp"
#include "channel/backoff.hpp"
#include "link/names.hpp"
#include "os/fork_guard.hpp"
#include "os/futex.hpp"
#include "os/threads.hpp"
#include "runtime/end_on_janitor.hpp"
#include "runtime/runtime_state.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// Asleep in claim while a GPU may release or complete a slot, which rings nothing.
constexpr Backoff::Limits kForSlot{0, 50'000, 1'000'000};

/// In one claim: honest members ring once for each frame that they take or let go.
constexpr int kFruitlessLooksMax = 64;

/// Longest sleep for a slot without another look.
constexpr std::chrono::milliseconds kSleepMax{100};
constinit std::atomic<bool> claim_sleeps_limited{true};

Result<void> check(const PublisherOptions& options) {
  VRAMLINK_CHECK(check_slot_count("open publisher", options.slot_count));
  if (options.held_count_max > options.slot_count) {
    return Error(Code::invalid_argument, "open publisher")
        .about("held_count_max")
        .because(std::to_string(options.held_count_max) + " is more than the slots");
  }
  if (options.subscriber_count_max > kSubscriberCountMax) {
    return Error(Code::invalid_argument, "open publisher")
        .about("subscriber_count_max")
        .because(std::to_string(options.subscriber_count_max) + " is more than 64");
  }
  if (options.slot_count_max != 0 &&
      (options.slot_count_max < options.slot_count || options.slot_count_max > kSlotCountMax)) {
    return Error(Code::invalid_argument, "open publisher")
        .about("slot_count_max")
        .because(std::to_string(options.slot_count_max) + " is not within slot_count, " +
                 std::to_string(options.slot_count) + ", to 64");
  }
  if (options.when_full == WhenFull::evict && options.lease.count() <= 0) {
    return Error(Code::invalid_argument, "open publisher")
        .about("lease")
        .because(std::to_string(options.lease.count()) + " ns is no time to hold a frame");
  }
  if (options.legacy_handles > LegacyHandles::always) {
    return Error(Code::invalid_argument, "open publisher")
        .about("legacy_handles")
        .because(std::to_string(static_cast<unsigned>(options.legacy_handles)) + " is no choice");
  }
  if (options.when_full > WhenFull::evict) {
    return Error(Code::invalid_argument, "open publisher")
        .about("when_full")
        .because(std::to_string(static_cast<unsigned>(options.when_full)) + " is no policy");
  }
  return {};
}

/// What the slots are to live in.
Result<backend::Backend*> find_backend(const runtime::BackendRegistry& all,
                                       const PublisherOptions& options) {
  switch (options.legacy_handles) {
    case LegacyHandles::never:
      return all.find(options.device);
    case LegacyHandles::if_needed:
      return all.find_any(options.device);
    case LegacyHandles::always:
      break;
  }
  return all.find_legacy(options.device);
}

/// Random, and never 0.
std::uint64_t new_epoch() {
  std::random_device random;
  std::uint64_t epoch = 0;
  while (epoch == 0) epoch = std::uint64_t{random()} << 32 | random();
  return epoch;
}

}  // namespace

PublisherCore::PublisherCore(std::shared_ptr<runtime::ProcessState> process, std::string name,
                             const os::DirectoryUsers& users, const PublisherOptions& options,
                             std::shared_ptr<SlotRing> ring)
    : process_(std::move(process)),
      name_(std::move(name)),
      users_(users),
      options_(options),
      start_ns_(monotonic_ns()),
      parking_(ring->generation()->parking),
      ring_(std::move(ring)),
      format_(ring_->generation()->shape.format) {}

Result<std::shared_ptr<PublisherCore>> PublisherCore::open(const Runtime& runtime,
                                                           std::string_view name,
                                                           const Format& format,
                                                           const PublisherOptions& options) {
  VRAMLINK_CHECK(os::require_not_forked("open publisher"));
  VRAMLINK_CHECK(link::check_name(name));
  VRAMLINK_CHECK(check(options));
  VRAMLINK_CHECK(validate(format));
  const std::shared_ptr<runtime::ProcessState>& process = runtime.state()->process();
  backend::Backend* backend = VRAMLINK_TRY(find_backend(process->backends(), options));
  const os::DirectoryUsers users = VRAMLINK_TRY(runtime.state()->directory().users_for_publisher());
  // The name first: a second publisher is told whose it is, and takes no memory for that.
  std::unique_ptr<link::Endpoint> endpoint =
      VRAMLINK_TRY(link::Endpoint::create(runtime.directory(), name, users.group));
  Generation::Shape shape;
  shape.format = format;
  shape.epoch = new_epoch();
  shape.slot_count = options.slot_count;
  std::shared_ptr<Parking> parking =
      runtime::ends_on_janitor(process, std::make_unique<Parking>(process->janitor()));
  Result<std::shared_ptr<Generation>> made = Generation::create(process, *backend, shape, parking);
  if (made.failed_with(Code::unsupported) && options.legacy_handles == LegacyHandles::if_needed) {
    // What the attributes promised the trial did not keep.
    if (const auto legacy = process->backends().find_legacy(options.device)) {
      backend = *legacy;
      made = Generation::create(process, *backend, shape, std::move(parking));
    }
  }
  std::shared_ptr<Generation> generation = VRAMLINK_TRY(std::move(made));
  if (generation->capabilities.memory_kind == wire::MemoryKind::legacy_handle) {
    base::log(LogLevel::warn, name,
              "its frames go by legacy handles: subscribers could write into them");
  }
  auto ring = std::make_shared<SlotRing>(
      std::move(generation), FullPolicy{options.when_full, options.lease, options.slot_count_max});
  std::shared_ptr<PublisherCore> core(
      new PublisherCore(process, std::string(name), users, options, std::move(ring)));
  VRAMLINK_CHECK(core->start(std::move(endpoint)));
  if (backend->capabilities().streams) core->watch_device();
  return core;
}

Result<void> PublisherCore::start(std::unique_ptr<link::Endpoint> endpoint) {
  const std::lock_guard lock(endpoint_mutex_);
  endpoint_ = std::move(endpoint);
  VRAMLINK_STEP("open.listening");
  return endpoint_->listen(process_->reactor(),
                           [weak = weak_from_this()](os::Socket socket, bool refused_for_fds) {
                             if (const auto self = weak.lock()) {
                               self->accept(std::move(socket), refused_for_fds);
                             }
                           });
}

PublisherCore::~PublisherCore() { shut_down(); }

Format PublisherCore::format() const noexcept {
  if (os::in_forked_child()) return format_.get();  // the lock may be one that the parent held
  const std::lock_guard lock(ring_mutex_);
  return format_.get();
}

void limit_claim_sleeps(bool limited) noexcept {
  claim_sleeps_limited.store(limited, std::memory_order_relaxed);
}

Result<WritableFrame> PublisherCore::claim_once(const Purpose& purpose, SlotRing::Look& look) {
  if (os::in_forked_child()) [[unlikely]] {
    return os::require_not_forked("claim slot").error();
  }
  if (renewal_ready_.load(std::memory_order_relaxed)) [[unlikely]] {
    finish_renewal(false);
  }
  const StreamView stream = purpose.stream;
  std::shared_ptr<SlotRing> ring;
  Result<Claim> claimed = Error(Code::stale, "claim slot");
  while (claimed.failed_with(Code::stale)) {  // again where its next one has taken its place
    ring = this->ring();
    if (purpose.source != nullptr) {
      VRAMLINK_CHECK(check_source(*purpose.source, ring->generation()->shape.format.payload_bytes));
    }
    if (!stream.is_already_complete()) {
      // A stream of another device is refused here, not when the frame is rendered.
      VRAMLINK_CHECK(ring->generation()->backend->check_stream(stream));
    }
    claimed = ring->try_claim(look);
  }
  if (ring->found_trouble()) [[unlikely]] {
    take_care();
  }
  if (!claimed)
    return claimed.failed_with(Code::closed) ? end_error("claim slot") : claimed.error();
  const Generation& generation = *ring->generation();
  WritableFrame frame;
  frame.core_ = shared_from_this();
  frame.slot_.data = generation.slot_data(claimed->slot_index);
  frame.slot_.size_bytes = generation.shape.format.payload_bytes;
  frame.slot_.ticket = claimed->ticket;
  frame.slot_.stream = stream;
  frame.slot_.index = claimed->slot_index;
  frame.slot_.dtype = generation.shape.format.dtype;
  frame.slot_.ring = std::move(ring);
  return frame;
}

Result<WritableFrame> PublisherCore::try_claim(const Purpose& purpose) {
  SlotRing::Look look;
  Result<WritableFrame> frame = claim_once(purpose, look);
  if (frame.failed_with(Code::full)) return refuse_claim(false);
  return frame;
}

Error PublisherCore::refuse_claim(bool by_deadline) noexcept {
  const bool is_late = by_deadline && options_.when_full == WhenFull::block;
  add(is_late ? counters_.timed_out : counters_.refused_full);
  return Error(is_late ? Code::timed_out : Code::full, "claim slot");
}

Result<WritableFrame> PublisherCore::claim(const Purpose& purpose, Deadline deadline) {
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  SlotRing::Look look;
  Result<WritableFrame> frame = claim_once(purpose, look);
  if (!frame.failed_with(Code::full)) return frame;
  if (options_.when_full == WhenFull::drop) return refuse_claim(false);
  Backoff backoff(kForSlot);
  for (int looks = 0; frame.failed_with(Code::full); ++looks) {
    if (interrupts_.load(std::memory_order_acquire) != interrupts) {
      return Error(Code::interrupted, "claim slot");
    }
    if (look.hopeless || deadline.has_passed()) return refuse_claim(true);
    const std::int64_t nap_ns = backoff.next_nap_ns();
    // A member whose bell rings again and again for nothing costs us naps, and not a core.
    if (looks >= kFruitlessLooksMax) {
      os::nap_until(std::min(deadline, Deadline::after(std::chrono::nanoseconds(nap_ns))));
    }
    frame = sleep_and_claim(purpose, deadline, nap_ns, interrupts, look);
  }
  return frame;
}

Result<WritableFrame> PublisherCore::sleep_and_claim(const Purpose& purpose, Deadline deadline,
                                                     std::int64_t nap_ns, std::uint32_t interrupts,
                                                     SlotRing::Look& last) {
  // Counted as a waiter, and the bells read, before the slots are scanned again.
  Sleep sleep(*this);
  SlotRing::Look look{.first = false};
  Result<WritableFrame> frame = claim_once(purpose, look);
  last = look;
  if (!frame.failed_with(Code::full) || look.hopeless) return frame;
  if (interrupts_.load(std::memory_order_acquire) == interrupts) {
    // At the end of a lease nobody rings: the next look finds its holder overdue.
    sleep.wait(std::min(deadline, look.lease_end), look.work_pending, nap_ns);
  }
  frame = claim_once(purpose, look);
  last = look;
  return frame;
}

PublisherCore::Sleep::Sleep(PublisherCore& core)
    : core_(core), ring_(core.ring()), members_(ring_->members()) {
  ring_->add_claim_waiter();
  VRAMLINK_STEP("claim.waiting");
  for (const std::shared_ptr<Member>& member : *members_) {
    const wire::AtomicU32& bell = member->words->free_bell;
    waiters_[count_++] = {&bell, bell.load(std::memory_order_seq_cst)};
  }
  waiters_[count_++] = {&core_.local_bell_, core_.local_bell_.load(std::memory_order_seq_cst)};
  // The list may have changed before the bell of changes was read.
  if (ring_->members() != members_ || core_.ring() != ring_) stale_ = true;
}

PublisherCore::Sleep::~Sleep() { ring_->remove_claim_waiter(); }

void PublisherCore::Sleep::wait(Deadline deadline, bool work_pending, std::int64_t nap_ns) {
  if (stale_) return;
  // After the bells were read: a subscriber sets the flag before it rings.
  const bool by_stream = std::any_of(members_->begin(), members_->end(), [](const auto& member) {
    return member->words->flags.load(std::memory_order_acquire) & wire::kReleasesByStream;
  });
  if (by_stream || work_pending) {
    deadline = std::min(deadline, Deadline::after(std::chrono::nanoseconds(nap_ns)));
  }
  // A peer that was stopped between letting go and ringing must not keep us for as long as it is.
  if (claim_sleeps_limited.load(std::memory_order_relaxed)) {
    deadline = std::min(deadline, Deadline::after(kSleepMax));
  }
  static_cast<void>(os::futex_wait_any({waiters_.data(), count_}, deadline));
}

}  // namespace vramlink::inline v0::channel
