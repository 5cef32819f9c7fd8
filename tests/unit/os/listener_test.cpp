#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "os/process.hpp"
#include "os/socket.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using os::Listener;
using os::Socket;

class Listening : public test::LeakCheck {
 protected:
  test::TemporaryDirectory directory_;
  std::string path_ = directory_ / "cam0.sock";
  std::array<std::byte, 16> buffer_{};
};

constexpr std::array<std::byte, 1> kHello{std::byte{1}};

TEST_F(Listening, AcceptsWhoConnects) {
  const Listener listener = Listener::bind(path_, 0600).value();
  EXPECT_EQ(listener.path(), path_);
  EXPECT_TRUE(listener.accept().failed_with(Code::empty));
  const Socket client = Socket::connect(path_).value();
  const Socket server = listener.accept().value();
  EXPECT_EQ(::fcntl(server.fd(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(::fcntl(server.fd(), F_GETFL) & O_NONBLOCK, 0);
  ASSERT_TRUE(client.send(kHello));
  EXPECT_TRUE(server.receive(buffer_));
  EXPECT_TRUE(server.receive(buffer_).failed_with(Code::empty));
  EXPECT_EQ(server.peer().value().pid, ::getpid());
}

TEST_F(Listening, ModeIsExactWhateverTheUmask) {
  const mode_t before = ::umask(0);
  for (const mode_t umask : {0000U, 0077U, 0777U}) {
    ::umask(umask);
    const Listener listener = Listener::bind(path_, 0660).value();
    struct stat status {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 07777U, 0660U);
  }
  ::umask(before);
}

TEST_F(Listening, LeavesNothingBehind) {
  {
    Listener listener = Listener::bind(path_, 0600).value();
    EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
    const Listener moved = std::move(listener);
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(Listening, ReplacesWhatTheDeadLeft) {
  std::ofstream(path_) << "left";
  std::ofstream(path_ + ".new") << "left";
  const Listener listener = Listener::bind(path_, 0600).value();
  EXPECT_TRUE(Socket::connect(path_));
}

TEST_F(Listening, DoesNotUnlinkItsSuccessor) {
  Listener first = Listener::bind(path_, 0600).value();
  const Listener second = Listener::bind(path_, 0600).value();
  first = Listener();
  EXPECT_TRUE(Socket::connect(path_));
}

TEST_F(Listening, AssignmentUnlinksTheOldPath) {
  Listener listener = Listener::bind(path_, 0600).value();
  listener = Listener::bind(directory_ / "cam1.sock", 0600).value();
  EXPECT_FALSE(std::filesystem::exists(path_));
  listener.remove_path();
  listener.remove_path();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(Listening, ForkedChildUnlinksNothing) {
  Listener listener = Listener::bind(path_, 0600).value();
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        listener = Listener();
        EXPECT_TRUE(Listener::bind(path_, 0600).failed_with(Code::wrong_state));
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(Socket::connect(path_));
}

TEST_F(Listening, TooLongPathsAreRefusedWithBothNumbers) {
  const std::string longest(os::kSocketPathMaxBytes, 'n');
  const auto listener = Listener::bind("/" + longest.substr(4), 0600);
  ASSERT_TRUE(listener.failed_with(Code::invalid_argument));
  EXPECT_EQ(listener.error().facts()->numbers[0], os::kSocketPathMaxBytes - 3);
  EXPECT_EQ(listener.error().facts()->numbers[1], os::kSocketPathMaxBytes - os::kBindSuffixBytes);
  EXPECT_NE(listener.error().facts()->remedy.find("VRAMLINK_RUNTIME_DIR"), std::string::npos);
  EXPECT_TRUE(Socket::connect("/" + longest).failed_with(Code::invalid_argument));
  EXPECT_TRUE(Socket::connect("/" + longest.substr(1)).failed_with(Code::not_found));
  EXPECT_TRUE(Socket::connect("").failed_with(Code::invalid_argument));
  EXPECT_TRUE(Socket::connect(std::string("/a\0b", 4)).failed_with(Code::invalid_argument));
}

TEST_F(Listening, LongestPathWorks) {
  std::string path = directory_ / "";
  path.resize(os::kSocketPathMaxBytes - os::kBindSuffixBytes, 'n');
  const Listener listener = Listener::bind(path, 0600).value();
  EXPECT_TRUE(Socket::connect(path));
}

TEST_F(Listening, FailuresOfBindSayWhere) {
  const auto no_directory = Listener::bind(directory_ / "missing/cam0.sock", 0600);
  ASSERT_TRUE(no_directory.failed_with(Code::not_found));
  EXPECT_FALSE(no_directory.error().facts()->subject.empty());

  std::filesystem::create_directory(path_ + ".new");
  EXPECT_TRUE(Listener::bind(path_, 0600).failed_with(Code::os));
  std::filesystem::remove(path_ + ".new");

  std::filesystem::create_directory(path_);
  const auto on_directory = Listener::bind(path_, 0600);
  ASSERT_TRUE(on_directory.failed_with(Code::os));
  EXPECT_STREQ(on_directory.error().operation(), "rename");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(Listening, ConnectTellsMissingFromDead) {
  EXPECT_TRUE(Socket::connect(path_).failed_with(Code::not_found));
  {
    const Listener listener = Listener::bind(path_, 0600).value();
    std::filesystem::create_hard_link(path_, directory_ / "left.sock");
  }
  EXPECT_TRUE(Socket::connect(directory_ / "left.sock").failed_with(Code::peer_gone));
  std::ofstream(path_) << "not a socket";
  EXPECT_TRUE(Socket::connect(path_).failed_with(Code::peer_gone));
}

TEST_F(Listening, ConnectNeedsPermission) {
  const Listener listener = Listener::bind(path_, 0000).value();
  test::ChildProcess child([&](const test::ChildLink&) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0) {
      EXPECT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
      EXPECT_EQ(::seteuid(kNobody), 0);
    }
    EXPECT_TRUE(Socket::connect(path_).failed_with(Code::permission_denied));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Listening, FullBacklogIsAnOutcome) {
  const Listener listener = Listener::bind(path_, 0600).value();
  std::vector<Socket> waiting;
  Result<Socket> next = Socket::connect(path_);
  while (next && waiting.size() < 1000) {
    waiting.push_back(*std::move(next));
    next = Socket::connect(path_);
  }
  ASSERT_TRUE(next.failed_with(Code::full)) << waiting.size();
  EXPECT_EQ(next.error().facts(), nullptr);
  ASSERT_TRUE(listener.accept());
  EXPECT_TRUE(Socket::connect(path_));
}

TEST_F(Listening, AcceptWithoutADescriptorLeftKeepsTheConnection) {
  const Listener listener = Listener::bind(path_, 0600).value();
  const Socket client = Socket::connect(path_).value();
  {
    const test::FileLimit limit;
    EXPECT_TRUE(listener.accept().failed_with(Code::resource_exhausted));
    EXPECT_TRUE(Socket::connect(path_).failed_with(Code::resource_exhausted));
  }
  EXPECT_TRUE(listener.accept());
}

TEST_F(Listening, PeerIsTheProcessThatConnected) {
  const Listener listener = Listener::bind(path_, 0600).value();
  test::ChildProcess child([&](const test::ChildLink& parent) {
    const Socket socket = Socket::connect(path_).value();
    parent.ready();
    (void)parent.wait_go();
    parent.wait_forever();
    return 0;
  });
  child.wait_ready();
  const Socket socket = listener.accept().value();
  EXPECT_EQ(socket.peer().value().pid, child.pid());
  const auto pidfd = socket.peer_pidfd().value();
  EXPECT_EQ(os::pid_of_pidfd(pidfd.get()).value(), child.pid());
  EXPECT_FALSE(os::pidfd_exited(pidfd.get()));
  child.kill();
  child.wait_until_zombie();
  EXPECT_TRUE(os::pidfd_exited(pidfd.get()));
  EXPECT_TRUE(socket.receive(buffer_).failed_with(Code::closed));
  (void)child.wait();
  EXPECT_TRUE(socket.peer_pidfd_by_pid().failed_with(Code::peer_gone));
  // Newer kernels still give a pidfd of the reaped process, which says the same.
  const auto late = socket.peer_pidfd();
  EXPECT_TRUE(late ? os::pidfd_exited(late->get()) : late.failed_with(Code::peer_gone));
}

TEST_F(Listening, EmptyListenerFails) {
  const Listener none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.accept().failed_with(Code::os));
}

}  // namespace
}  // namespace vramlink
