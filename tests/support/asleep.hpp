// Waits until another thread sleeps in the kernel.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace vramlink::test {

/// Spins until the thread of this process with the id `thread` (gettid()) sleeps in the kernel.
inline void wait_until_asleep(pid_t thread) {
  while (true) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find(") S ") != std::string::npos) return;
    std::this_thread::yield();
  }
}

}  // namespace vramlink::test
