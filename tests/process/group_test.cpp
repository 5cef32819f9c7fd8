// Channels that a group of users shares: processes of other users, and what they may.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "link/names.hpp"
#include "os/epoll.hpp"
#include "os/socket.hpp"
#include "support/channel_fixture.hpp"
#include "support/other_user.hpp"
#include "wire/codec.hpp"

namespace vramlink {
namespace {

using test::become;
using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::publish_complete;
using test::publish_number;
using test::soon;
using test::UserIds;

constexpr gid_t kGroup = 54300;
constexpr uid_t kOwnerId = 54301;
constexpr uid_t kMemberId = 54302;
constexpr uid_t kStrangerId = 54303;
constexpr int kSkipped = 77;

const UserIds kOwner{kOwnerId, kOwnerId, {kGroup}};
const UserIds kMember{kMemberId, kMemberId, {54310, kGroup, 54311}};
const UserIds kMemberFirst{kMemberId, kGroup, {}};
const UserIds kStranger{kStrangerId, kStrangerId, {54310}};

class GroupTest : public test::ChannelFixture {
 protected:
  GroupTest() = default;
  GroupTest(const GroupTest&) = delete;
  GroupTest& operator=(const GroupTest&) = delete;
  /// Takes away what only a sweep leaves.
  ~GroupTest() override { std::filesystem::remove(directory_ / ".guard"); }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    ChannelFixture::SetUp();
    give_to(kOwnerId);
  }
  /// The directory is that user's, and the group's.
  void give_to(uid_t user) const {
    ASSERT_EQ(::chown(directory_.path().c_str(), user, kGroup), 0);
    ASSERT_EQ(::chmod(directory_.path().c_str(), 02750), 0);
  }
  [[nodiscard]] Result<Runtime> try_open(const std::string& directory) const {
    return Runtime::open({.directory = directory, .group = std::to_string(kGroup)});
  }
  [[nodiscard]] Runtime open_group() const { return try_open(directory_.path()).value(); }
  /// Publishes one frame, and ends with go().
  [[nodiscard]] ChildProcess::Body publisher_of(const UserIds& ids) const {
    return [this, ids](const ChildLink& link) {
      EXPECT_TRUE(become(ids));
      const Runtime runtime = open_group();
      Publisher publisher = open_publisher(runtime);
      EXPECT_TRUE(publish_complete(publisher, 1));
      link.ready();
      static_cast<void>(link.wait_go());
      return 0;
    };
  }
  static struct stat status_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status;
  }
  static void expect_shared(const std::string& path, uid_t user, mode_t mode) {
    const struct stat status = status_of(path);
    EXPECT_EQ(status.st_uid, user) << path;
    EXPECT_EQ(status.st_gid, kGroup) << path;
    EXPECT_EQ(status.st_mode & 07777U, mode) << path;
  }
};

/// permission_denied, saying `what`, and what to do.
::testing::AssertionResult is_refused(const Error& error, const std::string& what) {
  const std::string text = to_string(error);
  if (error.code() != Code::permission_denied || error.facts() == nullptr ||
      error.facts()->remedy.empty() || text.find(what) == std::string::npos) {
    return ::testing::AssertionFailure() << text;
  }
  return ::testing::AssertionSuccess();
}

template <class T>
::testing::AssertionResult is_refused(const Result<T>& result, const std::string& what) {
  if (result) return ::testing::AssertionFailure() << "it was let in";
  return is_refused(result.error(), what);
}

TEST_F(GroupTest, MembersGetEveryFrameByteForByte) {
  constexpr std::uint64_t kFrames = 60;
  give_to(0);
  std::vector<std::unique_ptr<ChildProcess>> members;
  for (const UserIds& ids : {kMember, kMemberFirst}) {
    members.push_back(std::make_unique<ChildProcess>([this, ids](const ChildLink& link) {
      EXPECT_TRUE(become(ids));
      const test::Holdings before = test::current_holdings();
      static_cast<void>(link.wait_go());
      {
        const Runtime runtime = open_group();
        EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{kName});
        EXPECT_TRUE(inspect_channel(runtime, kName, soon()).value().responsive);
        EXPECT_EQ(inspect_owner(runtime, kName).value().uid, 0);
        Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(7)});
        link.ready();
        for (std::uint64_t number = 1; number <= kFrames; ++number) {
          EXPECT_TRUE(test::receives_frame(subscriber, number, soon()));
        }
        EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::closed));
        EXPECT_EQ(subscriber.statistics().lost, 0U);
      }
      EXPECT_EQ(test::settled_difference(before), "");
      return 0;
    }));
  }
  const Runtime runtime = open_group();
  Publisher publisher = open_publisher(runtime, {.slot_count = 8, .when_full = WhenFull::block});
  expect_shared(link::socket_path(directory_.path(), kName), 0, 0660);
  expect_shared(link::lock_path(directory_.path(), kName), 0, 0640);
  for (const auto& member : members) {
    member->go();
    member->wait_ready();
  }
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, soon()));
  }
  EXPECT_TRUE(publisher.close(soon()));
  for (const auto& member : members) EXPECT_EQ(member->wait(), 0);
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_F(GroupTest, OthersAreRefusedAndHearWhy) {
  ChildProcess publisher(publisher_of(kOwner));
  publisher.wait_ready();
  ChildProcess stranger([this](const ChildLink&) {
    EXPECT_TRUE(become(kStranger));
    EXPECT_TRUE(is_refused(try_open(directory_.path()), "is not in group 54300"));
    EXPECT_TRUE(is_refused(Runtime::open({.directory = directory_.path()}), "belongs to uid"));
    return 0;
  });
  EXPECT_EQ(stranger.wait(), 0);
  ChildProcess member([this](const ChildLink&) {
    EXPECT_TRUE(become(kMember));
    // Without the word of consent the folder of another user is what it always was.
    EXPECT_TRUE(is_refused(Runtime::open({.directory = directory_.path()}), "belongs to uid"));
    const auto other = Runtime::open({.directory = directory_.path(), .group = "54310"});
    EXPECT_TRUE(is_refused(other, "expected group 54310 and mode 2750"));
    EXPECT_TRUE(try_open(directory_.path()));
    return 0;
  });
  EXPECT_EQ(member.wait(), 0);
  // Root may enter every folder, and is asked for its groups like anybody.
  EXPECT_TRUE(is_refused(try_open(directory_.path()), "uid 0, is not in group 54300"));
  publisher.go();
  EXPECT_EQ(publisher.wait(), 0);
}

TEST_F(GroupTest, ThePublisherItselfRefusesWhoGetsThatFar) {
  ChildProcess publisher(publisher_of(kOwner));
  publisher.wait_ready();
  const os::Socket socket =
      os::Socket::connect(link::socket_path(directory_.path(), kName)).value();
  ASSERT_TRUE(os::wait_readable(socket.fd(), soon()));
  std::array<std::byte, wire::kMessageBytesMax> buffer;
  const auto received = socket.receive(buffer).value();
  EXPECT_TRUE(received.fds.empty());
  const auto refused =
      wire::decode<wire::Refused>(std::span(buffer.data(), received.size_bytes), 0).value();
  EXPECT_EQ(refused.code, static_cast<std::uint32_t>(Code::permission_denied));
  EXPECT_NE(std::string(wire::text_of(refused)).find("it is not in group 54300"),
            std::string::npos);
  publisher.go();
  EXPECT_EQ(publisher.wait(), 0);
}

TEST_F(GroupTest, OnlyTheOwnerPublishes) {
  const UserIds root_in_group{0, 0, {kGroup}};  // which could write everywhere
  for (const UserIds& ids : {kMember, kMemberFirst, root_in_group}) {
    ChildProcess child([this, ids](const ChildLink&) {
      EXPECT_TRUE(become(ids));
      const Runtime runtime = open_group();
      const auto publisher = Publisher::open(runtime, kName, Format::bytes(8).value());
      EXPECT_TRUE(is_refused(publisher, "only the owner publishes"));
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(GroupTest, AMemberThatIsKilledGivesItsSlotsBack) {
  give_to(0);
  ChildProcess child([this](const ChildLink& link) {
    EXPECT_TRUE(become(kMember));
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_group();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
    const Frame frame = subscriber.receive(soon()).value();
    link.ready();
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_group();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(publish_number(publisher, 1));
  child.go();
  child.wait_ready();
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  EXPECT_EQ(publisher.statistics().subscribers.at(0).pid, child.pid());
  child.kill();
  EXPECT_TRUE(publish_number(publisher, 3, kForever)) << "its death is the only thing that rings";
  EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
  child.wait();
}

TEST_F(GroupTest, AMemberSeesItsPublisherDieAndComesToTheNext) {
  ChildProcess member([this](const ChildLink& link) {
    EXPECT_TRUE(become(kMember));
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_group();
    Subscriber subscriber = open_subscriber(runtime);
    const Frame frame = subscriber.receive(soon()).value();
    link.ready();
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
    EXPECT_TRUE(test::holds_frame(frame.bytes(), 1)) << "held frames stay readable";
    EXPECT_EQ(subscriber.statistics().peer_deaths, 1U);
    static_cast<void>(link.wait_go());  // the hang-up comes a moment before the process's end
    // What a dead owner left is its user's to clean up: here it is looked at, and no more.
    EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{});
    link.ready();
    const Frame next = subscriber.receive(soon()).value();
    EXPECT_TRUE(test::holds_frame(next.bytes(), 1));
    EXPECT_NE(next.epoch(), frame.epoch());
    return 0;
  });
  ChildProcess first(publisher_of(kOwner));
  first.wait_ready();
  member.go();
  member.wait_ready();
  first.kill();
  first.wait();
  member.go();
  member.wait_ready();
  EXPECT_EQ(files().size(), 2U) << "nobody swept in the meantime";
  ChildProcess second(publisher_of(kOwner));
  second.wait_ready();
  EXPECT_EQ(member.wait(), 0);
  second.go();
  EXPECT_EQ(second.wait(), 0);
}

TEST_F(GroupTest, AMemberCannotWriteNorKeepANameForEver) {
  ChildProcess first(publisher_of(kOwner));
  first.wait_ready();
  ChildProcess hostile([this](const ChildLink& link) {
    EXPECT_TRUE(become(kMember));
    const std::string lock = link::lock_path(directory_.path(), kName);
    const std::string socket = link::socket_path(directory_.path(), kName);
    EXPECT_EQ(::open((directory_ / "other.lock").c_str(), O_RDWR | O_CREAT, 0600), -1);
    EXPECT_EQ(::open(lock.c_str(), O_RDWR), -1);
    EXPECT_EQ(::unlink(lock.c_str()), -1);
    EXPECT_EQ(::unlink(socket.c_str()), -1);
    EXPECT_EQ(::chmod(socket.c_str(), 0666), -1);
    const os::UniqueFd directory(::open(directory_.path().c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::flock(directory.get(), LOCK_EX | LOCK_NB), 0);
    const os::UniqueFd file(::open(lock.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), -1) << "its owner lives";
    link.ready();
    EXPECT_EQ(::flock(file.get(), LOCK_EX), 0) << "its owner is dead";
    link.ready();
    link.wait_forever();
    return 0;
  });
  hostile.wait_ready();
  first.kill();
  first.wait();
  hostile.wait_ready();
  ChildProcess second(publisher_of(kOwner));
  second.wait_ready();
  second.go();
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(files(), std::vector<std::string>{".guard"});
  EXPECT_EQ(status_of(directory_ / ".guard").st_mode & 07777U, 0600U);
}

TEST_F(GroupTest, TheFirstPublisherMakesTheDirectoryAndSubscribersWaitForIt) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  const std::string made = directory_ / "made";
  ChildProcess member([&](const ChildLink& link) {
    EXPECT_TRUE(become(kMember));
    const Runtime runtime = try_open(made).value();
    EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{});
    EXPECT_TRUE(Subscriber::open(runtime, kName, Deadline::passed()).failed_with(Code::not_found));
    EXPECT_FALSE(std::filesystem::exists(made)) << "it would be its owner";
    link.ready();
    Subscriber subscriber = open_subscriber(runtime);
    EXPECT_TRUE(test::receives_frame(subscriber, 1, soon()));
    return 0;
  });
  member.wait_ready();
  ChildProcess publisher([&](const ChildLink& link) {
    EXPECT_TRUE(become(kOwner));
    const mode_t before = ::umask(0077);
    const Runtime runtime = try_open(made).value();
    EXPECT_FALSE(std::filesystem::exists(made));
    Publisher first = open_publisher(runtime);
    ::umask(before);
    expect_shared(made, kOwnerId, 02750);
    expect_shared(link::socket_path(made, kName), kOwnerId, 0660);
    EXPECT_TRUE(first.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(first, 1));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  publisher.wait_ready();
  EXPECT_EQ(member.wait(), 0);
  publisher.go();
  EXPECT_EQ(publisher.wait(), 0);
  EXPECT_EQ(files(), std::vector<std::string>{"made"});
  std::filesystem::remove_all(made);
}

TEST_F(GroupTest, WhoIsNotInTheGroupCannotMakeItsDirectory) {
  ASSERT_EQ(::chown(directory_.path().c_str(), kStrangerId, kStrangerId), 0);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0700), 0);
  ChildProcess stranger([this](const ChildLink&) {
    EXPECT_TRUE(become(kStranger));
    EXPECT_TRUE(is_refused(try_open(directory_ / "made"), "is not in group 54300"));
    EXPECT_TRUE(files().empty());
    return 0;
  });
  EXPECT_EQ(stranger.wait(), 0);
}

TEST_F(GroupTest, AChannelThatItsOwnerKeepsIsNotTheGroups) {
  ChildProcess owner([this](const ChildLink& link) {
    EXPECT_TRUE(become(kOwner));
    const Runtime runtime = open_runtime();  // the same folder, and no word of a group
    const Publisher publisher = open_publisher(runtime);
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  owner.wait_ready();
  ChildProcess member([this](const ChildLink&) {
    EXPECT_TRUE(become(kMember));
    const Runtime runtime = open_group();
    EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{});
    const auto subscriber = Subscriber::open(runtime, kName, soon());
    EXPECT_TRUE(is_refused(subscriber, "has mode 0600, expected a socket of uid 54301"));
    return 0;
  });
  EXPECT_EQ(member.wait(), 0);
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

TEST_F(GroupTest, ProcessesThatProcHidesFromEachOtherShareAll) {
  const auto hidden = [](const UserIds& ids) {
    return test::enter_namespaces(CLONE_NEWNS) && test::mount_apart("proc", "/proc", "hidepid=2") &&
           become(ids);
  };
  ChildProcess owner([&](const ChildLink& link) {
    const bool away = hidden(kOwner);
    link.ready(away ? 1 : 2);
    if (!away) return kSkipped;
    const Runtime runtime = open_group();
    Publisher publisher = open_publisher(runtime);
    link.ready();
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    link.wait_forever();
    return 0;
  });
  if (owner.wait_ready() == 2) GTEST_SKIP() << "/proc cannot be mounted with hidepid here";
  owner.wait_ready();
  ChildProcess member([&](const ChildLink& link) {
    EXPECT_TRUE(hidden(kMember));
    EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(owner.pid())));
    const Runtime runtime = open_group();
    EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{kName});
    EXPECT_EQ(inspect_owner(runtime, kName).value().pid, owner.pid());
    Subscriber subscriber = open_subscriber(runtime);
    EXPECT_TRUE(test::receives_frame(subscriber, 1, soon()));
    link.ready();
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
    return 0;
  });
  member.wait_ready();
  owner.kill();
  EXPECT_EQ(member.wait(), 0);
  expect_leftovers();
}

}  // namespace
}  // namespace vramlink
