// What a Downloader is behind its pointer: host buffers, and the copies into them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <vramlink/host_copy.hpp>
#include <vramlink/result.hpp>

#include "backend/backend.hpp"
#include "os/shared_segment.hpp"
#include "runtime/process_state.hpp"

namespace vramlink::inline v0::channel {

/// Owned by the Downloader and by every HostFrame; ends on the janitor, once no copy runs.
///
///   buffer:  idle -> copying (submit) -> handed (next) -> idle (release)
///                        `-> lost: the device failed, and may write to it still
///
/// All members are the Downloader's thread's, but `state` going back to idle, which any thread may
/// cause.
class DownloaderCore : public std::enable_shared_from_this<DownloaderCore> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<DownloaderCore>> open(
      const Runtime& runtime, const DeviceId& device, std::uint64_t frame_bytes_max,
      const DownloaderOptions& options);

  [[nodiscard]] Result<HostFrame> receive(Subscriber& subscriber, Deadline deadline);
  [[nodiscard]] Result<void> submit(Frame&& frame, StreamView stream);
  [[nodiscard]] Result<HostFrame> next(Deadline deadline);
  [[nodiscard]] std::uint32_t submitted_count() const noexcept { return submitted_count_; }

  /// What travels beside the bytes. A copy: the frame's own is gone with its slot.
  struct Facts {
    Format format;
    std::uint64_t sequence = 0;
    std::uint64_t epoch = 0;
    std::int64_t publish_ns = 0;
    std::int64_t media_ns = 0;
    std::uint32_t flags = 0;
    std::uint32_t user_bytes = 0;
    std::array<std::byte, kUserDataBytesMax> user_data{};
  };
  [[nodiscard]] const Facts& facts(std::uint32_t index) const noexcept {
    return buffers_[index].facts;
  }
  void release(std::uint32_t index) noexcept;
  /// For the janitor: no copy writes to the buffers any more.
  [[nodiscard]] bool may_end() noexcept;

 private:
  enum class State : std::uint8_t { idle, copying, handed, lost };
  struct Buffer {
    std::atomic<State> state{State::idle};
    std::byte* data = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t ticket = 0;  ///< its done word, once the copy is complete
    /// On the host the frame itself; else of a subscriber without stream order, until next().
    std::optional<Frame> frame;
    std::optional<ReleaseReceipt> released;  ///< behind the copy
    Facts facts;
  };

  explicit DownloaderCore(const DownloaderOptions& options) noexcept : options_(options) {}
  [[nodiscard]] Result<void> make_buffers(std::uint64_t frame_bytes_max);
  [[nodiscard]] std::optional<std::uint32_t> idle_buffer() const noexcept;
  /// full, or why the device took them all.
  [[nodiscard]] Error no_buffer() const;
  [[nodiscard]] Result<void> start_copy(std::uint32_t index, StreamView stream);
  [[nodiscard]] Result<void> give_back(Buffer& buffer, StreamView own);
  [[nodiscard]] Result<void> wait_copied(const Buffer& buffer, std::uint32_t index,
                                         Deadline deadline) const;
  [[nodiscard]] bool is_copied(const Buffer& buffer, std::uint32_t index) const noexcept;
  /// Submits what the subscriber has, as far as buffers are idle; remembers an outcome.
  void fill(Subscriber& subscriber);

  const DownloaderOptions options_;
  std::shared_ptr<runtime::ProcessState> process_;
  backend::Backend* backend_ = nullptr;
  std::uint64_t frame_bytes_max_ = 0;
  os::Mapping mapping_;  ///< a page of done words, then the buffers
  std::unique_ptr<backend::RegisteredWords> registered_;
  std::unique_ptr<backend::CopyQueue> queue_;  ///< null on the host
  std::vector<Buffer> buffers_;                ///< never changes its size: a HostFrame refers to it
  std::array<std::uint32_t, kDownloadBufferCountMax> submitted_{};  ///< a ring of indices
  std::uint32_t submitted_first_ = 0;
  std::uint32_t submitted_count_ = 0;
  std::optional<Error> failure_;  ///< why a buffer was lost
  std::optional<Error> outcome_;  ///< of the subscriber, after what is submitted
};

}  // namespace vramlink::inline v0::channel
