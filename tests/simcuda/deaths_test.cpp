// What becomes of submitted work, of memory and of the device process when a client is stopped,
// killed, or replaced.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;

bool is_readable(int fd, int limit_ms) {
  pollfd readable{fd, POLLIN, 0};
  return ::poll(&readable, 1, limit_ms) == 1;
}

/// Whether a process still runs; a zombie does not.
bool runs(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto end = text.rfind(')');
  return end != std::string::npos && text.size() > end + 2 && text[end + 2] != 'Z' &&
         text[end + 2] != 'X';
}

void send_fd(int socket, int fd) {
  std::byte byte{};
  iovec bytes{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  EXPECT_EQ(::sendmsg(socket, &message, 0), 1);
}

int receive_fd(int socket) {
  std::byte byte{};
  iovec bytes{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  EXPECT_EQ(::recvmsg(socket, &message, 0), 1);
  int fd = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

class Deaths : public DriverTest {
 protected:
  /// In a child: word 0 becomes 1 as soon as somebody sets word 1, and word 2 as soon as word 3 is.
  static void submit_two_waits(const SharedWords& words, const Device& device) {
    words.register_here();
    api::Stream other = nullptr;
    EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, words.address(1), 1, 0));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(0), 1, 0));
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(other, words.address(3), 1, 0));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(other, words.address(2), 1, 0));
  }
};

TEST_F(Deaths, AStoppedClientsWorkGoesOn) {
  SharedWords words;
  ChildProcess client([&](const ChildLink& link) {
    Device device;
    submit_two_waits(words, device);
    link.ready();
    link.wait_forever();
    return 0;
  });
  client.wait_ready();
  for (std::size_t i : {0U, 2U}) {  // twice: a client that was continued can be stopped again
    client.stop();
    words[i + 1].store(1);
    wait_until(words[i], 1);
    client.resume();
  }
  client.kill();
  EXPECT_EQ(client.wait(), 128 + SIGKILL);
}

TEST_F(Deaths, AKilledClientsWorkGoesOnUntilItsPidfdFires) {
  ::setenv("VRAMLINK_SIMCUDA_TEARDOWN_US", "500000", 1);
  SharedWords words;
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  ChildProcess client([&](const ChildLink& link) {
    ::close(ends[0]);
    Device device;
    submit_two_waits(words, device);
    words[10].store(static_cast<std::uint64_t>(test_api().device_pid()));
    link.ready(static_cast<std::uint8_t>(test_api().work_ends()));
    link.wait_forever();
    return 0;
  });
  ::close(ends[1]);
  const auto work_ends = static_cast<WorkEnds>(client.wait_ready());
  const int device_pid = static_cast<int>(words[10].load());
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, client.pid(), 0));
  ASSERT_GE(pidfd, 0) << std::strerror(errno);
  EXPECT_TRUE(runs(device_pid));
  client.kill();
  EXPECT_TRUE(is_readable(ends[0], -1));  // the end of its socket comes first
  if (work_ends == WorkEnds::with_pidfd) {
    EXPECT_FALSE(is_readable(pidfd, 0));
    words[1].store(1);
    while (words[0].load() == 0 && !is_readable(pidfd, 0)) std::this_thread::yield();
    EXPECT_EQ(words[0].load(), 1U);
  }
  EXPECT_TRUE(is_readable(pidfd, -1));
  EXPECT_FALSE(runs(device_pid));  // so nothing can be written any more
  words[3].store(1);
  EXPECT_EQ(client.wait(), 128 + SIGKILL);
  EXPECT_EQ(words[2].load(), 0U);
  ::close(pidfd);
  ::close(ends[0]);
  if (work_ends != WorkEnds::with_pidfd) {
    GTEST_SKIP() << "tracing is not permitted here: work ends with the kill";
  }
}

TEST_F(Deaths, WithoutTracingWorkEndsBeforeThePidfdFires) {
  ::setenv("VRAMLINK_SIMCUDA_TRACE", "0", 1);
  SharedWords words;
  ChildProcess client([&](const ChildLink& link) {
    Device device;
    submit_two_waits(words, device);
    words[10].store(static_cast<std::uint64_t>(test_api().device_pid()));
    link.ready(static_cast<std::uint8_t>(test_api().work_ends()));
    link.wait_forever();
    return 0;
  });
  EXPECT_EQ(static_cast<WorkEnds>(client.wait_ready()), WorkEnds::before_pidfd);
  client.stop();
  words[1].store(1);
  wait_until(words[0], 1);
  client.kill();
  client.wait_until_zombie();
  // The signal is on its way before the pidfd fires; the process may still have to be taken down.
  while (runs(static_cast<int>(words[10].load()))) std::this_thread::yield();
  words[3].store(1);
  EXPECT_EQ(client.wait(), 128 + SIGKILL);
  EXPECT_EQ(words[2].load(), 0U);
}

TEST_F(Deaths, AnExitingClientTakesItsDeviceAlong) {
  SharedWords words;
  ChildProcess client([&](const ChildLink&) {
    Device device;
    submit_two_waits(words, device);
    words[10].store(static_cast<std::uint64_t>(test_api().device_pid()));
    std::exit(7);  // with the driver's own end, before _exit
    return 0;
  });
  EXPECT_EQ(client.wait(), 7);
  EXPECT_FALSE(runs(static_cast<int>(words[10].load())));
}

TEST_F(Deaths, AClientCanReplaceItself) {
  SharedWords words;
  ChildProcess client([&](const ChildLink&) {
    Device device;
    submit_two_waits(words, device);
    words[10].store(static_cast<std::uint64_t>(test_api().device_pid()));
    ::execl("/bin/true", "true", nullptr);
    return 1;
  });
  EXPECT_EQ(client.wait(), 0);
  EXPECT_FALSE(runs(static_cast<int>(words[10].load())));
}

TEST_F(Deaths, AForkedChildHasNoDriver) {
  Device device;
  RegisteredPage page;
  ChildProcess child(
      [&](const ChildLink&) {
        int count = 0;
        EXPECT_STATUS(not_initialized, cuDeviceGetCount(&count));
        EXPECT_STATUS(not_initialized, cuInit(0));
        EXPECT_STATUS(not_initialized,
                      cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
        std::exit(3);  // must not end the parent's device
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 3);
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(0), 2, 0));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[0].load(), 2U);
}

TEST_F(Deaths, TheDeviceProcessIsNoChildThatAProgramSees) {
  Device device;
  errno = 0;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(Deaths, ALostDeviceIsReportedAndNothingHangs) {
  Device device;
  RegisteredPage page;
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  ASSERT_EQ(::kill(test_api().device_pid(), SIGKILL), 0);
  EXPECT_STATUS(device_unavailable, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(device_unavailable, cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
  std::quick_exit(::testing::Test::HasFailure() ? 1 : 0);  // nothing can be taken back any more
}

TEST_F(Deaths, MemoryComesBackWhenItsLastHolderIsGone) {
  SharedWords words;
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  ChildProcess owner([&](const ChildLink& link) {
    Device device;
    MappedMemory memory;
    EXPECT_STATUS(success, cuMemsetD32_v2(memory.address(), 0x1234, 16));
    const int fd = memory.export_fd();
    send_fd(ends[1], fd);
    ::close(fd);
    link.ready();
    link.wait_forever();
    return 0;
  });
  owner.wait_ready();
  const int fd = receive_fd(ends[0]);
  ASSERT_GE(fd, 0);
  {
    Device device;
    EXPECT_EQ(test_api().device_bytes_held(0), MappedMemory::kSizeBytes);
    {
      MappedMemory memory(MappedMemory::import(fd), api::AccessFlags::read);
      owner.kill();
      EXPECT_EQ(owner.wait(), 128 + SIGKILL);
      EXPECT_EQ(test_api().device_bytes_held(0), MappedMemory::kSizeBytes);
      unsigned value = 0;
      EXPECT_STATUS(success, cuMemcpyDtoH_v2(&value, memory.address(), 4));
      EXPECT_EQ(value, 0x1234U);
    }
    EXPECT_EQ(test_api().device_bytes_held(0), 0U);
    // The fd alone kept the bytes; whoever imports them again is charged for them again.
    MappedMemory again(MappedMemory::import(fd));
    EXPECT_EQ(test_api().device_bytes_held(0), MappedMemory::kSizeBytes);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    EXPECT_STATUS(success, cuMemGetInfo_v2(&free_bytes, &total_bytes));
    EXPECT_EQ(total_bytes - free_bytes, MappedMemory::kSizeBytes);
  }
  for (const int end : ends) ::close(end);
  ::close(fd);
}

TEST_F(Deaths, KillsAtAnyInstructionLeaveNothingHeld) {
  constexpr int kRounds = 30;
  SharedWords words;
  for (int round = 0; round < kRounds; ++round) {
    ChildProcess client([&](const ChildLink& link) {
      Device device;
      link.ready();
      for (;;) {
        MappedMemory memory;
        EXPECT_STATUS(success, cuMemsetD8Async(memory.address(), 1, 100'000, device.stream));
        words[0].fetch_add(1);
      }
      return 0;
    });
    client.wait_ready();
    const std::uint64_t until = words[0].load() + static_cast<std::uint64_t>(round) * 3;
    while (words[0].load() < until) std::this_thread::yield();
    client.kill();
    EXPECT_EQ(client.wait(), 128 + SIGKILL);
  }
  Device device;
  EXPECT_EQ(test_api().device_bytes_held(0), 0U);
}

}  // namespace
}  // namespace vramlink::simcuda
