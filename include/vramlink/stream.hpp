// The caller's in-order queue of device work, borrowed: for the length of a call, and where a frame
// is claimed or received with it until that frame is published, released or dropped.
#ifndef VRAMLINK_STREAM_HPP
#define VRAMLINK_STREAM_HPP

#include <cstdint>

namespace vramlink::inline v0 {

/// Names the queue that work on a frame is ordered with. It is always an argument: no call picks a
/// stream by omission. A view: the stream stays the caller's.
class StreamView {
 public:
  /// The bytes are final when the call is made (or, for a reader, no longer used): nothing to order
  /// behind. The only stream of the host device.
  [[nodiscard]] static constexpr StreamView already_complete() noexcept {
    return StreamView(Kind::already_complete, 0);
  }
  /// A CUstream or cudaStream_t of the device that the memory lives on.
  [[nodiscard]] static StreamView cuda(void* stream) noexcept {
    return StreamView(Kind::cuda, reinterpret_cast<std::uintptr_t>(stream));
  }

  [[nodiscard]] constexpr bool is_already_complete() const noexcept {
    return kind_ == Kind::already_complete;
  }
  [[nodiscard]] constexpr std::uintptr_t handle() const noexcept { return handle_; }
  friend constexpr bool operator==(StreamView, StreamView) noexcept = default;

 private:
  enum class Kind : std::uint8_t { already_complete, cuda };
  constexpr StreamView(Kind kind, std::uintptr_t handle) noexcept : kind_(kind), handle_(handle) {}
  Kind kind_;
  std::uintptr_t handle_;
};

/// What a program that works on the CPU passes: its bytes are final when it makes the call.
inline constexpr StreamView kAlreadyComplete = StreamView::already_complete();

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_STREAM_HPP
