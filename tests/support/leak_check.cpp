#include "support/leak_check.hpp"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "support/raw_cuda.hpp"
#include "support/stand_in.hpp"
#include "support/test_device.hpp"

namespace vramlink::test {
namespace {

constexpr std::chrono::milliseconds kSettleNap{1};
constexpr int kSettleCount = 5000;

void count_descriptors(Holdings& holdings) {
  DIR* directory = ::opendir("/proc/self/fd");
  ASSERT_NE(directory, nullptr) << std::strerror(errno);
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    const std::string number = entry->d_name;
    if (std::atoi(number.c_str()) == ::dirfd(directory)) continue;
    std::array<char, 512> target{};
    const std::string link = "/proc/self/fd/" + number;
    const ssize_t size_bytes = ::readlink(link.c_str(), target.data(), target.size() - 1);
    if (size_bytes < 0) continue;  // closed meanwhile by a thread that the test did not start
    ++holdings["fd " + number + " -> " + target.data()];
  }
  ::closedir(directory);
}

void count_mappings(Holdings& holdings) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto at = line.find('/');
    if (at == std::string::npos) continue;
    const std::string path = line.substr(at);
    // Libraries are mapped when first needed and stay.
    const bool is_shared_memory = path.rfind("/memfd:", 0) == 0 || path.rfind("/dev/", 0) == 0;
    if (is_shared_memory) ++holdings["mapping " + path];
  }
}

/// The library's own. A test that forks must find none of another test's.
void count_threads(Holdings& holdings) {
  DIR* directory = ::opendir("/proc/self/task");
  ASSERT_NE(directory, nullptr) << std::strerror(errno);
  while (const dirent* entry = ::readdir(directory)) {
    std::ifstream comm(std::string("/proc/self/task/") + entry->d_name + "/comm");
    std::string name;
    if (std::getline(comm, name) && name.rfind("vl-", 0) == 0) ++holdings["thread " + name];
  }
  ::closedir(directory);
}

/// What a driver opens and maps for itself comes and goes as it likes.
void keep_our_own(Holdings& holdings) {
  for (auto held = holdings.begin(); held != holdings.end();) {
    const bool is_ours = held->first.find("memfd:vramlink") != std::string::npos ||
                         held->first.rfind("thread", 0) == 0 ||
                         held->first.find("[pidfd]") != std::string::npos;
    held = is_ours ? std::next(held) : holdings.erase(held);
  }
}

/// What the stand-in driver has given out, but for what all tests of a process share.
void count_driver_objects(Holdings& holdings) {
  const simcuda::TestApi* const api = stand_in();
  if (api == nullptr) return;
  simcuda::Ledger ledger{};
  api->ledger(&ledger);
  const RawCuda::Own shared = RawCuda::own();
  const auto add = [&](const char* name, std::uint64_t count) {
    if (count != 0) holdings[std::string("driver: ") + name] = static_cast<std::int64_t>(count);
  };
  add("contexts", ledger.retained_contexts - shared.contexts);
  add("streams", ledger.streams - shared.streams);
  add("events", ledger.events);
  add("memories", ledger.memories);
  add("mappings", ledger.mappings);
  add("reservations", ledger.reservations);
  add("registrations", ledger.registrations);
  add("modules", ledger.modules);
  add("allocations", ledger.allocations);
  add("imports by handle", ledger.imports);
  add("pinned allocations", ledger.pinned - shared.pinned);
  add("device bytes", ledger.device_bytes);
  add("graphs", ledger.graphs);
  add("pools", ledger.pools);
  add("pool allocations", ledger.pool_allocations);
  add("executable graphs", ledger.graph_execs);
}

}  // namespace

Holdings current_holdings() {
  Holdings holdings;
  count_threads(holdings);
  count_descriptors(holdings);
  count_mappings(holdings);
  if (!TestDevice::is_host()) keep_our_own(holdings);
  count_driver_objects(holdings);
  return holdings;
}

std::string describe_difference(const Holdings& before, const Holdings& after) {
  std::string text;
  const auto count_in = [](const Holdings& holdings, const std::string& what) {
    const auto found = holdings.find(what);
    return found == holdings.end() ? std::int64_t{0} : found->second;
  };
  for (const auto& [what, count] : after) {
    if (count > count_in(before, what)) text += "left behind: " + what + "\n";
  }
  for (const auto& [what, count] : before) {
    if (count > count_in(after, what)) text += "lost: " + what + "\n";
  }
  return text;
}

std::string settled_difference(const Holdings& before) {
  std::string difference = describe_difference(before, current_holdings());
  for (int i = 0; i < kSettleCount && !difference.empty(); ++i) {
    std::this_thread::sleep_for(kSettleNap);
    difference = describe_difference(before, current_holdings());
  }
  return difference;
}

LeakCheck::LeakCheck() : before_(current_holdings()) {}

LeakCheck::~LeakCheck() {
  EXPECT_EQ(settled_difference(before_), "");
  siginfo_t child{};
  const int result = ::waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
  EXPECT_TRUE(result == -1 && errno == ECHILD) << "a child process was not waited for";
}

}  // namespace vramlink::test
