#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <vramlink/diagnose.hpp>
#include <vramlink/inspect.hpp>

#include "os/futex.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

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
  expect({.group = "54300"}, "/nowhere/own", DirectoryRule::vramlink_runtime_dir);
  EXPECT_EQ(choose_directory({.group = "no such group"}).path, "");
  // A look is all there is: a path that Runtime::open() refuses is told as it is.
  expect({.directory = "relative"}, "relative", DirectoryRule::option);
}

TEST_F(Diagnose, AProcessIsShownOrSaidNotToBeThere) {
  const ProcessInfo self = inspect_process(::getpid()).value();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_FALSE(self.stopped);
  const auto nobody = inspect_process(INT32_MAX);  // more than a kernel gives
  ASSERT_TRUE(nobody.failed_with(Code::not_found));
  EXPECT_EQ(nobody.error().facts()->subject, std::to_string(INT32_MAX));
  EXPECT_TRUE(inspect_process(0).failed_with(Code::invalid_argument));
}

TEST_F(Diagnose, TheHostReachesItselfAndNoGpuThatIsNotThere) {
  const test::ScopedEnvironment off("VRAMLINK_CUDA", "off");
  const test::TemporaryDirectory folder;
  const Runtime runtime = Runtime::open({.directory = folder.path()}).value();
  EXPECT_TRUE(check_reach(runtime, DeviceId::host(), DeviceId::host()));
  DeviceId gpu;
  gpu.uuid.fill(7);
  EXPECT_TRUE(check_reach(runtime, gpu, DeviceId::host()).failed_with(Code::no_driver));
  EXPECT_TRUE(check_reach(runtime, DeviceId::host(), gpu).failed_with(Code::no_driver));
}

}  // namespace
}  // namespace vramlink
