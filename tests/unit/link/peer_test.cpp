#include "link/peer.hpp"

#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/process.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

/// Both ends are this process: what it claims is judged against itself.
class PeerTest : public test::LeakCheck {
 protected:
  PeerTest() {
    auto [ours, theirs] = os::Socket::pair().value();
    ours_ = std::move(ours);
    theirs_ = std::move(theirs);
  }
  Result<link::Peer> authenticate(const wire::ProcessFacts& claimed) {
    return link::authenticate(ours_, claimed, os::UniqueFd());
  }

  os::Socket ours_;
  os::Socket theirs_;
  const wire::ProcessFacts facts_ = link::own_facts().value();
};

TEST_F(PeerTest, SaysWhoWeAre) {
  const os::ProcessIdentity self = os::identify_self().value();
  EXPECT_EQ(facts_.pid, ::getpid());
  EXPECT_EQ(facts_.pid_namespace, self.pid_namespace);
  EXPECT_EQ(facts_.boot_id, self.boot_id);
  EXPECT_EQ(facts_.start_time, self.start_time_ticks);
}

TEST_F(PeerTest, AcceptsTheTruth) {
  const auto peer = authenticate(facts_);
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_TRUE(os::is_pidfd(peer->pidfd.get()));
  EXPECT_FALSE(os::pidfd_exited(peer->pidfd.get()));
}

TEST_F(PeerTest, RefusesAnotherPid) {
  wire::ProcessFacts claimed = facts_;
  claimed.pid = ::getppid();
  const auto peer = authenticate(claimed);
  ASSERT_TRUE(peer.failed_with(Code::corrupt));
  EXPECT_EQ(peer.error().facts()->peer_pid, ::getpid());
}

TEST_F(PeerTest, RefusesAnotherStartTime) {
  wire::ProcessFacts claimed = facts_;
  claimed.start_time += 100;
  EXPECT_TRUE(authenticate(claimed).failed_with(Code::corrupt));
}

TEST_F(PeerTest, StartTimesOfNeighbouringTicksAreOne) {
  for (const std::uint64_t ticks : {facts_.start_time - 1, facts_.start_time + 1}) {
    wire::ProcessFacts claimed = facts_;
    claimed.start_time = ticks;
    EXPECT_TRUE(authenticate(claimed));
  }
  wire::ProcessFacts claimed = facts_;
  claimed.start_time += 2;
  EXPECT_TRUE(authenticate(claimed).failed_with(Code::corrupt));
}

TEST_F(PeerTest, RefusesAnotherBoot) {
  wire::ProcessFacts claimed = facts_;
  claimed.boot_id[3] ^= 1;
  EXPECT_TRUE(authenticate(claimed).failed_with(Code::corrupt));
}

TEST_F(PeerTest, ItsUserIsLetInWithAndWithoutAGroup) {
  EXPECT_TRUE(link::check_reader(ours_, {::geteuid(), {}}));
  EXPECT_TRUE(link::check_reader(ours_, {::geteuid(), 54300}));
}

TEST_F(PeerTest, AnotherUserMustBeInTheGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  /// How root judges a peer that had these groups when it connected.
  const auto judge = [](gid_t first, const std::vector<gid_t>& others, std::optional<gid_t> group) {
    EXPECT_EQ(::setgroups(others.size(), others.data()), 0);
    EXPECT_EQ(::setegid(first), 0);
    EXPECT_EQ(::seteuid(54301), 0);
    const auto [ours, theirs] = os::Socket::pair().value();
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
    return link::check_reader(ours, {0, group});
  };
  test::ChildProcess child([&](const test::ChildLink&) {
    EXPECT_TRUE(judge(54300, {}, 54300));
    EXPECT_TRUE(judge(54301, {54302, 54300}, 54300));
    for (const auto& refused :
         {judge(54300, {54300}, std::nullopt), judge(54301, {54302}, 54300)}) {
      EXPECT_TRUE(refused.failed_with(Code::permission_denied));
      if (refused) continue;
      EXPECT_NE(refused.error().facts()->reason.find("it runs as uid 54301, we run as uid 0"),
                std::string::npos);
      EXPECT_FALSE(refused.error().facts()->remedy.empty());
    }
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(PeerTest, InAnotherPidNamespaceAProcessHasAnotherNumber) {
  wire::ProcessFacts claimed = facts_;
  claimed.pid_namespace ^= 1;
  claimed.pid = 1;
  EXPECT_TRUE(authenticate(claimed)) << "the kernel knows it by the number that we see";
}

}  // namespace
}  // namespace vramlink
