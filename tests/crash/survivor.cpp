#include "survivor.hpp"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <vramlink/channel.hpp>

#include "os/threads.hpp"
#include "support/frame_pattern.hpp"
#include "support/raw_cuda.hpp"
#include "support/sanitized.hpp"
#include "support/test_device.hpp"
#include "victims.hpp"

namespace vramlink::test {
namespace {

/// What a driver takes once of its own device for the first channel of a process.
void warm_up(const std::string& directory) {
  const auto runtime = Runtime::open({directory}).value();
  auto publisher = Publisher::open(runtime, "warm", Format::bytes(kPayloadBytes).value(),
                                   publisher_options(Mode::drop_latest))
                       .value();
  auto subscriber = Subscriber::open(runtime, "warm", Deadline::after(kWatchdog),
                                     subscriber_options(Mode::drop_latest))
                        .value();
  for (std::uint64_t sequence = 1; sequence <= 4; sequence += 2) {
    ASSERT_TRUE(publish_pattern_copy(publisher, {0, sequence}, Deadline::after(kWatchdog)));
    EXPECT_TRUE(subscriber.receive(Deadline::after(kWatchdog)));
    auto frame = publisher.try_claim(TestDevice::stream()).value();
    ASSERT_TRUE(publish_pattern(publisher, std::move(frame), {0, sequence + 1}));
    EXPECT_TRUE(subscriber.receive(TestDevice::stream()));
    TestDevice::finish(TestDevice::stream());
  }
}

std::size_t count_entries(const std::string& directory) {
  std::size_t count = 0;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    ++count;
  }
  return count;
}

}  // namespace

int round_count() {
  if (const char* text = std::getenv("VRAMLINK_CRASH_ROUNDS")) return std::max(1, std::atoi(text));
#if defined(VRAMLINK_TEST_SANITIZED)
  return 1;
#elif defined(VRAMLINK_LONG_TESTS)
  return 200;
#else
  return TestDevice::is_host() ? 3 : 1;
#endif
}

std::uint64_t seed() {
  if (const char* text = std::getenv("VRAMLINK_CRASH_SEED")) {
    return std::strtoull(text, nullptr, 10);
  }
  return std::random_device()();
}

bool counts_device_bytes() {
  return !TestDevice::is_host() && *TestDevice::why_not() == '\0' && !RawCuda::is_shared();
}

CrashTest::CrashTest() : threads_before_(thread_count()) {
  if (!counts_device_bytes()) return;
  warm_up(directory_.path());
  static_cast<void>(until("threads end", [this] { return thread_count() <= threads_before_; }));
  device_bytes_before_ = TestDevice::bytes_held();
}

CrashTest::~CrashTest() {
  EXPECT_EQ(file_count(directory_.path()), 0u) << "files are left in the runtime directory";
  // The last user of the library's threads may be one of them, which another then joins.
  static_cast<void>(until("threads end", [this] { return thread_count() <= threads_before_; }));
  if (!counts_device_bytes()) return;
  std::uint64_t held = 0;
  const auto is_back = [&] {
    held = TestDevice::bytes_held();
    return held <= device_bytes_before_;
  };
  EXPECT_TRUE(until("the device's memory comes back", is_back))
      << device_bytes_before_ << " bytes of it were held before, now " << held;
}

bool until(const char* what, const std::function<bool()>& done, std::chrono::seconds limit) {
  const Deadline watchdog = Deadline::after(limit);
  while (!done()) {
    if (watchdog.has_passed()) {
      ADD_FAILURE() << "the watchdog ended the wait for: " << what;
      return false;
    }
    os::nap_until(Deadline::after(std::chrono::microseconds(200)));
  }
  return true;
}

std::size_t thread_count() {
  // The thread sanitizer has a thread of its own from the first one on.
  static const bool kStarted = [] {
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(kStarted);
  if (TestDevice::is_host()) return count_entries("/proc/self/task");
  std::size_t count = 0;  // a driver has threads of its own
  for (const auto& [what, held] : current_holdings()) {
    if (what.rfind("thread", 0) == 0) count += static_cast<std::size_t>(held);
  }
  return count;
}

std::size_t file_count(const std::string& directory) { return count_entries(directory); }

Counts current_counts() {
  Counts counts;
  for (const auto& [what, count] : current_holdings()) {
    // Of what is over, the pages that a device may write stay until their channel ends.
    const bool is_parked = what.find("vramlink-private") != std::string::npos ||
                           what.find("vramlink-broadcast") != std::string::npos ||
                           what == "driver: registrations";
    // Kept for the next one.
    const bool is_reused = what == "driver: events";
    if (!TestDevice::is_host() && (is_parked || is_reused)) continue;
    (what.rfind("fd ", 0) == 0 ? counts.descriptors : counts.mappings) +=
        static_cast<std::size_t>(count);
  }
  return counts;
}

Counts least_counts() {
  Counts least = current_counts();
  for (int look = 0; look < 5; ++look) {
    os::nap_until(Deadline::after(std::chrono::milliseconds(1)));
    const Counts now = current_counts();
    least.descriptors = std::min(least.descriptors, now.descriptors);
    least.mappings = std::min(least.mappings, now.mappings);
  }
  return least;
}

namespace {

std::vector<StepCase> cases_of(const Step& step) {
  if (step.only_evict) return {{step, Mode::evict_latest}};
  std::vector<StepCase> cases;
  if (!step.only_block) cases.push_back({step, Mode::drop_latest});
  if (!step.only_block) cases.push_back({step, Mode::drop_queue});
  if (!step.only_drop) cases.push_back({step, Mode::block_queue});
  if (step.also_evict) cases.push_back({step, Mode::evict_latest});
  return cases;
}

std::vector<StepCase> rotated_cases_of(Victim victim, bool only_stream) {
  std::vector<StepCase> cases;
  for (const Step& step : steps()) {
    if (step.victim != victim || step.only_stream != only_stream) continue;
    const std::vector<StepCase> of_step = cases_of(step);
    cases.push_back(of_step[cases.size() % of_step.size()]);
  }
  return cases;
}

std::vector<StepCase> cases_of(Victim victim, bool only_stream) {
  std::vector<StepCase> cases;
  for (const Step& step : steps()) {
    if (step.victim != victim || step.only_stream != only_stream) continue;
    const std::vector<StepCase> of_step = cases_of(step);
    cases.insert(cases.end(), of_step.begin(), of_step.end());
  }
  return cases;
}

}  // namespace

std::vector<StepCase> cases_of(Victim victim) { return cases_of(victim, false); }
std::vector<StepCase> stream_cases_of(Victim victim) { return cases_of(victim, true); }

std::vector<StepCase> rotated_cases_of(Victim victim) { return rotated_cases_of(victim, false); }
std::vector<StepCase> rotated_stream_cases_of(Victim victim) {
  return rotated_cases_of(victim, true);
}

std::string name_of(const ::testing::TestParamInfo<StepCase>& info) {
  std::string name = info.param.step.name;
  for (char& character : name) {
    if (character == '.') character = '_';
  }
  switch (info.param.mode) {
    case Mode::drop_latest:
      return name + "_drop_latest";
    case Mode::drop_queue:
      return name + "_drop_queue";
    case Mode::block_queue:
      return name + "_block_queue";
    case Mode::evict_latest:
      return name + "_evict_latest";
  }
  return name;
}

}  // namespace vramlink::test
