// cli: in place on the host, by upload on a GPU.
#include "frame_writer.hpp"

#include <chrono>
#include <utility>

namespace vramlink::cli {
namespace {

/// An upload takes milliseconds; longer is a GPU that stands still.
constexpr std::chrono::seconds kUploadWait{10};

}  // namespace

Result<FrameWriter> FrameWriter::make(const Runtime& runtime, Publisher& publisher,
                                      const DeviceId& device) {
  FrameWriter writer(publisher);
  if (device.is_host()) return writer;
  for (std::optional<Upload>& each : writer.uploads_) {
    auto buffer = PinnedBuffer::allocate(runtime, device, publisher.format().payload_bytes);
    if (!buffer) return std::move(buffer).error();
    each.emplace(Upload{*std::move(buffer), std::nullopt});
  }
  return writer;
}

Result<std::span<std::byte>> FrameWriter::begin(Deadline deadline) {
  std::optional<Upload>& upload = uploads_[turn_];
  if (!upload) {
    auto frame = deadline == Deadline::passed() ? publisher_->try_claim(kAlreadyComplete)
                                                : publisher_->claim(kAlreadyComplete, deadline);
    if (!frame) return std::move(frame).error();
    frame_ = *std::move(frame);
    return frame_->bytes();
  }
  if (upload->receipt) {
    auto uploaded = upload->receipt->wait(kUploadWait);
    if (!uploaded) return std::move(uploaded).error();
    upload->receipt.reset();
  }
  return upload->buffer.bytes();
}

Result<Receipt> FrameWriter::publish(const FrameInfo& info, Deadline deadline) {
  std::optional<Upload>& upload = uploads_[turn_];
  if (!upload) {
    WritableFrame frame = *std::move(frame_);
    frame_.reset();
    return publisher_->publish(std::move(frame), kAlreadyComplete, info);
  }
  turn_ = (turn_ + 1) % uploads_.size();
  auto receipt =
      deadline == Deadline::passed()
          ? publisher_->try_publish_copy(upload->buffer.bytes(), kAlreadyComplete, info)
          : publisher_->publish_copy(upload->buffer.bytes(), kAlreadyComplete, deadline, info);
  if (receipt) upload->receipt = *receipt;
  return receipt;
}

}  // namespace vramlink::cli
