// Watches NAME until COUNT pictures were seen or its publisher ends.
#include <cstdlib>
#include <iostream>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: camera_subscriber NAME COUNT\n";
    return 2;
  }
  const vl::Runtime runtime = vl::Runtime::open().value();
  vl::Subscriber camera = vl::Subscriber::open(runtime, argv[1], 30s).value();
  std::cout << "watching " << camera.name() << ": " << vl::to_string(camera.format()) << '\n';

  for (int seen = 0; seen < std::atoi(argv[2]); ++seen) {
    const vl::Result<vl::Frame> frame = camera.receive(30s);
    if (frame.failed_with(vl::Code::closed)) break;  // the publisher said goodbye
    const vl::Frame& picture = frame.value();
    std::cout << "picture " << picture.sequence() << ", gray "
              << std::to_integer<int>(picture.bytes().front()) << '\n';
  }
} catch (const std::exception& failure) {
  std::cerr << "camera_subscriber: " << failure.what() << '\n';
  return 1;
}
