// cli: frames that the CPU draws, into a channel on whatever device.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include <vramlink/channel.hpp>
#include <vramlink/host_copy.hpp>

namespace vramlink::cli {

/// begin(), fill the bytes, publish(); and so on. On the host the bytes are the slot itself; for a
/// GPU they are one of two pinned buffers, of which the other is still being uploaded. One thread.
class FrameWriter {
 public:
  /// `publisher` on `device`; outlives this.
  [[nodiscard]] static Result<FrameWriter> make(const Runtime& runtime, Publisher& publisher,
                                                const DeviceId& device);

  /// Where to draw. Deadline::passed(): does not wait for a slot. Codes: those of claim.
  [[nodiscard]] Result<std::span<std::byte>> begin(Deadline deadline);
  /// Publishes what was drawn. Codes: those of publish and, where a slot is claimed now, of claim;
  /// after a failure what was drawn is gone.
  [[nodiscard]] Result<Receipt> publish(const FrameInfo& info, Deadline deadline);

 private:
  struct Upload {
    PinnedBuffer buffer;
    std::optional<Receipt> receipt;  ///< of the frame copied out of it last
  };

  explicit FrameWriter(Publisher& publisher) noexcept : publisher_(&publisher) {}

  Publisher* publisher_;
  std::optional<WritableFrame> frame_;            ///< on the host
  std::array<std::optional<Upload>, 2> uploads_;  ///< for a GPU
  std::size_t turn_ = 0;
};

}  // namespace vramlink::cli
