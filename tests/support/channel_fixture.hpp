// For tests that open channels: a runtime directory of their own, frames whose every byte can be
// checked, and a peer that is a thread or a process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::test {

/// For waits that end by themselves unless something is broken.
inline Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

inline constexpr StreamView kNow = StreamView::already_complete();

/// Every byte of a frame follows from its number. Host and device memory.
void fill_frame(std::span<std::byte> bytes, std::uint64_t number) noexcept;
/// The same in a stream's order.
void fill_frame_in(StreamView stream, std::span<std::byte> bytes, std::uint64_t number);
/// The number that fill_frame() wrote, if no byte differs.
[[nodiscard]] ::testing::AssertionResult holds_frame(std::span<const std::byte> bytes,
                                                     std::uint64_t number);
/// Receives a frame, which must be whole and of that number.
[[nodiscard]] ::testing::AssertionResult receives_frame(Subscriber& subscriber,
                                                        std::uint64_t number, Deadline deadline);
/// The number of a frame as its first bytes tell.
[[nodiscard]] std::uint64_t number_in(std::span<const std::byte> bytes) noexcept;

/// The options with the suite's device instead of the host, by legacy handles where
/// VRAMLINK_TEST_LEGACY_HANDLES is set.
[[nodiscard]] PublisherOptions on_device(PublisherOptions options);

/// Claims, fills and publishes frame `number`; its media time stamp is the number too. On a device
/// all of it is work of a stream: the frame is complete some time after this returns. Where every
/// slot is still in work it waits for that work, also under drop.
Result<Receipt> publish_number(Publisher& publisher, std::uint64_t number,
                               Deadline deadline = soon());
/// The same, and waits until the frame is complete.
Result<Receipt> publish_complete(Publisher& publisher, std::uint64_t number,
                                 Deadline deadline = soon());

/// Ends the program if a test hangs; nothing else in these tests looks at the time.
class Watchdog {
 public:
  static constexpr unsigned kSeconds = 60;
  Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();
};

/// Every channel test. Checks at its end that nothing stayed in the runtime directory.
class ChannelFixture : public LeakCheck {
 protected:
  ChannelFixture() = default;
  ChannelFixture(const ChannelFixture&) = delete;
  ChannelFixture& operator=(const ChannelFixture&) = delete;
  ~ChannelFixture() override;
  /// Skips where the suite's GPU is not there; fails where its stand-in driver is not.
  void SetUp() override;

  [[nodiscard]] Runtime open_runtime() const {
    return Runtime::open({.directory = directory_.path()}).value();
  }
  [[nodiscard]] Publisher open_publisher(const Runtime& runtime,
                                         const PublisherOptions& options = {},
                                         std::uint64_t frame_bytes = kFrameBytes) const {
    return Publisher::open(runtime, kName, Format::bytes(frame_bytes).value(), on_device(options))
        .value();
  }
  [[nodiscard]] Subscriber open_subscriber(const Runtime& runtime,
                                           const SubscriberOptions& options = {}) const {
    return Subscriber::open(runtime, kName, soon(), options).value();
  }
  /// A process that was killed leaves its files until the next owner of the name.
  void expect_leftovers() noexcept { leftovers_ = true; }
  [[nodiscard]] std::vector<std::string> files() const;

  static constexpr const char* kName = "cam0";
  /// Not a multiple of the page: the pitch differs from the size.
  static constexpr std::uint64_t kFrameBytes = 5000;

  TemporaryDirectory directory_;

 private:
  Watchdog watchdog_;
  bool leftovers_ = false;
};

enum class Mode : std::uint8_t {
  threads,   ///< both sides in this process: they use one mapping, so tsan sees both
  processes  ///< each peer is a process of its own
};

inline const char* name(Mode mode) noexcept {
  return mode == Mode::threads ? "threads" : "processes";
}
/// For GoogleTest's messages and ctest's list.
inline void PrintTo(Mode mode, std::ostream* out) { *out << name(mode); }

/// The other side of a test. Make all peers before the test opens its Runtime: a process must be
/// forked from one without threads.
class Peer {
 public:
  using Body = std::function<void(const ChildLink&)>;
  Peer(Mode mode, const Body& body);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  std::uint8_t wait_ready();
  void go(std::uint8_t word = 1);
  /// Waits for the end of the body; a failed expectation in it fails the test.
  void finish();
  /// This process's own for a thread.
  [[nodiscard]] pid_t pid() const noexcept;

 private:
  struct Thread;
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<Thread> thread_;
  bool finished_ = false;
};

/// Runs every test of the fixture both ways.
class ChannelTest : public ChannelFixture, public ::testing::WithParamInterface<Mode> {
 protected:
  [[nodiscard]] std::unique_ptr<Peer> start_peer(const Peer::Body& body) const {
    return std::make_unique<Peer>(GetParam(), body);
  }
};

inline std::string mode_name(const ::testing::TestParamInfo<Mode>& info) {
  return name(info.param);
}

#define VRAMLINK_BOTH_WAYS(Fixture)                                                          \
  INSTANTIATE_TEST_SUITE_P(                                                                  \
      Both, Fixture,                                                                         \
      ::testing::Values(::vramlink::test::Mode::threads, ::vramlink::test::Mode::processes), \
      ::vramlink::test::mode_name)

}  // namespace vramlink::test
