// The driver's own data in the client, and what every exported function passes through.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "call.hpp"
#include "device_process.hpp"
#include "device_state.hpp"
#include "functions.hpp"
#include "pool.hpp"
#include "pool_api.hpp"

namespace vramlink::simcuda {

/// The primary context of a device, or one that the program made.
struct Context {
  int device = 0;
  bool is_primary = false;
  std::uint32_t retain_count = 0;  ///< 1 where the program made it
  std::uint32_t stream_slot = 0;   ///< of the default stream
  std::uint32_t peers = 0;         ///< a bit for each device whose memory may be used
};

struct Stream {
  std::uint32_t slot = 0;
  std::uint32_t context = 0;  ///< index of its Context
  unsigned flags = 0;
  bool is_of_thread = false;  ///< a thread's default stream, which nobody made or destroys
};

struct SharedEvent;

/// A record is a place in a queue: complete when *counter >= value.
struct Event {
  std::uint32_t context = 0;
  unsigned flags = 0;
  SharedEvent* shared = nullptr;        ///< of one that other processes know too (ipc_events.hpp)
  int shared_fd = -1;                   ///< of one that may be exported
  std::uint32_t exported = UINT32_MAX;  ///< entry of ipc_exports, or kNoExport
  const Counter* counter = nullptr;     ///< nullptr: never recorded
  std::uint64_t value = 0;
  std::uint32_t recorded_context = 0;  ///< whose fault the event reports
};

/// What the device writes for an event; kept for ever, like the slot that it has the index of.
struct EventWords {
  Counter done{0};  ///< records by graphs
  std::uint64_t issued = 0;
  std::atomic<std::uint64_t> time_ns{0};
};

/// Device memory that this process holds, by handle or by mapping.
struct Memory {
  int fd = -1;
  std::uint64_t offset_bytes = 0;  ///< in the fd
  bool is_part = false;            ///< of a pool's fd
  std::uint64_t size_bytes = 0;
  std::uint32_t handle_count = 0;
  std::uint32_t mapping_count = 0;
  std::uint32_t account = 0;            ///< entry of the host-wide account (budget.hpp)
  std::uint32_t exported = UINT32_MAX;  ///< entry of ipc_exports, or kNoExport
  int device = -1;                      ///< ordinal here; -1 if that device is hidden
  api::AllocationProperties properties{};
};

/// Addresses that cuMemAddressReserve gave out.
struct Reservation {
  std::uint64_t base = 0;
  std::uint64_t size_bytes = 0;
};

/// Where stream-ordered allocations come from (pools.hpp).
struct MemoryPool {
  int device = 0;  ///< ordinal
  int fd = -1;     ///< holds the bytes of all that is allocated
  std::uint64_t id = 0;
  std::uint64_t next_offset = 0;
  std::uint64_t size_bytes_max = 0;  ///< 0: no limit
  bool is_default = false;
  bool is_import = false;
  bool is_exportable = false;
  bool is_exported = false;
  bool is_destroyed = false;  ///< by the program; lives until its last allocation is freed
  std::uint32_t allocation_count = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t used_bytes_high = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t reserved_bytes_high = 0;
  std::uint64_t release_threshold = 0;
  std::array<int, 3> reuse{1, 1, 1};
  std::array<std::uint8_t, kDeviceMax> access{};  ///< api::AccessFlags for each device
};

inline constexpr std::uint32_t kEventMax = 4096;

struct Driver {
  Pool<Context, HandleKind::context, kContextMax> contexts;
  Pool<Stream, HandleKind::stream, kStreamSlotMax> streams;
  Pool<Event, HandleKind::event, kEventMax> events;
  Pool<Memory, HandleKind::memory, 4096> memories;
  Pool<Reservation, HandleKind::memory, 4096> reservations;
  Pool<MemoryPool, HandleKind::pool, 256> pools;
};

extern Driver driver;
extern std::array<EventWords, kEventMax> event_words;

/// The thread's current context; nullptr if it has none or the context is gone.
Context* current_context() noexcept;
api::Context current_context_handle() noexcept;

/// Takes back everything that belongs to the context; its streams drop their work.
void destroy_context(Context& context) noexcept;

/// The Context of a handle, or nullptr.
Context* find_context(api::Context handle) noexcept;
std::uint32_t index_of(const Context& context) noexcept;

/// The fault of a context, or success.
Status fault_of(std::uint32_t context) noexcept;

}  // namespace vramlink::simcuda
