// Publishes COUNT pictures that the CPU draws as NAME, in the memory of a GPU if there is one.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: upload_publisher NAME COUNT\n";
    return 2;
  }
  const vl::Runtime runtime = vl::Runtime::open().value();
  vl::DeviceId device = vl::DeviceId::host();
  for (const vl::DeviceInfo& each : runtime.devices()) {
    if (each.usable) device = each.id;  // the host comes first
  }
  const vl::Format format = vl::Format::image(vl::PixelFormat::gray8, 640, 480).value();
  vl::Publisher camera =
      vl::Publisher::open(runtime, argv[1], format,
                          {.slot_count = 6, .when_full = vl::WhenFull::block, .device = device})
          .value();
  camera.wait_for_subscribers(1, 30s).value();

  // Two, so that one can be drawn while the other is on its way.
  std::array buffers{
      vl::PinnedBuffer::allocate(runtime, device, format.payload_bytes).value(),
      vl::PinnedBuffer::allocate(runtime, device, format.payload_bytes).value(),
  };
  std::array<std::optional<vl::Receipt>, 2> receipts;
  for (std::size_t number = 1; number <= std::strtoul(argv[2], nullptr, 10); ++number) {
    vl::PinnedBuffer& buffer = buffers[number % 2];
    std::optional<vl::Receipt>& receipt = receipts[number % 2];
    if (receipt) receipt->wait(1s).value();  // what was copied out of it is complete
    std::ranges::fill(buffer.bytes(), static_cast<std::byte>(number));
    receipt = camera.publish_copy(buffer.bytes(), vl::kAlreadyComplete, 30s).value();
  }
  for (const std::optional<vl::Receipt>& each : receipts) {
    if (each) each->wait(1s).value();
  }
  camera.close(30s).value();
  std::cout << "published " << argv[2] << " on " << vl::to_string(device) << '\n';
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "upload_publisher: " << failure.what() << '\n';
  return 1;
}
