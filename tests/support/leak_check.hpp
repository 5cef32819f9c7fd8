// A fixture that fails a test which leaves something behind: descriptors, shared mappings,
// children.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace vramlink::test {

/// What a process holds: "fd 5 -> socket:[123]" or "mapping /memfd:x" and how often. Memory of the
/// allocator, of threads and of libraries does not count: it comes and goes by itself.
using Holdings = std::map<std::string, std::int64_t>;

[[nodiscard]] Holdings current_holdings();

/// One line for each difference, "" if there is none.
[[nodiscard]] std::string describe_difference(const Holdings& before, const Holdings& after);

/// The same with what this process holds now, or a moment later: the library's threads may end, and
/// close what they had, after its last user.
[[nodiscard]] std::string settled_difference(const Holdings& before);

/// Base of test fixtures. It counts before any member of a derived fixture is made and after the
/// last one is destroyed, so derived fixtures simply own what they need.
class LeakCheck : public ::testing::Test {
 public:
  LeakCheck(const LeakCheck&) = delete;
  LeakCheck& operator=(const LeakCheck&) = delete;

 protected:
  LeakCheck();
  ~LeakCheck() override;

 private:
  Holdings before_;
};

}  // namespace vramlink::test
