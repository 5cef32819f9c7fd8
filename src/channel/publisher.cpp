// The public Publisher, WritableFrame and Receipt over PublisherCore.
#include <utility>

#include <vramlink/channel.hpp>

#include "base/try.hpp"
#include "channel/device_wait.hpp"
#include "channel/inert.hpp"
#include "channel/publisher_core.hpp"
#include "os/fork_guard.hpp"

namespace vramlink::inline v0 {

using channel::PublisherCore;

namespace {

/// Of a slot that is claimed for a copy: the copy is its first work, and checks the caller's
/// stream.
constexpr StreamView kNotYetWritten = StreamView::already_complete();

}  // namespace

WritableFrame::WritableFrame(WritableFrame&& other) noexcept
    : core_(std::move(other.core_)), slot_(std::exchange(other.slot_, {})) {}

WritableFrame& WritableFrame::operator=(WritableFrame&& other) noexcept {
  if (this == &other) return *this;
  abandon();
  core_ = std::move(other.core_);
  slot_ = std::exchange(other.slot_, {});
  return *this;
}

WritableFrame::~WritableFrame() { abandon(); }

void WritableFrame::abandon() noexcept {
  if (!core_) return;
  if (channel::leak_if_forked(core_)) {
    channel::leak_if_forked(slot_.ring);
    return;
  }
  core_->abandon(*this);
  core_.reset();
}

bool Receipt::ready() const noexcept {
  return !os::in_forked_child() && generation_->complete(slot_index_, ticket_);
}

Result<void> Receipt::wait(Deadline deadline) const {
  VRAMLINK_CHECK(os::require_not_forked("wait for frame"));
  return channel::wait_for_device("wait for frame", *generation_->backend, deadline,
                                  [this] { return ready(); });
}

Publisher::Publisher(std::shared_ptr<PublisherCore> core) noexcept : core_(std::move(core)) {}
Publisher::Publisher(Publisher&&) noexcept = default;

Publisher& Publisher::operator=(Publisher&& other) noexcept {
  if (this == &other) return *this;
  Publisher old(std::move(*this));
  core_ = std::move(other.core_);
  return *this;
}

Publisher::~Publisher() {
  if (!core_ || channel::leak_if_forked(core_)) return;
  core_->shut_down();
}

Result<Publisher> Publisher::open(const Runtime& runtime, std::string_view name,
                                  const Format& format, const PublisherOptions& options) {
  return Publisher(VRAMLINK_TRY(PublisherCore::open(runtime, name, format, options)));
}

Result<WritableFrame> Publisher::try_claim(StreamView stream) {
  return core_->try_claim({.stream = stream});
}

Result<WritableFrame> Publisher::claim(StreamView stream, Deadline deadline) {
  return core_->claim({.stream = stream}, deadline);
}

Result<Receipt> Publisher::publish(WritableFrame&& frame, StreamView stream,
                                   const FrameInfo& info) {
  Result<Receipt> receipt = core_->publish(frame, stream, info);
  const WritableFrame consumed(std::move(frame));  // abandons what was not published
  return receipt;
}

Result<Receipt> Publisher::try_publish_copy(std::span<const std::byte> source, StreamView stream,
                                            const FrameInfo& info) {
  WritableFrame frame =
      VRAMLINK_TRY(core_->try_claim({.stream = kNotYetWritten, .source = &source}));
  return core_->publish_copy(frame, source, stream, info);
}

Result<Receipt> Publisher::publish_copy(std::span<const std::byte> source, StreamView stream,
                                        Deadline deadline, const FrameInfo& info) {
  WritableFrame frame =
      VRAMLINK_TRY(core_->claim({.stream = kNotYetWritten, .source = &source}, deadline));
  return core_->publish_copy(frame, source, stream, info);
}

Result<void> Publisher::resize(const Format& format, Deadline deadline,
                               const ResizeOptions& options) {
  return core_->resize(format, deadline, options);
}

Result<void> Publisher::wait_for_subscribers(std::uint32_t count, Deadline deadline) {
  return core_->wait_for_subscribers(count, deadline);
}

Result<void> Publisher::close(Deadline deadline) { return core_->close(deadline); }
void Publisher::interrupt() noexcept { core_->interrupt(); }
const std::string& Publisher::name() const noexcept { return core_->name(); }
Format Publisher::format() const noexcept { return core_->format(); }
PublisherStatistics Publisher::statistics() const { return core_->statistics(); }

}  // namespace vramlink::inline v0
