#include "runtime/process_state.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <vramlink/log.hpp>
#include <vramlink/runtime.hpp>

#include "base/log.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using runtime::ProcessState;

class ProcessStateTest : public test::LeakCheck {};

TEST_F(ProcessStateTest, IsOneForAllWhileItIsUsed) {
  const auto first = ProcessState::acquire().value();
  EXPECT_EQ(first, ProcessState::acquire().value());
}

TEST_F(ProcessStateTest, BeginsAnewAfterItsEnd) {
  for (int i = 0; i < 3; ++i) {
    const auto state = ProcessState::acquire().value();
    std::promise<void> ran;
    state->reactor().post([&] { ran.set_value(); });
    ran.get_future().wait();
  }
}

TEST_F(ProcessStateTest, MayEndOnItsOwnThreads) {
  auto state = ProcessState::acquire().value();
  ASSERT_TRUE(state->janitor().start());
  std::weak_ptr<ProcessState> alive = state;
  runtime::Janitor& janitor = state->janitor();
  runtime::Reactor& reactor = state->reactor();
  auto go = std::make_shared<std::promise<void>>();
  janitor.post([go] { go->get_future().wait(); });
  janitor.post([state] {});  // the last owner, if the next line's has ended
  reactor.post([state = std::move(state)] {});
  go->set_value();
  // The fixture waits until the threads' descriptors are gone.
}

TEST_F(ProcessStateTest, ASinkThatBlocksDoesNotBlockTheReactor) {
  struct Blocking {
    std::promise<void> entered;
    std::promise<void> go_on;
    std::vector<std::string> lines;
    static void sink(LogLevel, std::string_view line, void* user) {
      auto& self = *static_cast<Blocking*>(user);
      self.lines.emplace_back(line);
      if (self.lines.size() > 1) return;
      self.entered.set_value();
      self.go_on.get_future().wait();
    }
  } blocking;
  const auto state = ProcessState::acquire().value();
  set_log_sink(&Blocking::sink, &blocking, LogLevel::warn);
  state->reactor().post([] { base::log(LogLevel::warn, "cam0", "one"); });
  blocking.entered.get_future().wait();
  // The sink blocks until go_on; meanwhile the reactor works, and logs.
  std::promise<void> ran;
  state->reactor().post([&] {
    base::log(LogLevel::warn, "cam0", "two");
    ran.set_value();
  });
  ran.get_future().wait();
  blocking.go_on.set_value();
  state->janitor().drain();
  set_log_sink(nullptr, nullptr, LogLevel::off);
  EXPECT_EQ(blocking.lines, (std::vector<std::string>{"cam0: one", "cam0: two"}));
}

TEST_F(ProcessStateTest, WhatTheReactorLoggedIsWrittenBeforeTheEnd) {
  std::vector<std::string> lines;
  set_log_sink([](LogLevel, std::string_view line,
                  void* user) { static_cast<std::vector<std::string>*>(user)->emplace_back(line); },
               &lines, LogLevel::warn);
  {
    const auto state = ProcessState::acquire().value();
    std::promise<void> ran;
    state->reactor().post([&] {
      for (int i = 0; i < 3; ++i) base::log(LogLevel::warn, "cam0", "again");
      ran.set_value();
    });
    ran.get_future().wait();
  }
  set_log_sink(nullptr, nullptr, LogLevel::off);
  EXPECT_EQ(lines, (std::vector<std::string>{"cam0: again", "cam0: again ... 2 more"}));
}

TEST_F(ProcessStateTest, KnowsTheHostAlone) {
  const auto state = ProcessState::acquire().value();
  ASSERT_FALSE(state->backends().devices().empty());
  EXPECT_TRUE(state->backends().devices().front().id.is_host());
  EXPECT_TRUE(state->backends().devices().front().usable);
  EXPECT_TRUE(state->backends().find(DeviceId::host()));
  DeviceId unknown;
  unknown.uuid[0] = 1;
  const auto found = state->backends().find(unknown);
  const std::optional<Error> no_driver = state->backends().driver().trouble;
  ASSERT_TRUE(found.failed_with(no_driver ? no_driver->code() : Code::no_device));
  EXPECT_NE(found.error().facts(), nullptr);
}

TEST_F(ProcessStateTest, IsInertInAForkedChild) {
  const auto state = ProcessState::acquire().value();
  // Both threads are up and idle: a sanitizer's locks of a thread that just starts would be
  // inherited.
  std::promise<void> up;
  state->reactor().post([&] { up.set_value(); });
  up.get_future().wait();
  state->janitor().drain();
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        EXPECT_TRUE(ProcessState::acquire().failed_with(Code::wrong_state));
        EXPECT_TRUE(Runtime::open().failed_with(Code::wrong_state));
        auto last = state;
        last.reset();
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ProcessStateTest, TheEndOfAProgramWaitsOnceForAJanitorThatIsStuck) {
#ifdef VRAMLINK_TEST_SANITIZED
  GTEST_SKIP() << "a sanitizer takes its time at a program's end";
#endif
  // Two runs that each waited would take a second every time; a busy machine does so now and then.
  using Clock = std::chrono::steady_clock;
  Clock::duration shortest = std::chrono::hours(1);
  for (int i = 0; i < 5 && shortest >= std::chrono::milliseconds(900); ++i) {
    test::ChildProcess child([](const test::ChildLink& link) -> int {
      // Registered first, so it runs last: nothing of the test program's own end counts.
      if (std::atexit([] { ::_exit(0); }) != 0) return 1;
      const auto state = ProcessState::acquire().value();
      runtime::finish_before_drivers();
      state->janitor().post([] {
        while (true) ::pause();
      });
      link.ready();
      std::exit(1);
    });
    ASSERT_EQ(child.wait_ready(), 1);
    const Clock::time_point begun = Clock::now();
    EXPECT_EQ(child.wait(), 0);
    shortest = std::min(shortest, Clock::now() - begun);
  }
  EXPECT_LT(shortest, std::chrono::milliseconds(900)) << "of five";
}

TEST_F(ProcessStateTest, ARuntimeIsCheapToCopy) {
  const test::TemporaryDirectory directory;
  const Runtime first = Runtime::open({.directory = directory.path()}).value();
  const Runtime copy = first;
  EXPECT_EQ(copy.state(), first.state());
  EXPECT_EQ(copy.directory(), directory.path());
  EXPECT_EQ(copy.devices().size(), first.devices().size());
  const test::TemporaryDirectory other;
  EXPECT_EQ(Runtime::open({.directory = other.path()}).value().directory(), other.path());
}

}  // namespace
}  // namespace vramlink
