#include "link/connection.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "os/process.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using link::Connection;
using link::ConnectionHandlers;

class ConnectionTest : public test::LeakCheck {
 protected:
  ConnectionTest() {
    auto [ours, theirs] = os::Socket::pair().value();
    ours_ = std::move(ours);
    peer_ = std::move(theirs);
  }
  void open(ConnectionHandlers handlers) {
    connection_ = Connection::open(reactor(), std::move(ours_), std::move(handlers)).value();
  }
  runtime::Reactor& reactor() {
    if (!reactor_) reactor_ = runtime::Reactor::start().value();
    return *reactor_;
  }
  void settle() {
    std::promise<void> reached;
    reactor().post([&] { reached.set_value(); });
    reached.get_future().wait();
  }

  os::Socket ours_;
  os::Socket peer_;
  std::unique_ptr<runtime::Reactor> reactor_;
  std::shared_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, SendsWholeMessages) {
  open({});
  ASSERT_TRUE(connection_->send(wire::Mapped{{}, 5}));
  std::vector<std::byte> buffer(wire::kMessageBytesMax);
  const auto received = peer_.receive(buffer).value();
  const auto mapped =
      wire::decode<wire::Mapped>(std::span(buffer).first(received.size_bytes), 0).value();
  EXPECT_EQ(mapped.generation, 5U);
}

TEST_F(ConnectionTest, ReceivesMessagesInOrderWithTheirDescriptors) {
  std::promise<void> done;
  std::vector<std::uint64_t> generations;
  std::size_t fds = 0;
  ConnectionHandlers handlers;
  handlers.on_message = [&](link::Message message) {
    fds += message.fds.size();
    if (message.type == wire::MessageType::mapped) {
      generations.push_back(message.decode<wire::Mapped>().value().generation);
    }
    if (message.type == wire::MessageType::hello) done.set_value();
  };
  open(std::move(handlers));
  for (std::uint64_t i = 1; i <= 40; ++i) {
    wire::Mapped message{{}, i};
    ASSERT_TRUE(peer_.send(wire::encode(message)));
  }
  wire::Hello hello{};
  hello.flags = wire::kHelloPidfd;
  const std::array sent{STDERR_FILENO};
  ASSERT_TRUE(peer_.send(wire::encode(hello), sent));
  done.get_future().wait();
  ASSERT_EQ(generations.size(), 40U);
  EXPECT_EQ(generations.front(), 1U);
  EXPECT_EQ(generations.back(), 40U);
  EXPECT_EQ(fds, 1U);
}

TEST_F(ConnectionTest, TellsOnceThatThePeerHungUp) {
  std::promise<Code> ended;
  ConnectionHandlers handlers;
  handlers.on_message = [](link::Message) {};
  handlers.on_hangup = [&](const Error& why) { ended.set_value(why.code()); };
  open(std::move(handlers));
  wire::Mapped last{{}, 1};
  ASSERT_TRUE(peer_.send(wire::encode(last)));
  peer_ = os::Socket();
  EXPECT_EQ(ended.get_future().get(), Code::peer_gone);
  settle();
  EXPECT_TRUE(connection_->send(last).failed_with(Code::peer_gone));
}

TEST_F(ConnectionTest, HangsUpOnWhatNoPeerOfOursSends) {
  std::promise<Code> ended;
  ConnectionHandlers handlers;
  handlers.on_message = [](link::Message) { ADD_FAILURE(); };
  handlers.on_hangup = [&](const Error& why) { ended.set_value(why.code()); };
  open(std::move(handlers));
  const std::array<std::byte, 24> garbage{};
  ASSERT_TRUE(peer_.send(garbage));
  EXPECT_EQ(ended.get_future().get(), Code::corrupt);
  settle();
  std::vector<std::byte> buffer(64);
  EXPECT_TRUE(peer_.receive(buffer).failed_with(Code::closed));
}

TEST_F(ConnectionTest, AfterCloseNoHandlerStarts) {
  ConnectionHandlers handlers;
  handlers.on_message = [](link::Message) { ADD_FAILURE(); };
  handlers.on_hangup = [](const Error&) { ADD_FAILURE(); };
  open(std::move(handlers));
  connection_->close();
  connection_->close();
  peer_ = os::Socket();
  settle();
  wire::Mapped message{{}, 1};
  EXPECT_TRUE(connection_->send(message).failed_with(Code::peer_gone));
}

TEST_F(ConnectionTest, AHandlerMayCloseItsConnection) {
  std::promise<void> closed;
  int messages = 0;
  ConnectionHandlers handlers;
  handlers.on_message = [&](link::Message) {
    ++messages;
    connection_->close();
    closed.set_value();
  };
  // All three are there before the first is handled.
  std::promise<void> blocked;
  std::promise<void> opened;
  reactor().post([&] {
    blocked.set_value();
    opened.get_future().wait();
  });
  blocked.get_future().wait();
  open(std::move(handlers));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    wire::Mapped message{{}, i};
    ASSERT_TRUE(peer_.send(wire::encode(message)));
  }
  opened.set_value();
  closed.get_future().wait();
  settle();
  EXPECT_EQ(messages, 1);
}

TEST_F(ConnectionTest, SaysThatThePeerDoesNotRead) {
  open({});
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = connection_->send(wire::Mapped{{}, 1});
  EXPECT_TRUE(sent.failed_with(Code::full));
}

TEST_F(ConnectionTest, TellsOnceThatTheProcessEnded) {
  test::ChildProcess child([](const test::ChildLink& link) {
    static_cast<void>(link.wait_go());
    return 0;
  });
  std::atomic<int> exits{0};
  std::promise<void> ended;
  ConnectionHandlers handlers;
  handlers.on_hangup = [](const Error&) { ADD_FAILURE() << "the socket is open elsewhere"; };
  handlers.on_exit = [&] {
    ++exits;
    ended.set_value();
  };
  open(std::move(handlers));
  ASSERT_TRUE(connection_->watch_exit(os::open_pidfd(child.pid()).value()));
  settle();
  EXPECT_EQ(exits, 0);
  child.go();
  ended.get_future().wait();
  settle();
  EXPECT_EQ(exits, 1);
  child.wait();
}

TEST_F(ConnectionTest, WhatAProcessSaidComesBeforeItsEnd) {
  constexpr std::uint64_t kMessages = 60;  // more than are read in one turn
  test::ChildProcess child([this](const test::ChildLink& link) {
    static_cast<void>(link.wait_go());
    for (std::uint64_t i = 1; i <= kMessages; ++i) {
      wire::Mapped mapped{{}, i};
      EXPECT_TRUE(peer_.send(wire::encode(mapped)));
    }
    return 0;
  });
  std::atomic<std::uint64_t> last{0};
  std::promise<std::uint64_t> last_at_end;
  ConnectionHandlers handlers;
  handlers.on_message = [&](link::Message message) {
    last = message.decode<wire::Mapped>().value().generation;
  };
  handlers.on_exit = [&] { last_at_end.set_value(last); };
  open(std::move(handlers));
  ASSERT_TRUE(connection_->watch_exit(os::open_pidfd(child.pid()).value()));
  std::promise<void> busy;
  std::promise<void> done;
  reactor().post([&] {
    busy.set_value();
    done.get_future().wait();
  });
  busy.get_future().wait();
  child.go();
  child.wait_until_zombie();
  done.set_value();
  EXPECT_EQ(last_at_end.get_future().get(), kMessages);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ConnectionTest, TellsOnceOfAProcessThatHasEndedAlready) {
  test::ChildProcess child([](const test::ChildLink&) { return 0; });
  const os::UniqueFd pidfd = os::open_pidfd(child.pid()).value();
  ASSERT_TRUE(os::wait_readable(pidfd.get(), Deadline::after(std::chrono::seconds(60))));
  for (int i = 0; i < 200; ++i) {  // the handler may run before watch_exit() knows of its watch
    auto [ours, theirs] = os::Socket::pair().value();
    std::atomic<int> exits{0};
    ConnectionHandlers handlers;
    handlers.on_exit = [&] { ++exits; };
    auto connection = Connection::open(reactor(), std::move(ours), std::move(handlers)).value();
    ASSERT_TRUE(connection->watch_exit(os::duplicate(pidfd.get()).value()));
    settle();
    settle();
    ASSERT_EQ(exits, 1);
    connection->close();
    settle();
  }
  child.wait();
}

TEST_F(ConnectionTest, AfterCloseTheExitIsNotTold) {
  test::ChildProcess child([](const test::ChildLink& link) {
    static_cast<void>(link.wait_go());
    return 0;
  });
  ConnectionHandlers handlers;
  handlers.on_exit = [] { ADD_FAILURE(); };
  open(std::move(handlers));
  ASSERT_TRUE(connection_->watch_exit(os::open_pidfd(child.pid()).value()));
  connection_->close(true);
  connection_->close();
  child.go();
  child.wait();
  settle();
}

TEST_F(ConnectionTest, TheWatchOfTheExitCanOutliveTheSocket) {
  test::ChildProcess child([](const test::ChildLink& link) {
    static_cast<void>(link.wait_go());
    return 0;
  });
  std::promise<void> ended;
  ConnectionHandlers handlers;
  handlers.on_exit = [&] { ended.set_value(); };
  open(std::move(handlers));
  ASSERT_TRUE(connection_->watch_exit(os::open_pidfd(child.pid()).value()));
  connection_->close(true);
  child.go();
  ended.get_future().wait();
  child.wait();
}

}  // namespace
}  // namespace vramlink
