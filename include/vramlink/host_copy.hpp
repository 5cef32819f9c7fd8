// Frames between a device and the CPU: host memory that a device copies from and to at full speed,
// and downloads of which the next runs while the CPU reads this one.
//
//   up:    PinnedBuffer -> Publisher::publish_copy
//   down:  Subscriber -> Downloader::receive -> HostFrame -> release      (or dropped: released)
#ifndef VRAMLINK_HOST_COPY_HPP
#define VRAMLINK_HOST_COPY_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <vramlink/channel.hpp>
#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/export.hpp>
#include <vramlink/format.hpp>
#include <vramlink/result.hpp>
#include <vramlink/runtime.hpp>
#include <vramlink/stream.hpp>

namespace vramlink::inline v0 {

namespace channel {
class DownloaderCore;
}  // namespace channel

/// Host memory of one process that a device reads and writes by itself, at the speed of its bus:
/// registered with the driver, never swapped. For the host device it is plain memory, so that one
/// program serves both. Move-only; a moved-from one may only be destroyed or assigned.
///
/// Make it before frames flow, and keep it: giving it back holds up what this process submits to
/// the device meanwhile. Copies out of it must be complete first (Receipt::ready). The destructor
/// never waits; the library's own thread gives the memory back. In a forked child the bytes are the
/// parent's, and the destructor does nothing.
class VRAMLINK_API PinnedBuffer {
 public:
  /// `size_bytes` zeros at an address that is a multiple of 4096. Codes: invalid_argument (0
  /// bytes), no_device, unsupported, no_driver, out_of_memory, resource_exhausted, driver, os,
  /// wrong_state (forked child).
  [[nodiscard]] static Result<PinnedBuffer> allocate(const Runtime& runtime, const DeviceId& device,
                                                     std::uint64_t size_bytes);
  PinnedBuffer(PinnedBuffer&&) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&&) noexcept;
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer();

  [[nodiscard]] std::byte* data() const& noexcept { return bytes_.data(); }
  [[nodiscard]] std::byte* data() const&& = delete;
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::span<std::byte> bytes() const& noexcept { return bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() const&& = delete;

 private:
  struct State;
  PinnedBuffer(std::shared_ptr<State> state, std::span<std::byte> bytes) noexcept;

  std::shared_ptr<State> state_;
  std::span<std::byte> bytes_;
};

/// One frame in host memory: the right to read one buffer of a Downloader. Move-only; dropping
/// gives the buffer back. May outlive its Downloader, Subscriber and publisher.
class VRAMLINK_API HostFrame {
 public:
  HostFrame(HostFrame&&) noexcept;
  HostFrame& operator=(HostFrame&&) noexcept;
  HostFrame(const HostFrame&) = delete;
  HostFrame& operator=(const HostFrame&) = delete;
  ~HostFrame();

  /// Null once it was released or moved. Not of a temporary: the buffer would be gone with it.
  [[nodiscard]] const std::byte* data() const& noexcept { return bytes_.data(); }
  [[nodiscard]] const std::byte* data() const&& = delete;
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const& noexcept { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const&& = delete;
  /// The same as elements. Codes: invalid_argument (the frame has another dtype), wrong_state (it
  /// was released or moved).
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const&;
  template <class T>
  [[nodiscard]] Result<std::span<const T>> as() const&& = delete;

  // What the Frame said; valid while this is held.
  [[nodiscard]] const Format& format() const& noexcept;
  [[nodiscard]] const Format& format() const&& = delete;
  [[nodiscard]] std::uint64_t sequence() const noexcept;
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  [[nodiscard]] std::int64_t publish_ns() const noexcept;
  [[nodiscard]] std::int64_t media_ns() const noexcept;
  [[nodiscard]] std::uint32_t flags() const noexcept;
  [[nodiscard]] std::span<const std::byte> user_data() const& noexcept;
  [[nodiscard]] std::span<const std::byte> user_data() const&& = delete;

  /// Gives the buffer back. Never blocks. A second call does nothing.
  void release() noexcept;

 private:
  friend class channel::DownloaderCore;
  HostFrame(std::shared_ptr<channel::DownloaderCore> core, std::uint32_t index,
            std::span<const std::byte> bytes) noexcept;

  std::shared_ptr<channel::DownloaderCore> core_;
  std::span<const std::byte> bytes_;
  std::uint32_t index_ = 0;
};

inline constexpr std::uint32_t kDownloadBufferCountMin = 1;
inline constexpr std::uint32_t kDownloadBufferCountMax = 16;

struct DownloaderOptions {
  /// Frames that are copied or held at once, 1 to 16. With 2, one is copied while the program reads
  /// the other.
  std::uint32_t buffer_count = 2;
  /// receive() starts the copy of the next frame, if one is there, before it hands one out. That
  /// frame waits in host memory meanwhile, and may not be the newest any more when it is asked for:
  /// right for queues, and where throughput counts. false: always the frame that is the newest now.
  bool ahead = true;
};

/// Brings the frames of one device to host memory. A frame's slot goes back to its publisher when
/// its copy is complete, whether or not the program asks for it then; of a subscriber without
/// stream order only with next() or receive(). On the host device nothing is copied: a HostFrame is
/// the Frame itself, and holds the slot. Move-only. Nothing is allocated after open(). The
/// destructor never waits. Thread-safety: one thread at a time; a HostFrame may be read and
/// released on any.
class VRAMLINK_API Downloader {
 public:
  /// For frames of at most `frame_bytes_max`, which counts for nothing on the host. Codes:
  /// invalid_argument, and those of PinnedBuffer::allocate.
  [[nodiscard]] static Result<Downloader> open(const Runtime& runtime, const DeviceId& device,
                                               std::uint64_t frame_bytes_max,
                                               const DownloaderOptions& options = {});
  Downloader(Downloader&&) noexcept;
  Downloader& operator=(Downloader&&) noexcept;
  Downloader(const Downloader&) = delete;
  Downloader& operator=(const Downloader&) = delete;
  ~Downloader();

  /// The subscriber's next frame, in host memory; frames come in the order in which the subscriber
  /// gave them. An outcome of the subscriber (closed, peer_gone, ...) is reported after the frames
  /// that came before it. Codes: those of Subscriber::receive and of submit and next, but empty;
  /// full if the program holds all buffers.
  [[nodiscard]] Result<HostFrame> receive(Subscriber& subscriber, Deadline deadline);

  /// Starts to copy a frame once all work that is in `stream` now is complete, and takes it; an
  /// already complete stream fits a frame of receive(deadline). Never blocks. On `full` (all
  /// buffers are copied to or held) and `invalid_argument` (larger than frame_bytes_max, or of
  /// another device) the frame stays the caller's; otherwise it is gone. Codes: those two, driver,
  /// wrong_state.
  [[nodiscard]] Result<void> submit(Frame&& frame, StreamView stream);
  /// The oldest submitted frame, as soon as its copy is complete. Codes: empty (none is submitted),
  /// timed_out (it stays submitted), aborted (its publisher died before the frame was complete),
  /// driver (the device failed; the frame is lost).
  [[nodiscard]] Result<HostFrame> next(Deadline deadline);
  /// Frames submitted and not handed out.
  [[nodiscard]] std::uint32_t submitted_count() const noexcept;

 private:
  explicit Downloader(std::shared_ptr<channel::DownloaderCore> core) noexcept;
  std::shared_ptr<channel::DownloaderCore> core_;
};

template <class T>
Result<std::span<const T>> HostFrame::as() const& {
  const DType dtype = bytes_.data() ? format().dtype : DType::uint8;
  if (Result<void> same = check_elements(bytes_.data(), dtype, dtype_of<T>()); !same) {
    return same.error();
  }
  return std::span<const T>(reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T));
}

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_HOST_COPY_HPP
