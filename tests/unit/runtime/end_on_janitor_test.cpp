#include "runtime/end_on_janitor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>

#include "backend/host/factory.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using runtime::ProcessState;

class EndOnJanitorTest : public test::LeakCheck {};

/// What the tests ask of one object.
struct Story {
  std::promise<std::thread::id> let_go_on;
  std::promise<std::thread::id> ended_on;
  std::atomic<int> asked{0};
  int asked_until = 0;
};

struct Plain {
  explicit Plain(Story& teller) : story(teller) {}
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  ~Plain() { story.ended_on.set_value(std::this_thread::get_id()); }
  Story& story;
};

struct Lingering : Plain {
  using Plain::Plain;
  void let_go() { story.let_go_on.set_value(std::this_thread::get_id()); }
  bool may_end() { return ++story.asked > story.asked_until; }
};

std::thread::id janitor_of(ProcessState& process) {
  std::promise<std::thread::id> id;
  process.janitor().post([&] { id.set_value(std::this_thread::get_id()); });
  return id.get_future().get();
}

TEST_F(EndOnJanitorTest, TheLastOwnerDoesNotEndIt) {
  Story story;
  const auto process = ProcessState::acquire().value();
  const std::thread::id janitor = janitor_of(*process);
  auto object = runtime::ends_on_janitor(process, std::make_unique<Plain>(story));
  process->reactor().post([object = std::move(object)] {});
  EXPECT_EQ(story.ended_on.get_future().get(), janitor);
}

TEST_F(EndOnJanitorTest, IsAskedUntilItMayEnd) {
  Story story;
  story.asked_until = 4;
  const auto process = ProcessState::acquire().value();
  const std::thread::id janitor = janitor_of(*process);
  auto object = runtime::ends_on_janitor(process, std::make_unique<Lingering>(story));
  object.reset();
  EXPECT_EQ(story.let_go_on.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(story.ended_on.get_future().get(), janitor);
  EXPECT_EQ(story.asked.load(), 5);
}

TEST_F(EndOnJanitorTest, TheProcessStateLivesUntilThen) {
  Story story;
  story.asked_until = 3;
  auto process = ProcessState::acquire().value();
  const std::weak_ptr<ProcessState> alive = process;
  auto object = runtime::ends_on_janitor(process, std::make_unique<Lingering>(story));
  const std::weak_ptr<Lingering> watcher = object;  // keeps the deleter, not the state
  process.reset();
  EXPECT_FALSE(alive.expired());
  object.reset();
  story.ended_on.get_future().wait();
  // The fixture waits until the state has ended, which a weak reference must not prevent.
}

TEST_F(EndOnJanitorTest, AForkedChildEndsNothing) {
  Story story;
  const auto process = ProcessState::acquire().value();
  static_cast<void>(janitor_of(*process));
  auto object = runtime::ends_on_janitor(process, std::make_unique<Plain>(story));
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        object.reset();
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  object.reset();
  story.ended_on.get_future().wait();
}

TEST_F(EndOnJanitorTest, AProgramThatEndsWaitsForIt) {
  const os::UniqueFd event = os::event_fd().value();
  struct Signals {
    explicit Signals(int fd) : event(fd) {}
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;
    ~Signals() { os::signal_event(event); }
    int event;
  };
  test::ChildProcess child([&](const test::ChildLink&) -> int {
    auto process = ProcessState::acquire().value();
    auto object = runtime::ends_on_janitor(process, std::make_unique<Signals>(event.get()));
    std::promise<void> busy;
    process->janitor().post([&] { busy.get_future().wait(); });
    object.reset();
    process.reset();
    busy.set_value();
    std::exit(0);  // what a program does at the end of main()
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(os::wait_readable(event.get(), Deadline::passed()));
}

#if VRAMLINK_STEPS
TEST_F(EndOnJanitorTest, ABackEndIsNotCalledOnTheReactor) {
  test::ChildProcess child([](const test::ChildLink& link) -> int {
    const auto backend = host::create();
    const auto process = ProcessState::acquire().value();
    process->reactor().post([&] { static_cast<void>(backend->check_health()); });
    link.wait_forever();
  });
  EXPECT_EQ(child.wait(), 128 + SIGABRT);
}
#endif

}  // namespace
}  // namespace vramlink
