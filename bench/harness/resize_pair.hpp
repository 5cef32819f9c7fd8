// A publisher that changes its memory and a subscriber that follows, for the benchmarks of that on
// the host and on a GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <vramlink/device.hpp>

#include "harness/report.hpp"

namespace vramlink::bench {

/// The floor: memory that one process makes and another maps, by calls of the system or the driver
/// alone. Each process has its own.
class MemoryFloor {
 public:
  MemoryFloor() = default;
  MemoryFloor(const MemoryFloor&) = delete;
  MemoryFloor& operator=(const MemoryFloor&) = delete;
  virtual ~MemoryFloor() = default;

  /// Where it lives.
  [[nodiscard]] virtual DeviceId device() const = 0;
  /// Memory of zero bytes that this process can write to. Returns its descriptor, which the caller
  /// closes.
  [[nodiscard]] virtual int make(std::size_t size_bytes) = 0;
  /// Maps for reading what another process made.
  virtual void map(int fd, std::size_t size_bytes) = 0;
  /// Ends what make() or map() made.
  virtual void end() = 0;
};

struct ResizeShape {
  std::string name;  ///< "4 x 64 KiB"
  std::uint32_t slot_count;
  std::uint64_t frame_bytes;
};

/// Adds a floor and two figures of that shape: resize() at the publisher, and the time from the
/// last frame of the old memory to the first of the new at the subscriber. Forks both processes, so
/// the caller must have no threads; `make_floor` is called in each of them. Ends the program if one
/// of them fails.
void measure_resize(Report& report, const ResizeShape& shape,
                    const std::function<std::unique_ptr<MemoryFloor>()>& make_floor, bool smoke);

}  // namespace vramlink::bench
