// What the client's threads and its device process share. The device process runs in the client's
// address space (device_process.hpp), so plain pointers are good on both sides; the client may be
// killed or stopped between any two stores, so the device takes no lock and reads only what has
// been published by a release store.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vramlink::simcuda {

inline constexpr int kDeviceMax = 8;
inline constexpr std::uint32_t kContextMax = 32;
inline constexpr std::uint32_t kStreamSlotMax = 512;
inline constexpr std::uint64_t kRingSize = 512;
inline constexpr std::uint32_t kRangeMax = 8192;
inline constexpr std::uint32_t kNoRange = UINT32_MAX;
inline constexpr std::size_t kKernelArgumentBytesMax = 96;

enum class RangeKind : std::uint8_t { device, host, registered, managed };

/// A run of addresses that streams can use. Written by the client under its lock while it is dead;
/// the generation is odd while it lives.
struct Range {
  std::atomic<std::uint32_t> generation{0};
  RangeKind kind = RangeKind::device;
  std::uint64_t base = 0;  ///< as programs see it
  std::uint64_t size_bytes = 0;
  std::byte* alias = nullptr;  ///< where the device reads and writes it
  bool alias_is_ours = false;  ///< to be unmapped with the range
  bool is_import = false;      ///< opened by a handle of cuIpcGetMemHandle
  std::array<std::atomic<std::uint8_t>, kDeviceMax> access{};  ///< api::AccessFlags for each device
  int device = -1;                                             ///< where the memory lies
  std::uint32_t context = 0;                                   ///< index; of memory that has one
  std::uint32_t memory = kNoRange;                             ///< index of the allocation
  std::uint32_t pool = kNoRange;                               ///< index, of what came from one
  bool is_being_freed = false;                                 ///< a stream is to free it
  std::uint32_t flags = 0;                                     ///< of the registration
  std::uint64_t buffer_id = 0;
};

/// An address that an operation uses, found when it was submitted.
struct Place {
  std::byte* at = nullptr;
  std::uint32_t range = kNoRange;  ///< kNoRange: host memory that is not known to the driver
  std::uint32_t generation = 0;
};

/// A number that only grows. "complete" is: counter >= value.
using Counter = std::atomic<std::uint64_t>;

enum class OpKind : std::uint8_t {
  mark,          ///< completes; stores the time, and `value` to `counter`, where they are set
  wait_counter,  ///< until *counter >= value
  wait_word,     ///< until the word at `to` compares well with `value`
  write_word,
  copy,
  fill,
  take_away,  ///< no device may use the range at `to` any more
  kernel,
  fault  ///< makes the context faulty with `value`
};

enum class Compare : std::uint8_t { greater_or_equal = 0, equal = 1, any_bit = 2, nor = 3 };

struct KernelCall;
/// Runs a piece of a kernel on the device; true when it is done. It may be called again at once, or
/// after other streams had their turn, and must never wait by itself.
using KernelStep = bool (*)(KernelCall& call);

struct KernelCall {
  KernelStep step = nullptr;
  std::array<std::uint32_t, 3> grid{};
  std::array<std::uint32_t, 3> block{};
  std::uint64_t progress = 0;  ///< for the kernel's own use, 0 at first
  int device = 0;
  int fault = 0;  ///< a Status; set by access() and by the kernel
  alignas(8) std::array<std::byte, kKernelArgumentBytesMax> arguments{};
};

/// For kernels: where the device finds `size_bytes` at `address`, or nullptr, with call.fault set.
std::byte* device_access(KernelCall& call, std::uint64_t address, std::uint64_t size_bytes,
                         bool write) noexcept;

struct Op {
  OpKind kind = OpKind::mark;
  Compare compare = Compare::greater_or_equal;
  std::uint8_t width_bytes = 8;  ///< of a word or of a fill's element
  bool begins_submission = false;
  Place to;
  Place from;
  int from_device = -1;  ///< whose right to read `from` counts; -1: the stream's
  std::uint64_t value = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t done_bytes = 0;
  Counter* counter = nullptr;
  std::atomic<std::uint64_t>* time_ns = nullptr;
  KernelCall kernel;
};

/// A queue of one stream. `tail` and `completed` never go back, also when another stream takes the
/// slot over, so (slot, position) names a piece of work for ever.
struct alignas(64) StreamSlot {
  std::atomic<std::uint64_t> tail{0};  ///< how many ops were submitted; the client's
  alignas(64) Counter completed{0};    ///< how many were performed; the device's
  alignas(64) Op* ring = nullptr;      ///< kRingSize ops, kept for ever
  std::uint32_t context = 0;           ///< index; changes only while the slot is drained
  int device = 0;
  bool taken = false;          ///< by a living stream; the client's
  bool is_blocking = false;    ///< ordered with the default stream; the client's
  std::uint64_t ready_ns = 0;  ///< the device's: when the op at the head may begin
  bool head_seen = false;      ///< the device's
};

/// The part of a context that is looked at without the lock.
struct ContextWords {
  /// A Status: work is dropped from here on. Never reset while the context lives.
  std::atomic<int> fault{0};
  /// Calls that the launches of other threads must stay behind; the client's.
  std::atomic<std::uint32_t> blocker_count{0};
};

enum class DeviceLife : std::uint32_t { none, running, lost };

struct DeviceState {
  std::array<StreamSlot, kStreamSlotMax> slots;
  std::atomic<std::uint32_t> slot_count{0};  ///< those ever used
  std::array<Range, kRangeMax> ranges;
  std::atomic<std::uint32_t> range_count{0};  ///< those ever used
  std::array<ContextWords, kContextMax> contexts;
  /// The index + 1 of the ranges that the device is using right now; kBusyAll for all.
  std::array<std::atomic<std::uint32_t>, 2> busy{};

  /// 1 while the device sleeps; a client that has submitted makes it 0 and wakes it.
  std::atomic<std::uint32_t> asleep{0};
  /// Moves on with each completed op; clients that wait sleep on it.
  std::atomic<std::uint32_t> progress{0};
  std::atomic<std::uint32_t> waiter_count{0};
  std::atomic<std::uint32_t> life{0};  ///< DeviceLife
  std::atomic<bool> stop{false};

  // Settings; the device reads them anew for each submission.
  std::atomic<std::uint64_t> delay_ns{0};
  std::atomic<std::uint64_t> delay_max_ns{0};  ///< not 0: random up to here
  std::atomic<std::uint64_t> delay_seed{1};
  std::atomic<std::uint64_t> teardown_ns{0};
};

inline constexpr std::uint32_t kBusyAll = UINT32_MAX;

/// One for each process; all zero until the driver starts.
extern DeviceState device_state;

}  // namespace vramlink::simcuda
