// What one shape of a channel owns: the slots' memory and the broadcast segment.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include <vramlink/channel.hpp>
#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

#include "backend/backend.hpp"
#include "channel/parking.hpp"
#include "os/shared_segment.hpp"
#include "runtime/process_state.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::inline v0::channel {

class SlotCopies;

/// Whether a generation can have that many slots. Codes: invalid_argument.
[[nodiscard]] Result<void> check_slot_count(const char* operation, std::uint32_t slot_count);

/// Made by the publisher, immutable but for the shared words. Owned by the publisher, its members
/// and every receipt; the memory itself lives on until the last importer lets go. Ends on the
/// janitor, and not while a device may still write to it.
struct Generation {
  struct Shape {
    Format format;
    std::uint64_t epoch = 0;       ///< random, not 0: one a Publisher object
    std::uint64_t generation = 1;  ///< counts within the epoch
    std::uint32_t slot_count = 0;
    std::uint64_t first_sequence = 1;
  };

  explicit Generation(std::shared_ptr<runtime::ProcessState> owner);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation();
  /// `parking`: the channel's. Codes: out_of_memory (with the bytes wanted and free),
  /// resource_exhausted, os, driver.
  [[nodiscard]] static Result<std::shared_ptr<Generation>> create(
      std::shared_ptr<runtime::ProcessState> process, backend::Backend& backend, const Shape& shape,
      std::shared_ptr<Parking> parking);

  [[nodiscard]] std::byte* slot_data(std::uint32_t slot_index) const noexcept {
    return memory->data() + slot_pitch * slot_index;
  }
  /// The slot's READY word, for the back end.
  [[nodiscard]] backend::WordRef ready_word(std::uint32_t slot_index) const noexcept {
    constexpr std::uint32_t kStride = sizeof(wire::ReadyLine) / sizeof(wire::AtomicU64);
    return {ready_page.get(), slot_index * kStride};
  }
  /// All work of the slot's claim `ticket` is complete.
  [[nodiscard]] bool complete(std::uint32_t slot_index, std::uint64_t ticket) const noexcept {
    // Pairs with the back end's signal of this word.
    return broadcast->ready[slot_index].ticket.load(std::memory_order_acquire) >= ticket;
  }

  /// Whether its memory may go. For the janitor, when nobody has it any more.
  [[nodiscard]] bool may_end();

  std::shared_ptr<runtime::ProcessState> process;
  std::shared_ptr<Parking> parking;  ///< outlives what is pending here: it takes the READY page
  backend::Backend* backend = nullptr;
  // Copies of what the back end says: the reactor asks it nothing.
  backend::Capabilities capabilities;
  DeviceId device;
  Shape shape;
  std::uint64_t slot_pitch = 0;  ///< bytes from slot to slot; a multiple of the page
  std::shared_ptr<backend::Memory> memory;
  os::UniqueFd memory_export;  ///< for sending; made once, because exporting may call a driver
  os::SharedSegment segment;   ///< sealed; for sending
  runtime::SharedView view;    ///< the writable mapping, the only one there will ever be
  wire::Broadcast* broadcast = nullptr;
  std::unique_ptr<backend::RegisteredWords> ready_page;  ///< unregistered before it is unmapped
  // Left by the ring when it ends.
  std::array<std::uint64_t, kSlotCountMax> awaited{};  ///< the slots' last tickets
  bool lost_work = false;  ///< of a slot nobody can say when its work is complete
  // Of a publisher that copies: made once, under the mutex, which is held over a back-end call.
  std::mutex copies_mutex;
  std::unique_ptr<SlotCopies> copies_owner;
  std::atomic<SlotCopies*> copies{nullptr};
  std::atomic<std::uint64_t> prepared_set{~std::uint64_t{0}};  ///< asked for last
};

}  // namespace vramlink::inline v0::channel
