// What the tests of the surviving side share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include <vramlink/deadline.hpp>
#include <vramlink/error.hpp>

#include "step_table.hpp"
#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {

/// Rounds of each fate at each step: $VRAMLINK_CRASH_ROUNDS, else 1 under a sanitizer, 200 in long
/// tests, and otherwise 3 on the host and 1 on a device, where a process takes its time to begin
/// and to end.
[[nodiscard]] int round_count();

/// From $VRAMLINK_CRASH_SEED, else new. Printed when a test fails.
[[nodiscard]] std::uint64_t seed();

inline constexpr std::chrono::seconds kWatchdog{60};
/// Calls `done` until it returns true. False, and the test fails, when the watchdog's time passed.
[[nodiscard]] bool until(const char* what, const std::function<bool()>& done,
                         std::chrono::seconds limit = kWatchdog);

[[nodiscard]] std::size_t thread_count();
[[nodiscard]] std::size_t file_count(const std::string& directory);

/// Descriptors and shared mappings, without their names.
struct Counts {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& stream, const Counts& counts) {
    return stream << counts.descriptors << " descriptors, " << counts.mappings << " mappings";
  }
};
[[nodiscard]] Counts current_counts();
/// The same without what is open for an instant, as when a subscriber looks for its publisher.
[[nodiscard]] Counts least_counts();

/// Whether what is in use of the device's memory is this test's alone. On a GPU what others take
/// and give back would count, too: VRAMLINK_TEST_GPU_SHARED=1 says that there are some.
[[nodiscard]] bool counts_device_bytes();

/// Base of the crash tests: nothing may be left at the end, threads and files included. Whatever
/// the victims held of the device's memory is free again, too.
class CrashTest : public LeakCheck {
 protected:
  CrashTest();
  void SetUp() override { static_cast<void>(TestDevice::require()); }
  CrashTest(const CrashTest&) = delete;
  CrashTest& operator=(const CrashTest&) = delete;
  ~CrashTest() override;
  /// In a SetUp() behind this one.
  [[nodiscard]] static bool cannot_run() { return IsSkipped() || HasFatalFailure(); }

  TemporaryDirectory directory_;

 private:
  std::size_t threads_before_;
  std::uint64_t device_bytes_before_ = 0;
};

/// What happens to a victim at its step.
enum class Fate : std::uint8_t { killed, stopped_killed, stopped_resumed };

/// A step and a mode as the name of a test.
struct StepCase {
  Step step;
  Mode mode;
};
inline void PrintTo(const StepCase& step_case, std::ostream* stream) {
  *stream << step_case.step.name;
}
/// On every device.
[[nodiscard]] std::vector<StepCase> cases_of(Victim victim);
/// On devices with streams.
[[nodiscard]] std::vector<StepCase> stream_cases_of(Victim victim);
/// The same where time is short: every step, each in one of its modes, in turn.
[[nodiscard]] std::vector<StepCase> rotated_cases_of(Victim victim);
[[nodiscard]] std::vector<StepCase> rotated_stream_cases_of(Victim victim);
[[nodiscard]] std::string name_of(const ::testing::TestParamInfo<StepCase>& info);

}  // namespace vramlink::test
