// Events that several processes know: a page that all of them map holds what was recorded.
//
// A record is a number, one more than the last one of any process, and a cell that the device of
// the recording process raises to that number. So a record whose process dies before its device
// came to it is never complete, whatever is recorded later; and who asks after a newer record was
// made asks for the newer one.
#pragma once

#include <array>
#include <cstdint>

#include "driver.hpp"

namespace vramlink::simcuda {

/// As a file it is as long as the struct; read and written by all.
struct SharedEvent {
  std::uint64_t magic;
  std::atomic<std::uint64_t> issued;  ///< the number of the last record; 0: none
  std::array<std::uint64_t, 6> padding;
  std::array<Counter, 448> done;  ///< by the number of the record, in turn
};
static_assert(sizeof(SharedEvent) == 64 + 448 * 8);

/// What to wait for: nothing if `counter` is nullptr.
struct Record {
  const Counter* counter = nullptr;
  std::uint64_t value = 0;
  std::uint32_t context = 0;  ///< whose fault the event reports
};

/// The last one of an event, whoever made it.
Record last_record(const Event& event) noexcept;
/// The next one of a shared event; some device has to raise the counter.
Record next_record(SharedEvent& shared) noexcept;

/// Gives the event its page. operating_system.
Status share_event(Event& event) noexcept;
/// Lets go of what an event holds; its page stays while queues may use it.
void drop_event(Event& event) noexcept;

}  // namespace vramlink::simcuda
