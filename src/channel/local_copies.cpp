// See local_copies.hpp.
#include "channel/local_copies.hpp"

#include <utility>

#include "base/checked.hpp"
#include "base/try.hpp"

namespace vramlink::inline v0::channel {

LocalCopies::LocalCopies(backend::Backend& reader, std::uint64_t slot_pitch,
                         std::uint64_t payload_bytes,
                         std::unique_ptr<backend::Memory> memory) noexcept
    : reader_(reader),
      slot_pitch_(slot_pitch),
      payload_bytes_(payload_bytes),
      memory_(std::move(memory)) {}

Result<std::unique_ptr<LocalCopies>> LocalCopies::make(backend::Backend& reader,
                                                       std::uint64_t slot_pitch,
                                                       std::uint32_t slot_count,
                                                       std::uint64_t payload_bytes) {
  const auto total = base::checked_multiply(slot_pitch, std::uint64_t{slot_count});
  if (!total) return Error(Code::corrupt, "copy frames").because("the slots exceed 64 bits");
  std::unique_ptr<backend::Memory> memory = VRAMLINK_TRY(reader.allocate(*total));
  return std::unique_ptr<LocalCopies>(
      new LocalCopies(reader, slot_pitch, payload_bytes, std::move(memory)));
}

Result<void> LocalCopies::fill(StreamView stream, std::uint32_t slot_index,
                               const std::byte* source) {
  return reader_.copy(stream, memory_->data() + slot_pitch_ * slot_index, source, payload_bytes_);
}

}  // namespace vramlink::inline v0::channel
