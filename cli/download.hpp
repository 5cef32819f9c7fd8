// cli: the frames of a subscriber in host memory, whatever publishers come.
#pragma once

#include <cstdint>
#include <optional>

#include <vramlink/channel.hpp>
#include <vramlink/host_copy.hpp>
#include <vramlink/runtime.hpp>

namespace vramlink::cli {

/// A Downloader that is opened anew for frames which do not fit it: of the next publisher, whose
/// frames may be larger or live on another device, or of a generation with another format. No frame
/// is lost over that. One thread.
class Download {
 public:
  /// `ahead`: one frame is on its way while another is read. Codes: as Downloader::open.
  [[nodiscard]] static Result<Download> open(const Runtime& runtime, const Subscriber& subscriber,
                                             bool ahead);

  /// The next frame. An outcome is reported after the frames that came before it. Codes: as
  /// Downloader::receive and Downloader::open.
  [[nodiscard]] Result<HostFrame> receive(Subscriber& subscriber, Deadline deadline);

 private:
  Download(const Runtime& runtime, Downloader downloader, const DeviceId& device,
           std::uint64_t frame_bytes_max, bool ahead) noexcept;
  [[nodiscard]] static Result<Downloader> open_for(const Runtime& runtime, const DeviceId& device,
                                                   std::uint64_t frame_bytes_max, bool ahead);
  [[nodiscard]] bool fits(const Frame& frame) const;
  /// Hands on what has arrived.
  [[nodiscard]] Result<void> submit();
  void look_ahead(Subscriber& subscriber);

  const Runtime* runtime_;
  Downloader downloader_;
  DeviceId device_;
  std::uint64_t frame_bytes_max_;
  bool ahead_;
  std::optional<Frame> arrived_;  ///< not submitted yet
  std::optional<Error> outcome_;  ///< of the subscriber, after all of these
};

}  // namespace vramlink::cli
