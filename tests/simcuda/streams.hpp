// Queues of the device and how work gets into them.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace vramlink::simcuda {

/// What a stream handle stands for; also the default streams 0, 1 and 2.
struct StreamRef {
  std::uint32_t slot = kNoRange;
  std::uint32_t context = 0;
  bool is_legacy = false;    ///< the default stream, which waits for all blocking ones
  bool is_blocking = false;  ///< waits for the default stream
};

/// success, invalid_handle, invalid_context or out_of_memory.
Status find_stream(api::Stream handle, StreamRef& stream) noexcept;

/// Takes a drained queue; kNoRange if there are too many.
std::uint32_t take_slot(std::uint32_t context, int device, bool is_blocking) noexcept;

/// Calls `visit(slot)` for each queue with work of the context.
template <class Visit>
void for_each_slot(std::uint32_t context, const Visit& visit) noexcept {
  const std::uint32_t count = device_state.slot_count.load();
  for (std::uint32_t i = 0; i < count; ++i) {
    StreamSlot& slot = device_state.slots[i];
    if (slot.context == context && slot.completed.load() < slot.tail.load()) visit(slot);
  }
}

/// Whether a submission stays behind the calls of other threads that stop while the context is at
/// work (block_while_busy). Words and waits for events do not.
enum class Stops : std::uint8_t { passes, stays_behind };

/// One call's work. The device sees it as a whole when commit() publishes it.
class Submission {
 public:
  /// Makes room for `count` ops; waits for the device, without the lock, while the queue is full.
  /// Not success if the stream was destroyed meanwhile, or the device is gone.
  Status begin(api::Stream handle, std::uint64_t count, Stops stops) noexcept;
  [[nodiscard]] Op& add(OpKind kind) noexcept;
  void commit() noexcept;

  [[nodiscard]] const StreamRef& stream() const noexcept { return stream_; }
  [[nodiscard]] StreamSlot& slot() const noexcept { return device_state.slots[stream_.slot]; }
  [[nodiscard]] int device() const noexcept { return slot().device; }
  /// The position behind all that was added: complete when slot().completed reaches it.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }

 private:
  void add_wait(const StreamSlot& other) noexcept;

  StreamRef stream_;
  std::uint64_t end_ = 0;
};

/// Waits until all that is in the slot now is complete; the context's fault if it has one.
Status synchronize(StreamSlot& slot) noexcept;
/// The same for all work of a context.
Status synchronize_context(std::uint32_t context) noexcept;
/// What the driver does in the four calls that stop while a stream of the context is at work.
Status block_while_busy(std::uint32_t context) noexcept;

}  // namespace vramlink::simcuda
