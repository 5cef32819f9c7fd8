// Copies of a publisher's slots on the device that reads them, where that cannot read them in
// place.
#pragma once

#include <cstdint>
#include <memory>

#include <vramlink/result.hpp>
#include <vramlink/stream.hpp>

#include "backend/backend.hpp"

namespace vramlink::inline v0::channel {

/// One place for each slot. A place is written only by who holds its slot, so it needs no rule of
/// its own: it is free when the slot is. Owned by a SubscriberSession, and ends with it.
class LocalCopies {
 public:
  /// Allocates on `reader`, which outlives this. Codes: as Backend::allocate.
  [[nodiscard]] static Result<std::unique_ptr<LocalCopies>> make(backend::Backend& reader,
                                                                 std::uint64_t slot_pitch,
                                                                 std::uint32_t slot_count,
                                                                 std::uint64_t payload_bytes);

  /// Copies a slot that is held, after the work that is in `stream`; with an already complete
  /// stream it returns when the copy is complete. Codes: as Backend::copy.
  [[nodiscard]] Result<void> fill(StreamView stream, std::uint32_t slot_index,
                                  const std::byte* source);
  [[nodiscard]] const std::byte* data(std::uint32_t slot_index) const noexcept {
    return memory_->data() + slot_pitch_ * slot_index;
  }

 private:
  LocalCopies(backend::Backend& reader, std::uint64_t slot_pitch, std::uint64_t payload_bytes,
              std::unique_ptr<backend::Memory> memory) noexcept;

  backend::Backend& reader_;
  const std::uint64_t slot_pitch_;
  const std::uint64_t payload_bytes_;
  const std::unique_ptr<backend::Memory> memory_;
};

}  // namespace vramlink::inline v0::channel
