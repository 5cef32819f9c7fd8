// The table of addresses that streams can use.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace vramlink::simcuda {

/// Of a range for a device.
inline constexpr auto kReadWrite = static_cast<std::uint8_t>(api::AccessFlags::read_write);

/// A dead range that the caller fills in and brings to life with publish_range(); nullptr if there
/// are too many.
Range* add_range() noexcept;
void publish_range(Range& range) noexcept;
/// Ends its life, waits until the device does not touch it, and unmaps an alias of ours.
void remove_range(Range& range) noexcept;

/// The living range that holds [address, address + size_bytes), or nullptr.
Range* find_range(std::uint64_t address, std::uint64_t size_bytes) noexcept;
/// The living range of this kind that begins there, or nullptr.
Range* find_range_at(std::uint64_t base, RangeKind kind) noexcept;
std::uint32_t index_of(const Range& range) noexcept;
/// Whether other processes can open it by a handle of cuIpcGetMemHandle.
bool is_legacy_ipc_capable(const Range& range) noexcept;

/// Calls `visit` for each living range, which may remove it.
template <class Visit>
void for_each_range(const Visit& visit) noexcept {
  const std::uint32_t count = device_state.range_count.load();
  for (std::uint32_t i = 0; i < count; ++i) {
    Range& range = device_state.ranges[i];
    if (range.generation.load() % 2 == 1) visit(range);
  }
}

/// What an address of a copy is.
enum class AddressKind : std::uint8_t { device, pinned, pageable };

/// An address as an operation uses it.
struct Located {
  Place place;
  AddressKind kind = AddressKind::pageable;
};

/// Finds what a device may read or write there. invalid_value if it may not, if the address is
/// unknown to both the driver and the process, or if the run leaves its allocation.
Status locate(std::uint64_t address, std::uint64_t size_bytes, int device, bool write,
              Located& located) noexcept;

/// Addresses for programs that a CPU's access to them faults; 0 if there are none left.
std::uint64_t reserve_addresses(std::uint64_t size_bytes, std::uint64_t alignment) noexcept;
void free_addresses(std::uint64_t base, std::uint64_t size_bytes) noexcept;
/// Whether the address is one of the driver's, mapped or not.
bool is_reserved(std::uint64_t address) noexcept;

/// For contexts: changes what a device may do with the other's plain allocations.
void allow_peer(int owner, int user, bool allowed) noexcept;
/// Frees the allocations and registrations of a context that goes.
void remove_ranges_of(std::uint32_t context) noexcept;

}  // namespace vramlink::simcuda
