// The device that a suite runs on: the host, or the first GPU of the driver, which may be the
// stand-in. The same tests fill and read frames of either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/stream.hpp>

namespace vramlink::test {

/// Chosen by VRAMLINK_TEST_DEVICE: "host", also without it; "gpu", the first one of the system's
/// driver; or the file of the stand-in driver. A process that forks must not have used a GPU
/// before: all but is_host() and is_stand_in() load its driver.
class TestDevice {
 public:
  [[nodiscard]] static bool is_host();
  [[nodiscard]] static bool is_stand_in();
  /// "" where it can be used, else why not.
  [[nodiscard]] static const char* why_not();
  /// For a SetUp(): skips a test whose GPU is not there, and fails one whose stand-in driver is
  /// not. True if the test can go on.
  static bool require();
  /// The host where it cannot be used, so that a fixture can be made before it skips.
  [[nodiscard]] static DeviceId id();
  /// One of two streams of it; on the host there is none but the already complete one.
  [[nodiscard]] static StreamView stream(int number = 0);
  /// Device memory that all processes of the machine hold of it; 0 on the host.
  [[nodiscard]] static std::uint64_t bytes_held();
  /// Waits for the work in a stream.
  static void finish(StreamView stream);
  /// Bytes of the device or of the host, by the CPU, at once.
  static void write(std::byte* target, std::span<const std::byte> bytes);
  [[nodiscard]] static std::vector<std::byte> read(std::span<const std::byte> bytes);
  /// Copies into the device's memory in a stream's order.
  static void write_in(StreamView stream, std::byte* target, std::span<const std::byte> bytes);
};

}  // namespace vramlink::test
