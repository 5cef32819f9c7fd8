#include "os/socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "os/fork_guard.hpp"
#include "os/process.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/other_user.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink {
namespace {

using os::Socket;
using os::UniqueFd;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class SocketPair : public test::LeakCheck {
 protected:
  SocketPair() {
    auto ends = Socket::pair().value();
    left_ = std::move(ends.first);
    right_ = std::move(ends.second);
  }

  Result<Socket::Received> receive() { return right_.receive(buffer_); }
  [[nodiscard]] std::string_view text(const Socket::Received& received) const {
    return {reinterpret_cast<const char*>(buffer_.data()), received.size_bytes};
  }
  /// A peer that does not keep our rules: any bytes with any number of descriptors.
  void send_raw(std::string_view message, std::size_t fd_count) const {
    std::array<std::byte, CMSG_SPACE(64 * sizeof(int))> control{};
    iovec part{const_cast<char*>(message.data()), message.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (fd_count != 0) {
      const std::vector<int> fds(fd_count, STDIN_FILENO);
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fd_count * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(left_.fd(), &header, 0), static_cast<ssize_t>(message.size()))
        << std::strerror(errno);
  }
  void fill() const {
    while (left_.send(bytes_of("filler"))) {
    }
  }

  Socket left_;
  Socket right_;
  std::array<std::byte, 64> buffer_{};
};

TEST_F(SocketPair, CarriesWholeMessagesInOrder) {
  EXPECT_TRUE(receive().failed_with(Code::empty));
  ASSERT_TRUE(left_.send(bytes_of("one")));
  ASSERT_TRUE(left_.send(bytes_of("three")));
  auto received = receive();
  ASSERT_TRUE(received);
  EXPECT_EQ(text(*received), "one");
  EXPECT_TRUE(received->fds.empty());
  received = receive();
  ASSERT_TRUE(received);
  EXPECT_EQ(text(*received), "three");
  EXPECT_TRUE(receive().failed_with(Code::empty));
}

TEST_F(SocketPair, CarriesDescriptors) {
  std::array<UniqueFd, os::kFdsPerMessageMax> events;
  std::array<int, os::kFdsPerMessageMax> raw{};
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i] = os::event_fd().value();
    raw[i] = events[i].get();
  }
  ASSERT_TRUE(left_.send(bytes_of("take these"), raw));
  const auto received = receive();
  ASSERT_TRUE(received);
  ASSERT_EQ(received->fds.size(), events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(::fcntl(received->fds[i].get(), F_GETFD), FD_CLOEXEC);
    const std::uint64_t mark = i + 1;
    ASSERT_EQ(::write(raw[i], &mark, sizeof(mark)), 8);
    std::uint64_t seen = 0;
    ASSERT_EQ(::read(received->fds[i].get(), &seen, sizeof(seen)), 8);
    EXPECT_EQ(seen, mark) << "the order of the descriptors changed";
  }
}

TEST_F(SocketPair, MessagesBeforeTheEndAreNotLost) {
  ASSERT_TRUE(left_.send(bytes_of("bye")));
  left_ = Socket();
  const auto received = receive();
  ASSERT_TRUE(received);
  EXPECT_EQ(text(*received), "bye");
  EXPECT_TRUE(receive().failed_with(Code::closed));
  EXPECT_TRUE(receive().failed_with(Code::closed));
}

TEST_F(SocketPair, MessagesAreNotLostIfThePeerLeftOursUnread) {
  ASSERT_TRUE(right_.send(bytes_of("nobody reads this")));
  ASSERT_TRUE(left_.send(bytes_of("bye")));
  left_ = Socket();
  const auto received = receive();
  ASSERT_TRUE(received) << to_string(received.error());
  EXPECT_EQ(text(*received), "bye");
  EXPECT_TRUE(receive().failed_with(Code::closed));
}

TEST_F(SocketPair, SendingToNobodyIsPeerGone) {
  right_ = Socket();
  const auto sent = left_.send(bytes_of("hello"));
  ASSERT_TRUE(sent.failed_with(Code::peer_gone));
  EXPECT_EQ(sent.error().facts(), nullptr);
}

TEST_F(SocketPair, ShutDownEndsBothDirections) {
  ASSERT_TRUE(right_.send(bytes_of("before")));
  right_.shut_down();
  EXPECT_TRUE(left_.receive(buffer_));
  EXPECT_TRUE(left_.receive(buffer_).failed_with(Code::closed));
  EXPECT_TRUE(left_.send(bytes_of("after")).failed_with(Code::peer_gone));
}

TEST_F(SocketPair, MessagesThatBreakTheRulesAreNotSent) {
  EXPECT_TRUE(left_.send({}).failed_with(Code::invalid_argument));
  const std::array<int, os::kFdsPerMessageMax + 1> too_many{};
  EXPECT_TRUE(left_.send(bytes_of("x"), too_many).failed_with(Code::invalid_argument));
  const std::array<int, 1> closed{-1};
  EXPECT_TRUE(left_.send(bytes_of("x"), closed).failed_with(Code::os));
  const std::vector<std::byte> huge(std::size_t{64} << 20U);
  const auto sent = left_.send(huge);
  ASSERT_TRUE(sent.failed_with(Code::invalid_argument));
  EXPECT_EQ(sent.error().facts()->numbers[0], huge.size());
  EXPECT_TRUE(receive().failed_with(Code::empty)) << "a part was sent";
}

TEST_F(SocketPair, FullIsAnOutcome) {
  fill();
  const auto sent = left_.send(bytes_of("one more"));
  ASSERT_TRUE(sent.failed_with(Code::full));
  EXPECT_EQ(sent.error().facts(), nullptr);
  ASSERT_TRUE(receive());
}

TEST_F(SocketPair, LargerThanTheBufferIsCorruptAndItsDescriptorsAreClosed) {
  const std::string large(buffer_.size() + 1, 'l');
  send_raw(large, 2);
  ASSERT_TRUE(left_.send(bytes_of("next")));
  const auto received = receive();
  ASSERT_TRUE(received.failed_with(Code::corrupt));
  EXPECT_EQ(received.error().facts()->numbers[0], buffer_.size());
  EXPECT_EQ(received.error().facts()->numbers[1], large.size());
  const auto next = receive();
  ASSERT_TRUE(next);
  EXPECT_EQ(text(*next), "next");
}

TEST_F(SocketPair, TooManyDescriptorsAreCorruptAndClosed) {
  for (const std::size_t fd_count : {os::kFdsPerMessageMax + 1, std::size_t{64}}) {
    send_raw("many", fd_count);
    EXPECT_TRUE(receive().failed_with(Code::corrupt));
  }
}

TEST_F(SocketPair, OurOwnLimitIsNotThePeersFault) {
  for (const int spare_count : {0, 1, 2}) {
    send_raw("three", 3);
    const test::FileLimit limit(spare_count);
    const auto received = receive();
    ASSERT_TRUE(received.failed_with(Code::resource_exhausted)) << spare_count;
    EXPECT_EQ(received.error().facts()->numbers[0], test::FileLimit::current());
  }
}

TEST_F(SocketPair, EmptyMessageOfAHostilePeerLooksLikeTheEnd) {
  send_raw("", 0);
  EXPECT_TRUE(receive().failed_with(Code::closed));
  send_raw("", 3);
  EXPECT_TRUE(receive().failed_with(Code::closed));
}

TEST_F(SocketPair, LimitOfDescriptorsIsAnError) {
  const test::FileLimit limit(1);
  EXPECT_TRUE(Socket::pair().failed_with(Code::resource_exhausted));
}

TEST_F(SocketPair, KnowsItsPeer) {
  const auto credentials = left_.peer();
  ASSERT_TRUE(credentials);
  EXPECT_EQ(credentials->pid, ::getpid());
  EXPECT_EQ(credentials->uid, ::geteuid());
  EXPECT_EQ(credentials->gid, ::getegid());
  const auto pidfd = left_.peer_pidfd();
  ASSERT_TRUE(pidfd) << to_string(pidfd.error());
  EXPECT_EQ(os::pid_of_pidfd(pidfd->get()).value(), ::getpid());
  const auto by_pid = left_.peer_pidfd_by_pid();
  ASSERT_TRUE(by_pid) << to_string(by_pid.error());
  EXPECT_EQ(os::pid_of_pidfd(by_pid->get()).value(), ::getpid());
}

TEST_F(SocketPair, KnowsThePeersGroupsHoweverManyThereAre) {
  std::vector<gid_t> own(static_cast<std::size_t>(::getgroups(0, nullptr)));
  ASSERT_EQ(::getgroups(static_cast<int>(own.size()), own.data()), static_cast<int>(own.size()));
  EXPECT_EQ(left_.peer_groups().value(), own);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its groups";
  test::ChildProcess child([](const test::ChildLink&) {
    std::vector<gid_t> many;
    for (gid_t gid = 54300; gid < 54400; ++gid) many.push_back(gid);
    EXPECT_TRUE(test::become({54301, 54302, many}));
    const auto ends = Socket::pair().value();
    EXPECT_EQ(ends.first.peer_groups().value(), many);
    EXPECT_EQ(ends.first.peer().value().gid, 54302U);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SocketPair, ByPidDistrustsAConnectionThatEnded) {
  right_ = Socket();
  EXPECT_TRUE(left_.peer_pidfd_by_pid().failed_with(Code::peer_gone));
}

TEST_F(SocketPair, EmptySocketFailsEverything) {
  const Socket none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.send(bytes_of("x")).failed_with(Code::os));
  EXPECT_TRUE(none.receive(buffer_).failed_with(Code::os));
  EXPECT_TRUE(none.peer().failed_with(Code::os));
  EXPECT_TRUE(none.peer_pidfd().failed_with(Code::os));
  EXPECT_TRUE(none.peer_pidfd_by_pid().failed_with(Code::os));
}

TEST_F(SocketPair, ForkedChildDoesNotHangUp) {
  ASSERT_TRUE(os::arm_fork_guard());
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        right_.shut_down();
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(left_.send(bytes_of("still there")));
}

}  // namespace
}  // namespace vramlink
