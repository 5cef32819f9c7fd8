#include "support/child_process.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::ChildProcess;

class Child : public test::LeakCheck {};

TEST_F(Child, EndsWithTheCodeOfItsBody) {
  ChildProcess child([](const ChildLink&) { return 42; });
  EXPECT_EQ(child.wait(), 42);
  EXPECT_EQ(child.wait(), 42);
}

TEST_F(Child, TalksBothWays) {
  ChildProcess child([](const ChildLink& parent) {
    parent.ready(parent.wait_go());
    return 0;
  });
  child.go(9);
  EXPECT_EQ(child.wait_ready(), 9);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Child, AFailedExpectationIsNotLost) {
  ChildProcess child([](const ChildLink&) {
    EXPECT_TRUE(::getpid() == 0) << "this failure is part of the test";
    return 0;
  });
  EXPECT_EQ(child.wait(), ChildProcess::kFailedExpectation);
}

TEST_F(Child, CanBeStoppedResumedAndKilled) {
  ChildProcess child([](const ChildLink& parent) {
    parent.ready(parent.wait_go());
    parent.wait_forever();
    return 0;
  });
  for (int round = 0; round < 2; ++round) {
    child.stop();
    child.resume();
  }
  child.stop();
  child.go(3);
  child.resume();
  EXPECT_EQ(child.wait_ready(), 3);
  child.kill();
  child.wait_until_zombie();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
}

TEST_F(Child, AStoppedChildIsCleanedUp) {
  ChildProcess child([](const ChildLink& parent) {
    parent.wait_forever();
    return 0;
  });
  child.stop();
}

TEST_F(Child, EndingBeforeReadyIsAFailure) {
  ChildProcess child([](const ChildLink&) { return 0; });
  EXPECT_NONFATAL_FAILURE(child.wait_ready(), "ended before it was ready");
}

}  // namespace
}  // namespace vramlink
