// The public Subscriber and Frame over SubscriberCore and SubscriberSession.
#include <utility>

#include <vramlink/channel.hpp>

#include "base/try.hpp"
#include "channel/device_wait.hpp"
#include "channel/inert.hpp"
#include "channel/subscriber_core.hpp"
#include "os/fork_guard.hpp"

namespace vramlink::inline v0 {

using channel::SubscriberCore;

Frame::Frame(Frame&& other) noexcept
    : session_(std::move(other.session_)), slot_(std::exchange(other.slot_, {})) {}

Frame& Frame::operator=(Frame&& other) noexcept {
  if (this == &other) return *this;
  release();
  session_ = std::move(other.session_);
  slot_ = std::exchange(other.slot_, {});
  return *this;
}

Frame::~Frame() { release(); }

void Frame::release() noexcept {
  if (!session_ || channel::leak_if_forked(session_)) return;
  if (slot_.stream.is_already_complete()) {
    session_->release(slot_.index, slot_.hold_number);
  } else {
    session_->drop_behind(slot_.stream, slot_.index, slot_.hold_number);
  }
  session_.reset();
  slot_ = {};
}

Result<ReleaseReceipt> Frame::release(StreamView stream) {
  VRAMLINK_CHECK(os::require_not_forked("release frame"));
  if (!session_) {
    return Error(Code::wrong_state, "release frame")
        .because("the frame was released or moved already");
  }
  ReleaseReceipt receipt;
  receipt.hold_number_ = slot_.hold_number;
  receipt.slot_index_ = slot_.index;
  if (slot_.waited) receipt.verdict_ = session_->stream_work()->verdict(slot_.index);
  VRAMLINK_CHECK(session_->release_behind(slot_.stream, stream, slot_.index, slot_.hold_number));
  if (!stream.is_already_complete()) receipt.work_ = session_->stream_work();
  session_.reset();
  slot_ = {};
  return receipt;
}

bool Frame::aborted() const noexcept {
  if (!slot_.waited || os::in_forked_child()) return false;
  return session_->stream_work()->verdict(slot_.index)->aborted.load(std::memory_order_acquire);
}

bool ReleaseReceipt::ready() const noexcept {
  if (os::in_forked_child()) return false;
  return !work_ || work_->has_released(slot_index_, hold_number_);
}

bool ReleaseReceipt::aborted() const noexcept {
  return verdict_ && verdict_->aborted.load(std::memory_order_acquire);
}

Result<void> ReleaseReceipt::wait(Deadline deadline) const {
  VRAMLINK_CHECK(os::require_not_forked("wait for release"));
  if (work_) {
    VRAMLINK_CHECK(channel::wait_for_device("wait for release", work_->backend(), deadline,
                                            [this] { return ready(); }));
  }
  if (aborted()) return Error(Code::aborted, "wait for release");
  return {};
}

const Format& Frame::format() const& noexcept { return session_->facts().format; }

const DeviceId& Frame::device() const& noexcept { return session_->device(); }

bool Frame::is_copy() const noexcept { return session_->copies_frames(); }

std::uint64_t Frame::epoch() const noexcept { return session_->facts().epoch; }

std::uint64_t Frame::generation() const noexcept { return session_->facts().generation; }

std::span<const std::byte> Frame::user_data() const& noexcept {
  if (!session_ || os::in_forked_child()) return {};  // in a child the words are not mapped
  const auto& words = session_->header(slot_.index).user;
  return {reinterpret_cast<const std::byte*>(words), slot_.user_bytes};
}

Subscriber::Subscriber(std::shared_ptr<SubscriberCore> core) noexcept : core_(std::move(core)) {}
Subscriber::Subscriber(Subscriber&&) noexcept = default;

Subscriber& Subscriber::operator=(Subscriber&& other) noexcept {
  if (this == &other) return *this;
  Subscriber old(std::move(*this));
  core_ = std::move(other.core_);
  return *this;
}

Subscriber::~Subscriber() {
  if (!core_ || channel::leak_if_forked(core_)) return;
  core_->shut_down();
}

Result<Subscriber> Subscriber::open(const Runtime& runtime, std::string_view name,
                                    Deadline deadline, const SubscriberOptions& options) {
  return Subscriber(VRAMLINK_TRY(SubscriberCore::open(runtime, name, deadline, options)));
}

Result<Frame> Subscriber::try_receive() { return core_->try_receive(); }
Result<Frame> Subscriber::receive(Deadline deadline) { return core_->receive(deadline); }
Result<Frame> Subscriber::try_receive(StreamView stream, Deadline wait_until) {
  return core_->try_receive(stream, wait_until);
}
Result<Frame> Subscriber::receive(StreamView stream, Deadline deadline) {
  return core_->receive(stream, deadline);
}
Result<int> Subscriber::readiness_fd() { return core_->readiness_fd(); }
void Subscriber::interrupt() noexcept { core_->interrupt(); }
const std::string& Subscriber::name() const noexcept { return core_->name(); }
Format Subscriber::format() const { return core_->format(); }
DeviceId Subscriber::device() const { return core_->device(); }
std::uint32_t Subscriber::granted_queue_depth() const noexcept {
  return core_->granted_queue_depth();
}
SubscriberStatistics Subscriber::statistics() const { return core_->statistics(); }

}  // namespace vramlink::inline v0
