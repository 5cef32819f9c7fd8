// A subscriber that reads a slot which it does not hold: the thread sanitizer must say so. If it
// did not, its silence about everything else would mean nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "support/channel_fixture.hpp"

#if defined(__SANITIZE_THREAD__)
#define VRAMLINK_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VRAMLINK_HAS_TSAN 1
#endif
#endif

namespace vramlink {
namespace {

class PlantedRaceTest : public test::ChannelFixture {};

#ifdef VRAMLINK_HAS_TSAN

void read_what_is_not_held(const Runtime& runtime, const std::string& name) {
  Publisher publisher =
      Publisher::open(runtime, name, Format::bytes(4096).value(), {.slot_count = 2}).value();
  Subscriber subscriber = Subscriber::open(runtime, name, test::soon()).value();
  static_cast<void>(test::publish_number(publisher, 1));
  std::atomic<bool> was_read{false};
  std::thread writer([&] {
    // Relaxed: nothing but the hold could order the reads before the writes, and it has ended.
    while (!was_read.load(std::memory_order_relaxed)) std::this_thread::yield();
    for (std::uint64_t number = 2; number <= 5; ++number) {
      static_cast<void>(test::publish_number(publisher, number));
    }
  });
  Frame frame = subscriber.receive(test::soon()).value();
  const std::span<const std::byte> bytes = frame.bytes();
  frame.release();
  std::uint64_t sum = 0;
  for (const std::byte& byte : bytes) sum += static_cast<std::uint64_t>(byte);
  was_read.store(true, std::memory_order_relaxed);
  writer.join();
  if (sum == 0) std::abort();  // the sum is used
}

TEST_F(PlantedRaceTest, IsReported) {
  expect_leftovers();
  const std::string report = directory_ / "report";
  test::ChildProcess child([&](const test::ChildLink&) {
    const int fd = ::open(report.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ::dup2(fd, STDERR_FILENO);
    read_what_is_not_held(open_runtime(), kName);
    std::exit(0);  // where the sanitizer has its say, unless it stopped at the first report
    return 0;
  });
  EXPECT_EQ(child.wait(), 66);
  std::ifstream file(report);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("ThreadSanitizer: data race"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("read_what_is_not_held"), std::string::npos) << text.str();
}

#else

TEST_F(PlantedRaceTest, IsReported) { GTEST_SKIP() << "this build has no thread sanitizer"; }

#endif

}  // namespace
}  // namespace vramlink
