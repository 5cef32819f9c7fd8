// See download.hpp.
#include "download.hpp"

#include <utility>

namespace vramlink::cli {

Download::Download(const Runtime& runtime, Downloader downloader, const DeviceId& device,
                   std::uint64_t frame_bytes_max, bool ahead) noexcept
    : runtime_(&runtime),
      downloader_(std::move(downloader)),
      device_(device),
      frame_bytes_max_(frame_bytes_max),
      ahead_(ahead) {}

Result<Downloader> Download::open_for(const Runtime& runtime, const DeviceId& device,
                                      std::uint64_t frame_bytes_max, bool ahead) {
  // Not the Downloader's own `ahead`: what that takes by itself and cannot copy is lost.
  return Downloader::open(runtime, device, frame_bytes_max,
                          {.buffer_count = ahead ? 2U : 1U, .ahead = false});
}

Result<Download> Download::open(const Runtime& runtime, const Subscriber& subscriber, bool ahead) {
  const DeviceId device = subscriber.device();
  const std::uint64_t frame_bytes_max = subscriber.format().payload_bytes;
  auto downloader = open_for(runtime, device, frame_bytes_max, ahead);
  if (!downloader) return std::move(downloader).error();
  return Download(runtime, *std::move(downloader), device, frame_bytes_max, ahead);
}

bool Download::fits(const Frame& frame) const {
  return frame.device() == device_ && frame.size_bytes() <= frame_bytes_max_;
}

Result<void> Download::submit() {
  if (!fits(*arrived_)) {
    auto reopened = open_for(*runtime_, arrived_->device(), arrived_->size_bytes(), ahead_);
    if (!reopened) return std::move(reopened).error();
    downloader_ = *std::move(reopened);
    device_ = arrived_->device();
    frame_bytes_max_ = arrived_->size_bytes();
  }
  auto submitted = downloader_.submit(*std::move(arrived_), StreamView::already_complete());
  arrived_.reset();
  return submitted;
}

void Download::look_ahead(Subscriber& subscriber) {
  // On the host a frame that is taken ahead only gets old.
  if (arrived_ || outcome_ || device_.is_host()) return;
  auto frame = subscriber.try_receive();
  if (frame) {
    arrived_ = *std::move(frame);
    // Else when the one before it has been read: its buffer lives in the Downloader as it is.
    if (!fits(*arrived_)) return;
    if (auto submitted = submit(); !submitted) outcome_ = std::move(submitted).error();
    return;
  }
  // Neither says anything about what comes after the frames that are here.
  const Code code = frame.error().code();
  if (code != Code::empty && code != Code::resource_exhausted) outcome_ = std::move(frame).error();
}

Result<HostFrame> Download::receive(Subscriber& subscriber, Deadline deadline) {
  if (downloader_.submitted_count() == 0) {
    if (!arrived_) {
      if (outcome_) {
        Error outcome = *std::move(outcome_);
        outcome_.reset();
        return outcome;
      }
      auto frame = subscriber.receive(deadline);
      if (!frame) return std::move(frame).error();
      arrived_ = *std::move(frame);
    }
    if (auto submitted = submit(); !submitted) return std::move(submitted).error();
  }
  if (ahead_) look_ahead(subscriber);
  return downloader_.next(deadline);
}

}  // namespace vramlink::cli
