#include "link/peer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "os/process.hpp"
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

TEST_F(PeerTest, InAnotherPidNamespaceAProcessHasAnotherNumber) {
  wire::ProcessFacts claimed = facts_;
  claimed.pid_namespace ^= 1;
  claimed.pid = 1;
  EXPECT_TRUE(authenticate(claimed)) << "the kernel knows it by the number that we see";
}

}  // namespace
}  // namespace vramlink
