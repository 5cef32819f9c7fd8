// Functions of the program in the order of a stream: where they run, what stands behind them, and
// what becomes of them when their process is stopped or killed.
#include <fcntl.h>
#include <signal.h>

#include <array>
#include <vector>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;

/// What a function shares with its test. All of it is there before the first call of a test: the
/// sanitizer of threads sees how the thread begins, and no order by the stand-in.
struct Words {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> gate{0};
  std::atomic<std::uint64_t> done{0};
};

/// Runs until its gate is open.
void stand(void* data) {
  auto& shared = *static_cast<Words*>(data);
  shared.begun.fetch_add(1);
  while (shared.gate.load() == 0) std::this_thread::yield();
  shared.done.fetch_add(1);
}
void count(void* data) { static_cast<std::atomic<std::uint64_t>*>(data)->fetch_add(1); }

class HostFunctions : public DriverTest {};

TEST_F(HostFunctions, RunOnAThreadOfTheProcess) {
  Device device;
  struct Seen {
    std::atomic<int> pid{0};
    std::atomic<int> tid{0};
    std::atomic<std::size_t> size{0};
  } seen;
  // libc, the allocator and thread-local variables are there.
  const HostFunction look = [](void* data) {
    thread_local std::vector<int> numbers;
    numbers.resize(1000, 7);
    auto& found = *static_cast<Seen*>(data);
    found.size.store(numbers.size());
    found.pid.store(::getpid());
    found.tid.store(::gettid());
  };
  EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, look, &seen));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(seen.pid.load(), ::getpid());
  EXPECT_NE(seen.tid.load(), ::gettid());
  EXPECT_EQ(seen.size.load(), 1000U);
}

TEST_F(HostFunctions, RunBehindTheWorkBeforeThem) {
  Device device;
  RegisteredPage page;
  std::atomic<std::uint64_t> counted{0};
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, count, &counted));
  let_device_look();
  EXPECT_EQ(counted.load(), 0U);
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  page[0].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(counted.load(), 1U);
}

TEST_F(HostFunctions, HoldUpTheWorkBehindThemAndNoOther) {
  Device device;
  RegisteredPage page;
  Words shared;
  std::atomic<std::uint64_t> counted{0};
  api::Stream other = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, stand, &shared));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(1), 1, 0));
  wait_until(shared.begun, 1);
  let_device_look();
  EXPECT_EQ(page[1].load(), 0U);
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(other, page.address(2), 1, 0));
  EXPECT_STATUS(success, cuStreamSynchronize(other));
  // Another stream's function stays behind it: one thread runs all of them.
  EXPECT_STATUS(success, cuLaunchHostFunc(other, count, &counted));
  let_device_look();
  EXPECT_EQ(counted.load(), 0U);
  shared.gate.store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[1].load(), 1U);
  EXPECT_EQ(shared.done.load(), 1U);
  EXPECT_STATUS(success, cuStreamSynchronize(other));
  EXPECT_EQ(counted.load(), 1U);
  EXPECT_STATUS(success, cuStreamDestroy_v2(other));
}

TEST_F(HostFunctions, MayNotCallTheDriver) {
  Device device;
  struct Seen {
    std::array<std::atomic<int>, 3> statuses{};
    api::Stream stream = nullptr;
  } seen;
  seen.stream = device.stream;
  const HostFunction call = [](void* data) {
    auto& found = *static_cast<Seen*>(data);
    int devices = 0;
    api::DevicePointer memory = 0;
    found.statuses[0].store(static_cast<int>(cuDeviceGetCount(&devices)));
    found.statuses[1].store(static_cast<int>(cuMemAlloc_v2(&memory, 64)));
    found.statuses[2].store(static_cast<int>(cuStreamSynchronize(found.stream)));
  };
  EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, call, &seen));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  for (const auto& status : seen.statuses) {
    EXPECT_EQ(status.load(), static_cast<int>(Status::not_permitted));
  }
}

TEST_F(HostFunctions, AreNotCalledBehindAFault) {
  Device device;
  RegisteredPage page;
  std::atomic<std::uint64_t> counted{0};
  std::atomic<std::uint64_t> counted_there{0};
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, count, &counted));
  EXPECT_TRUE(test_api().fault_context(static_cast<int>(Status::illegal_address)));
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(illegal_address, cuLaunchHostFunc(device.stream, count, &counted));
  // One of another context is, and comes after it.
  api::Context other = nullptr;
  EXPECT_STATUS(success, cuCtxCreate_v2(&other, 0, 0));
  EXPECT_STATUS(success, cuLaunchHostFunc(nullptr, count, &counted_there));
  EXPECT_STATUS(success, cuCtxSynchronize());
  EXPECT_EQ(counted_there.load(), 1U);
  EXPECT_EQ(counted.load(), 0U);
  std::quick_exit(::testing::Test::HasFailure() ? 1 : 0);  // nothing can be taken back any more
}

TEST_F(HostFunctions, ManyRunInTheOrderOfTheirStreams) {
  constexpr std::uint64_t kEach = 1000;
  Device device;
  const Ledger before = ledger();
  struct Next {
    std::atomic<std::uint64_t>* count;
    std::uint64_t expected;
  };
  const HostFunction follow = [](void* data) {
    const auto& next = *static_cast<const Next*>(data);
    if (next.count->load() == next.expected) next.count->fetch_add(1);
  };
  std::array<api::Stream, 5> streams{};
  std::array<std::atomic<std::uint64_t>, 5> counts{};
  std::vector<Next> all;
  all.reserve(streams.size() * kEach);
  for (api::Stream& stream : streams) {
    EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
  }
  for (std::uint64_t i = 0; i < kEach; ++i) {
    for (std::atomic<std::uint64_t>& counted : counts) all.push_back({&counted, i});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_STATUS(success, cuLaunchHostFunc(streams[i % streams.size()], follow, &all[i]));
  }
  for (std::size_t s = 0; s < streams.size(); ++s) {
    EXPECT_STATUS(success, cuStreamSynchronize(streams[s]));
    EXPECT_EQ(counts[s].load(), kEach);
    EXPECT_STATUS(success, cuStreamDestroy_v2(streams[s]));
  }
  EXPECT_EQ(ledger(), before);
}

TEST_F(HostFunctions, AStoppedProcessRunsNone) {
  SharedWords words;
  ChildProcess client([&](const ChildLink& link) -> int {
    Device device;
    words.register_here();
    api::Stream other = nullptr;
    EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, words.address(0), 1, 0));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(1), 1, 0));
    EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, count, &words[2]));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(3), 1, 0));
    // A beat, for the test to see that the device has looked around.
    for (std::size_t i = 10; i < 20; ++i) {
      EXPECT_STATUS(success, cuStreamWaitValue64_v2(other, words.address(i), 1, 0));
      EXPECT_STATUS(success, cuStreamWriteValue64_v2(other, words.address(i + 10), 1, 0));
    }
    link.ready();
    link.wait_forever();
  });
  client.wait_ready();
  client.stop();
  words[0].store(1);
  words.see(1, 1);  // the work before it is done nevertheless
  for (std::size_t i = 10; i < 20; ++i) {
    words[i].store(1);
    words.see(i + 10, 1);
  }
  EXPECT_EQ(words[2].load(), 0U);
  EXPECT_EQ(words[3].load(), 0U);
  client.resume();
  words.see(3, 1);
  EXPECT_EQ(words[2].load(), 1U);
}

TEST_F(HostFunctions, ADeadProcessRunsNone) {
  ::setenv("VRAMLINK_SIMCUDA_TEARDOWN_US", "500000", 1);
  SharedWords words;
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ChildProcess client([&](const ChildLink& link) -> int {
    ::close(ends[0]);
    Device device;
    words.register_here();
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, words.address(0), 1, 0));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(1), 1, 0));
    EXPECT_STATUS(success, cuLaunchHostFunc(device.stream, count, &words[2]));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(3), 1, 0));
    link.ready(static_cast<std::uint8_t>(test_api().work_ends()));
    link.wait_forever();
  });
  const auto work_ends = static_cast<WorkEnds>(client.wait_ready());
  ::close(ends[1]);
  client.kill();
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // the end of all its threads
  ::close(ends[0]);
  words[0].store(1);
  EXPECT_EQ(client.wait(), 128 + SIGKILL);
  EXPECT_EQ(words[2].load(), 0U);
  EXPECT_EQ(words[3].load(), 0U);
  if (work_ends != WorkEnds::with_pidfd) {
    GTEST_SKIP() << "tracing is not permitted here: work ends with the kill";
  }
  EXPECT_EQ(words[1].load(), 1U);  // the work before it was still done
}

}  // namespace
}  // namespace vramlink::simcuda
