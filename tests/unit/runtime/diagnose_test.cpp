#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <optional>
#include <string>

#include <vramlink/diagnose.hpp>

#include "os/futex.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink {
namespace {

class Diagnose : public test::LeakCheck {};

void expect_consistent(const Ability& ability) {
  EXPECT_EQ(ability.why_not.empty(), ability.usable) << ability.why_not;
}

TEST_F(Diagnose, AMachineThatRunsTheseTestsHasWhatChannelsNeed) {
  const HostInfo info = inspect_host();
  utsname system{};
  ASSERT_EQ(::uname(&system), 0);
  EXPECT_EQ(info.kernel, system.release);
  for (const Ability* each :
       {&info.sealed_memory, &info.process_table, &info.process_descriptors}) {
    EXPECT_TRUE(each->usable) << each->why_not;
    expect_consistent(*each);
  }
  expect_consistent(info.waiting_for_many);
}

TEST_F(Diagnose, SaysWhatIsMissing) {
  os::pretend_futex_wait_any_missing(true);
  const HostInfo info = inspect_host();
  os::pretend_futex_wait_any_missing(false);
  EXPECT_FALSE(info.waiting_for_many.usable);
  EXPECT_NE(info.waiting_for_many.why_not.find("futex_waitv"), std::string::npos);
}

TEST_F(Diagnose, EveryRuleForTheDirectoryHasItsName) {
  const test::ScopedEnvironment none("VRAMLINK_RUNTIME_DIR", std::nullopt);
  const test::ScopedEnvironment no_session("XDG_RUNTIME_DIR", std::nullopt);
  const auto expect = [](const RuntimeOptions& options, const std::string& path,
                         DirectoryRule rule) {
    const DirectoryChoice choice = choose_directory(options);
    EXPECT_EQ(choice.path, path);
    EXPECT_EQ(choice.rule, rule);
  };
  const DirectoryRule last = choose_directory().rule;
  EXPECT_TRUE(last == DirectoryRule::run_user || last == DirectoryRule::tmp);
  const test::ScopedEnvironment session("XDG_RUNTIME_DIR", "/nowhere");
  expect({}, "/nowhere/vramlink", DirectoryRule::xdg_runtime_dir);
  const test::ScopedEnvironment own("VRAMLINK_RUNTIME_DIR", "/nowhere/own/");
  expect({}, "/nowhere/own", DirectoryRule::vramlink_runtime_dir);
  // A look is all there is: a path that Runtime::open() refuses is told as it is.
  expect({.directory = "relative"}, "relative", DirectoryRule::option);
}

}  // namespace
}  // namespace vramlink
