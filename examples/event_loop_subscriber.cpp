// Watches NAME and the keyboard in one thread: poll() says which of the two has something.
// s and Enter prints statistics; q and Enter, or the end of the input, ends the program. It also
// ends after COUNT pictures, or when the publisher does.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string_view>
#include <system_error>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

/// Takes what is there; the descriptor stays readable until try_receive said `empty` once. False at
/// the end of the stream.
bool show_pictures(vl::Subscriber& camera, int& seen) {
  while (true) {
    const vl::Result<vl::Frame> frame = camera.try_receive();
    if (frame.failed_with(vl::Code::empty)) return true;
    if (frame.failed_with(vl::Code::closed)) return false;
    const vl::Frame& picture = frame.value();
    std::cout << "picture " << picture.sequence() << std::endl;
    ++seen;
  }
}

/// False if the person at the keyboard wants to leave.
bool obey_keys(const vl::Subscriber& camera) {
  std::array<char, 64> typed{};
  const ssize_t count = ::read(STDIN_FILENO, typed.data(), typed.size());
  const std::string_view keys(typed.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  if (keys.empty() || keys.find('q') != keys.npos) return false;
  if (keys.find('s') != keys.npos) {
    const vl::SubscriberStatistics statistics = camera.statistics();
    std::cout << "received " << statistics.received << ", skipped " << statistics.skipped
              << std::endl;
  }
  return true;
}

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: event_loop_subscriber NAME COUNT\n";
    return 2;
  }
  const vl::Runtime runtime = vl::Runtime::open().value();
  vl::Subscriber camera = vl::Subscriber::open(runtime, argv[1], 30s).value();
  std::array<pollfd, 2> waits{pollfd{STDIN_FILENO, POLLIN, 0},
                              pollfd{camera.readiness_fd().value(), POLLIN, 0}};
  int seen = 0;
  while (seen < std::atoi(argv[2])) {
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    if (waits[0].revents != 0 && !obey_keys(camera)) break;
    if (waits[1].revents != 0 && !show_pictures(camera, seen)) break;
  }
  std::cout << "saw " << seen << " pictures\n";
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "event_loop_subscriber: " << failure.what() << '\n';
  return 1;
}
