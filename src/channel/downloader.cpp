// The public Downloader and HostFrame over DownloaderCore.
#include <utility>

#include <vramlink/host_copy.hpp>

#include "base/try.hpp"
#include "channel/downloader_core.hpp"
#include "channel/inert.hpp"

namespace vramlink::inline v0 {

using channel::DownloaderCore;

HostFrame::HostFrame(std::shared_ptr<DownloaderCore> core, std::uint32_t index,
                     std::span<const std::byte> bytes) noexcept
    : core_(std::move(core)), bytes_(bytes), index_(index) {}
HostFrame::HostFrame(HostFrame&& other) noexcept
    : core_(std::move(other.core_)),
      bytes_(std::exchange(other.bytes_, {})),
      index_(other.index_) {}

HostFrame& HostFrame::operator=(HostFrame&& other) noexcept {
  if (this == &other) return *this;
  release();
  core_ = std::move(other.core_);
  bytes_ = std::exchange(other.bytes_, {});
  index_ = other.index_;
  return *this;
}

HostFrame::~HostFrame() { release(); }

void HostFrame::release() noexcept {
  if (!core_ || channel::leak_if_forked(core_)) return;
  core_->release(index_);
  core_.reset();
  bytes_ = {};
}

const Format& HostFrame::format() const& noexcept { return core_->facts(index_).format; }
std::uint64_t HostFrame::sequence() const noexcept { return core_->facts(index_).sequence; }
std::uint64_t HostFrame::epoch() const noexcept { return core_->facts(index_).epoch; }
std::int64_t HostFrame::publish_ns() const noexcept { return core_->facts(index_).publish_ns; }
std::int64_t HostFrame::media_ns() const noexcept { return core_->facts(index_).media_ns; }
std::uint32_t HostFrame::flags() const noexcept { return core_->facts(index_).flags; }
std::span<const std::byte> HostFrame::user_data() const& noexcept {
  const DownloaderCore::Facts& facts = core_->facts(index_);
  return {facts.user_data.data(), facts.user_bytes};
}

Downloader::Downloader(std::shared_ptr<DownloaderCore> core) noexcept : core_(std::move(core)) {}
Downloader::Downloader(Downloader&&) noexcept = default;

Downloader& Downloader::operator=(Downloader&& other) noexcept {
  if (this == &other) return *this;
  Downloader old(std::move(*this));
  core_ = std::move(other.core_);
  return *this;
}

Downloader::~Downloader() {
  if (core_) channel::leak_if_forked(core_);
}

Result<Downloader> Downloader::open(const Runtime& runtime, const DeviceId& device,
                                    std::uint64_t frame_bytes_max,
                                    const DownloaderOptions& options) {
  return Downloader(VRAMLINK_TRY(DownloaderCore::open(runtime, device, frame_bytes_max, options)));
}

Result<HostFrame> Downloader::receive(Subscriber& subscriber, Deadline deadline) {
  return core_->receive(subscriber, deadline);
}
Result<void> Downloader::submit(Frame&& frame, StreamView stream) {
  return core_->submit(std::move(frame), stream);
}
Result<HostFrame> Downloader::next(Deadline deadline) { return core_->next(deadline); }
std::uint32_t Downloader::submitted_count() const noexcept { return core_->submitted_count(); }

}  // namespace vramlink::inline v0
