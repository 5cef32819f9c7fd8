// Reads the pictures of NAME on the CPU, wherever they live, until its publisher ends.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: download_subscriber NAME\n";
    return 2;
  }
  const vl::Runtime runtime = vl::Runtime::open().value();
  vl::Subscriber camera =
      vl::Subscriber::open(runtime, argv[1], 30s,
                           {.policy = vl::ReceivePolicy::queue(4), .reconnect = false})
          .value();
  vl::Downloader downloader =
      vl::Downloader::open(runtime, camera.device(), camera.format().payload_bytes).value();

  int whole = 0;
  while (true) {
    // While this picture is looked at, the next one is on its way.
    const vl::Result<vl::HostFrame> picture = downloader.receive(camera, 30s);
    if (picture.failed_with(vl::Code::closed)) break;
    const auto expected = static_cast<std::byte>(picture.value().sequence());
    whole += std::ranges::all_of(picture->bytes(), [&](std::byte b) { return b == expected; });
  }
  std::cout << "saw " << whole << " whole pictures\n";
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "download_subscriber: " << failure.what() << '\n';
  return 1;
}
