// What the tests of the kinds of trouble share that people report of shared memory
// (docs/testing.md, "Kinds of trouble in the field").
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {

/// Whether `text` has each of the words.
inline ::testing::AssertionResult says(const std::string& text,
                                       std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << text << "\" does not say \"" << word << "\"";
    }
  }
  return ::testing::AssertionSuccess();
}

/// Whether a call failed with that code, and says what people need to know.
template <class T>
::testing::AssertionResult is_refused(const Result<T>& result, Code code,
                                      std::initializer_list<std::string_view> words) {
  if (result) return ::testing::AssertionFailure() << "it succeeded";
  const std::string text = to_string(result.error());
  if (!result.failed_with(code)) {
    return ::testing::AssertionFailure() << name(result.error().code()) << ": " << text;
  }
  return says(text, words);
}

/// Waits until `done` says so; false if that takes as long as nothing does here.
template <class Done>
bool comes_true(const Done& done) {
  const Deadline watchdog = soon();
  while (!done()) {
    if (watchdog.has_passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Of a child that will be killed, so that no exit code tells: says ready, and whether all that it
/// has expected until then came true.
inline void say_ready(const ChildLink& link) {
  link.ready(::testing::Test::HasFailure() ? ChildProcess::kFailedExpectation : 1);
}
/// The other end of it.
inline ::testing::AssertionResult is_ready(ChildProcess& child) {
  if (child.wait_ready() == 1) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "an expectation of child " << child.pid() << " failed";
}

/// While it lives, what this process's library says is kept instead of printed.
class LogLines {
 public:
  LogLines() { set_log_sink(&LogLines::take, this, LogLevel::info); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines() { set_log_sink(nullptr, nullptr, LogLevel::off); }

  /// Waits until one line has all the words: some are written by a thread of their own.
  [[nodiscard]] ::testing::AssertionResult say(std::initializer_list<std::string_view> words) {
    if (comes_true([&] { return has(words); })) return ::testing::AssertionSuccess();
    const std::lock_guard lock(mutex_);
    auto failure = ::testing::AssertionFailure() << "no such line among";
    for (const std::string& line : lines_) failure << "\n" << line;
    return failure;
  }

 private:
  static void take(LogLevel, std::string_view line, void* self) {
    auto* const log = static_cast<LogLines*>(self);
    const std::lock_guard lock(log->mutex_);
    log->lines_.emplace_back(line);
  }
  bool has(std::initializer_list<std::string_view> words) {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : lines_) {
      if (says(line, words)) return true;
    }
    return false;
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// One test for each kind of trouble, named after it: the short form of it, from end to end, with
/// the words of its errors. On the host and on devices.
class FieldFaults : public ChannelFixture {
 protected:
  /// Memory of frames that is not given back: on a device what all processes have there, on the
  /// host what this one has mapped. 0 where others use the GPU, too.
  [[nodiscard]] static std::uint64_t frame_memory() {
    if (!TestDevice::is_host()) return RawCuda::is_shared() ? 0 : TestDevice::bytes_held();
    std::uint64_t count = 0;
    for (const auto& [what, held] : current_holdings()) {
      if (what.rfind("mapping", 0) == 0 && what.find("vramlink-payload") != std::string::npos) {
        count += static_cast<std::uint64_t>(held);
      }
    }
    return count;
  }
  /// The same before a test, with what a driver takes for itself at the first use. To be asked
  /// after the children were made.
  [[nodiscard]] std::uint64_t frame_memory_before() const {
    const Holdings before = current_holdings();
    {
      const Runtime runtime = open_runtime();
      Publisher publisher =
          Publisher::open(runtime, "before", Format::bytes(kFrameBytes).value(), on_device({}))
              .value();
      Subscriber subscriber = Subscriber::open(runtime, "before", soon()).value();
      EXPECT_TRUE(publish_complete(publisher, 1));
      EXPECT_TRUE(receives_frame(subscriber, 1, soon()));
    }
    EXPECT_EQ(settled_difference(before), "");
    return frame_memory();
  }

 private:
  // Bytes of the stand-in are counted: not those of tests beside this one.
  TemporaryDirectory account_;
  ScopedEnvironment own_account_{"VRAMLINK_SIMCUDA_DIR", account_.path()};
};

/// The same for kinds that the host does not have.
class FieldFaultsOfDevices : public FieldFaults {};

}  // namespace vramlink::test
