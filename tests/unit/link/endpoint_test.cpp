#include "link/endpoint.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "link/names.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using link::Endpoint;

class EndpointTest : public test::LeakCheck {
 protected:
  [[nodiscard]] std::string socket() const { return link::socket_path(directory_.path(), "cam0"); }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(directory_.path()); }
  Result<std::unique_ptr<Endpoint>> create(const std::string& name = "cam0") {
    return Endpoint::create(directory_.path(), name);
  }
  runtime::Reactor& reactor() {
    if (!reactor_) reactor_ = runtime::Reactor::start().value();
    return *reactor_;
  }

  test::TemporaryDirectory directory_;
  std::unique_ptr<runtime::Reactor> reactor_;
};

TEST_F(EndpointTest, TakesANameAndGivesItBack) {
  {
    const auto endpoint = create().value();
    struct stat status {};
    ASSERT_EQ(::stat(socket().c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
  EXPECT_TRUE(is_empty());
  EXPECT_TRUE(create());
}

TEST_F(EndpointTest, AGroupMayConnectAndSeeWhoseItIs) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 02750), 0);
  const auto endpoint = Endpoint::create(directory_.path(), "cam0", ::getegid()).value();
  struct stat status {};
  ASSERT_EQ(::stat(socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660U);
  ASSERT_EQ(::stat(link::lock_path(directory_.path(), "cam0").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST_F(EndpointTest, ASocketThatIsNotTheGroupsIsNotKept) {
  const gid_t other = ::getegid() + 1;
  EXPECT_TRUE(
      Endpoint::create(directory_.path(), "cam0", other).failed_with(Code::permission_denied))
      << "the directory did not hand it down";
  EXPECT_TRUE(is_empty());
}

TEST_F(EndpointTest, RefusesASecondOwnerWithTheFirstOnesPid) {
  const auto endpoint = create().value();
  const auto second = create();
  ASSERT_TRUE(second.failed_with(Code::already_exists));
  EXPECT_EQ(second.error().facts()->peer_pid, ::getpid());
  EXPECT_EQ(second.error().facts()->subject, "cam0");
  EXPECT_TRUE(std::filesystem::exists(socket())) << "the refused one took nothing away";
  EXPECT_TRUE(create("cam1"));
}

TEST_F(EndpointTest, RefusesOddNames) {
  EXPECT_TRUE(create("").failed_with(Code::invalid_argument));
  EXPECT_TRUE(create("../x").failed_with(Code::invalid_argument));
  EXPECT_TRUE(is_empty());
}

TEST_F(EndpointTest, ADirectoryThatIsMissingIsNamed) {
  EXPECT_TRUE(Endpoint::create(directory_ / "missing", "cam0").failed_with(Code::not_found));
}

TEST_F(EndpointTest, TakesOverFromADeadOwner) {
  test::ChildProcess child([&](const test::ChildLink& link) {
    const auto endpoint = create().value();
    link.ready();
    link.wait_forever();
    return 0;
  });
  child.wait_ready();
  const auto refused = create();
  ASSERT_TRUE(refused.failed_with(Code::already_exists));
  EXPECT_EQ(refused.error().facts()->peer_pid, child.pid());
  child.kill();
  child.wait_until_zombie();
  EXPECT_TRUE(std::filesystem::exists(socket())) << "it left its socket behind";
  EXPECT_TRUE(create());
  child.wait();
}

TEST_F(EndpointTest, HandsEachConnectionOn) {
  auto endpoint = create().value();
  std::promise<std::vector<os::Socket>> all;
  std::vector<os::Socket> accepted;
  const auto on_socket = [&](os::Socket connection, bool refused) {
    EXPECT_FALSE(refused);
    accepted.push_back(std::move(connection));
    if (accepted.size() == 40) all.set_value(std::move(accepted));
  };
  ASSERT_TRUE(endpoint->listen(reactor(), on_socket));
  std::vector<os::Socket> ours;
  for (int i = 0; i < 40; ++i) ours.push_back(os::Socket::connect(socket()).value());
  EXPECT_EQ(all.get_future().get().size(), 40U);
  endpoint.reset();
  EXPECT_TRUE(os::Socket::connect(socket()).failed_with(Code::not_found));
}

TEST_F(EndpointTest, AcceptsWhoConnectedBeforeItListened) {
  auto endpoint = create().value();
  const os::Socket early = os::Socket::connect(socket()).value();
  std::promise<void> accepted;
  ASSERT_TRUE(endpoint->listen(reactor(), [&](os::Socket, bool) { accepted.set_value(); }));
  accepted.get_future().wait();
}

TEST_F(EndpointTest, AnswersWithTheReserveWhenNoDescriptorIsLeft) {
  auto endpoint = create().value();
  std::promise<bool> answered;
  ASSERT_TRUE(
      endpoint->listen(reactor(), [&](os::Socket, bool refused) { answered.set_value(refused); }));
  std::optional<os::Socket> ours;
  {
    const test::FileLimit limit(1);  // one more: our own end
    ours = os::Socket::connect(socket()).value();
    EXPECT_TRUE(answered.get_future().get());
  }
  endpoint.reset();
}

/// Lowers RLIMIT_NOFILE so far that what is closed cannot be opened again either.
class NoFilesAtAll {
 public:
  NoFilesAtAll() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit lowered = before_;
    lowered.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  }
  NoFilesAtAll(const NoFilesAtAll&) = delete;
  NoFilesAtAll& operator=(const NoFilesAtAll&) = delete;
  ~NoFilesAtAll() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(EndpointTest, PausesWithoutBlockingTheReactorWhenTheReserveDoesNotHelp) {
  auto endpoint = create().value();
  const os::Socket early = os::Socket::connect(socket()).value();
  runtime::Reactor& loop = reactor();
  std::promise<bool> answered;
  {
    const NoFilesAtAll limit;
    ASSERT_TRUE(
        endpoint->listen(loop, [&](os::Socket, bool refused) { answered.set_value(refused); }));
    for (int i = 0; i < 3; ++i) {
      std::promise<void> ran;
      loop.post([&] { ran.set_value(); });
      ran.get_future().wait();
    }
  }
  EXPECT_FALSE(answered.get_future().get()) << "accepted after the pause";
  endpoint.reset();
}

TEST_F(EndpointTest, MayEndWhileItPauses) {
  auto endpoint = create().value();
  const os::Socket early = os::Socket::connect(socket()).value();
  runtime::Reactor& loop = reactor();
  {
    const NoFilesAtAll limit;
    ASSERT_TRUE(endpoint->listen(loop, [](os::Socket, bool) { ADD_FAILURE() << "no descriptor"; }));
    for (int i = 0; i < 2; ++i) {
      std::promise<void> ran;
      loop.post([&] { ran.set_value(); });
      ran.get_future().wait();
    }
    endpoint.reset();
  }
  std::promise<void> later;  // behind the pause's timer, had it been left
  loop.at(Deadline::after(std::chrono::milliseconds(60)), [&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace vramlink
