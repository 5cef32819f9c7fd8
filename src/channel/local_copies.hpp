// Copies of a publisher's slots on the device that reads them, where that cannot read them in
// place.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>
#include <vramlink/stream.hpp>

#include "backend/backend.hpp"
#include "channel/parking.hpp"

namespace vramlink::inline v0::channel {

/// One place for each slot. A place is written only by who holds its slot, so it needs no rule of
/// its own: it is free when the slot is. Owned by a SubscriberSession, and ends with it.
/// Thread-safe; one thread at a time for a slot.
class LocalCopies {
 public:
  struct Shape {
    std::uint64_t slot_pitch = 0;
    std::uint32_t slot_count = 0;
    std::uint64_t payload_bytes = 0;
  };
  /// Allocates on `reader`, which outlives this. `parking`: the subscriber's. Codes: as
  /// Backend::allocate, register_words and make_copy_queue.
  [[nodiscard]] static Result<std::unique_ptr<LocalCopies>> make(backend::Backend& reader,
                                                                 const Shape& shape,
                                                                 std::shared_ptr<Parking> parking);
  ~LocalCopies();
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Copies a slot that is held, after the work that is in `stream`, which is not already complete.
  /// Codes: as Backend::copy.
  [[nodiscard]] Result<void> fill(StreamView stream, std::uint32_t slot_index,
                                  const std::byte* source);

  /// Copies a slot that is held on stream(), and does not wait; is_done() says when it is complete.
  /// `number` is greater with every copy into a slot. Codes: as Backend::copy; then it may run all
  /// the same.
  [[nodiscard]] Result<void> start(std::uint32_t slot_index, std::uint64_t number,
                                   const std::byte* source);
  [[nodiscard]] bool is_done(std::uint32_t slot_index, std::uint64_t number) const noexcept {
    // Pairs with the device's store behind the copy.
    return done_->words()[slot_index * kStride].load(std::memory_order_acquire) >= number;
  }
  /// No copy that was started runs.
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] StreamView stream() const noexcept { return queue_->stream(); }

  [[nodiscard]] const std::byte* data(std::uint32_t slot_index) const noexcept {
    return memory_->data() + shape_.slot_pitch * slot_index;
  }

 private:
  static constexpr std::uint32_t kStride = 8;  ///< a cache line for each word

  LocalCopies(backend::Backend& reader, const Shape& shape,
              std::shared_ptr<Parking> parking) noexcept
      : reader_(reader), shape_(shape), parking_(std::move(parking)) {}

  backend::Backend& reader_;
  const Shape shape_;
  const std::shared_ptr<Parking> parking_;  ///< takes the page: it stays registered
  std::unique_ptr<backend::Memory> memory_;
  runtime::SharedView page_;
  std::shared_ptr<backend::RegisteredWords> done_;  ///< a word a slot
  std::unique_ptr<backend::CopyQueue> queue_;
  std::array<std::atomic<std::uint64_t>, kSlotCountMax> started_{};  ///< the latest numbers
};

}  // namespace vramlink::inline v0::channel
