#include "support/channel_fixture.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "support/pipes.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {
namespace {

/// Of the child that looks for the device.
constexpr int kNoDevice = 77;

/// The finaliser of splitmix64: neighbouring numbers give unlike words.
std::uint64_t mix(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

std::uint64_t word_at(std::uint64_t number, std::size_t index) noexcept {
  return index == 0 ? number : mix(number * 0x10001 + index);
}

void fill(std::span<std::byte> bytes, std::uint64_t number) noexcept {
  for (std::size_t offset = 0; offset < bytes.size(); offset += 8) {
    const std::uint64_t word = word_at(number, offset / 8);
    std::memcpy(bytes.data() + offset, &word, std::min<std::size_t>(8, bytes.size() - offset));
  }
}

::testing::AssertionResult holds(std::span<const std::byte> bytes, std::uint64_t number) {
  for (std::size_t offset = 0; offset < bytes.size(); offset += 8) {
    const std::uint64_t word = word_at(number, offset / 8);
    const std::size_t size = std::min<std::size_t>(8, bytes.size() - offset);
    if (std::memcmp(bytes.data() + offset, &word, size) == 0) continue;
    return ::testing::AssertionFailure() << "torn at byte " << offset << ": frame " << number
                                         << " begins with number " << number_in(bytes);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace

PublisherOptions on_device(PublisherOptions options) {
  if (options.device.is_host()) options.device = TestDevice::id();
  if (std::getenv("VRAMLINK_TEST_LEGACY_HANDLES") && !options.device.is_host()) {
    options.legacy_handles = LegacyHandles::always;
  }
  return options;
}

void fill_frame(std::span<std::byte> bytes, std::uint64_t number) noexcept {
  if (TestDevice::is_host()) return fill(bytes, number);
  std::vector<std::byte> filled(bytes.size());
  fill(filled, number);
  TestDevice::write(bytes.data(), filled);
}

void fill_frame_in(StreamView stream, std::span<std::byte> bytes, std::uint64_t number) {
  if (stream.is_already_complete()) return fill_frame(bytes, number);
  std::vector<std::byte> filled(bytes.size());
  fill(filled, number);
  TestDevice::write_in(stream, bytes.data(), filled);
}

::testing::AssertionResult holds_frame(std::span<const std::byte> bytes, std::uint64_t number) {
  return TestDevice::is_host() ? holds(bytes, number) : holds(TestDevice::read(bytes), number);
}

::testing::AssertionResult receives_frame(Subscriber& subscriber, std::uint64_t number,
                                          Deadline deadline) {
  const Result<Frame> frame = subscriber.receive(deadline);
  if (!frame) return ::testing::AssertionFailure() << to_string(frame.error());
  return holds_frame(frame->bytes(), number);
}

std::uint64_t number_in(std::span<const std::byte> bytes) noexcept {
  std::uint64_t number = 0;
  const std::span<const std::byte> first = bytes.first(std::min<std::size_t>(8, bytes.size()));
  if (TestDevice::is_host()) {
    std::memcpy(&number, first.data(), first.size());
  } else {
    std::memcpy(&number, TestDevice::read(first).data(), first.size());
  }
  return number;
}

Result<Receipt> publish_number(Publisher& publisher, std::uint64_t number, Deadline deadline) {
  const StreamView stream = TestDevice::stream();
  Result<WritableFrame> frame = publisher.claim(stream, deadline);
  if (frame.failed_with(Code::full) && !TestDevice::is_host()) {
    TestDevice::finish(stream);
    frame = publisher.claim(stream, deadline);
  }
  if (!frame) return frame.error();
  fill_frame_in(stream, frame->bytes(), number);
  return publisher.publish(*std::move(frame), stream,
                           {.media_ns = static_cast<std::int64_t>(number)});
}

Result<Receipt> publish_complete(Publisher& publisher, std::uint64_t number, Deadline deadline) {
  Result<Receipt> receipt = publish_number(publisher, number, deadline);
  if (!receipt) return receipt;
  if (const Result<void> waited = receipt->wait(soon()); !waited) return waited.error();
  return receipt;
}

void ChannelFixture::SetUp() {
  if (TestDevice::is_host()) return;
  // In a child: this process may fork peers, and must not have used a GPU before.
  ChildProcess child([](const ChildLink&) {
    const std::string why_not = TestDevice::why_not();
    if (!why_not.empty()) std::fprintf(stderr, "%s\n", why_not.c_str());
    return why_not.empty() ? 0 : kNoDevice;
  });
  const int code = child.wait();
  if (code == 0) return;
  if (TestDevice::is_stand_in()) FAIL() << "the stand-in driver cannot be used";
  ASSERT_EQ(code, kNoDevice) << "looking for a GPU failed";
  GTEST_SKIP() << "there is no usable GPU";
}

Watchdog::Watchdog() { ::alarm(kSeconds); }
Watchdog::~Watchdog() { ::alarm(0); }

std::vector<std::string> ChannelFixture::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ChannelFixture::~ChannelFixture() {
  if (!leftovers_) {
    EXPECT_EQ(files(), std::vector<std::string>{});
  }
}

struct Peer::Thread {
  int hear_fd = -1;
  int say_fd = -1;
  int peer_hear_fd = -1;
  int peer_say_fd = -1;
  std::thread thread;

  ~Thread() {
    for (const int fd : {hear_fd, say_fd, peer_hear_fd, peer_say_fd}) {
      if (fd >= 0) ::close(fd);
    }
  }
};

Peer::Peer(Mode mode, const Body& body) {
  if (mode == Mode::processes) {
    process_ = std::make_unique<ChildProcess>([&body](const ChildLink& link) {
      body(link);
      return 0;
    });
    return;
  }
  thread_ = std::make_unique<Thread>();
  const auto from_peer = make_pipe();
  const auto to_peer = make_pipe();
  thread_->hear_fd = from_peer[0];
  thread_->peer_say_fd = from_peer[1];
  thread_->peer_hear_fd = to_peer[0];
  thread_->say_fd = to_peer[1];
  thread_->thread =
      std::thread([body, say = from_peer[1], hear = to_peer[0]] { body(ChildLink(say, hear)); });
}

Peer::~Peer() {
  if (finished_ || !thread_) return;
  // The test failed half-way: a peer that waits for go() ends the program.
  ::close(std::exchange(thread_->say_fd, -1));
  thread_->thread.join();
}

std::uint8_t Peer::wait_ready() {
  if (process_) return process_->wait_ready();
  std::uint8_t byte = 0;
  while (::read(thread_->hear_fd, &byte, 1) == -1 && errno == EINTR) {
  }
  return byte;
}

void Peer::go(std::uint8_t word) {
  if (process_) return process_->go(word);
  while (::write(thread_->say_fd, &word, 1) == -1 && errno == EINTR) {
  }
}

void Peer::finish() {
  finished_ = true;
  if (thread_) {
    thread_->thread.join();
  } else {
    EXPECT_EQ(process_->wait(), 0) << "the peer's expectations failed, or it was killed";
  }
}

pid_t Peer::pid() const noexcept { return process_ ? process_->pid() : ::getpid(); }

}  // namespace vramlink::test
