// Publishes COUNT pictures as NAME, 60 a second. Who watches gets the newest; who is slow drops.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  if (argc != 3) return std::cerr << "usage: camera_publisher NAME COUNT\n", 2;
  const vl::Runtime runtime = vl::Runtime::open().value();
  const vl::Format format = vl::Format::image(vl::PixelFormat::gray8, 640, 480).value();
  vl::Publisher camera = vl::Publisher::open(runtime, argv[1], format).value();
  camera.wait_for_subscribers(1, 30s).value();

  for (int number = 1; number <= std::atoi(argv[2]); ++number) {
    std::this_thread::sleep_for(16ms);  // a camera takes its time
    vl::Result<vl::WritableFrame> frame = camera.try_claim(vl::kAlreadyComplete);
    if (frame.failed_with(vl::Code::full)) continue;  // all slots are being read: drop this one
    std::ranges::fill(frame.value().bytes(), static_cast<std::byte>(number));
    camera.publish(std::move(*frame), vl::kAlreadyComplete).value();
  }
  std::cout << "published " << camera.statistics().published << " pictures\n";
} catch (const std::exception& failure) {
  std::cerr << "camera_publisher: " << failure.what() << '\n';
  return 1;
}
