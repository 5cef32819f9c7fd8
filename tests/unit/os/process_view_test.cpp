#include "os/process_view.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using os::view_process;

class ProcessView : public test::LeakCheck {};

TEST_F(ProcessView, ShowsThisProcess) {
  const ProcessInfo info = view_process(::getpid()).value();
  EXPECT_EQ(info.pid, ::getpid());
  EXPECT_FALSE(info.program.empty());
  EXPECT_EQ(info.uid, static_cast<std::int64_t>(::geteuid()));
  EXPECT_FALSE(info.stopped);
  EXPECT_EQ(info.other_namespaces, std::vector<std::string>{});
}

TEST_F(ProcessView, ShowsWhetherAProcessIsStopped) {
  test::ChildProcess child([](const test::ChildLink& parent) {
    parent.ready();
    parent.wait_forever();
    return 0;
  });
  child.wait_ready();
  EXPECT_FALSE(view_process(child.pid()).value().stopped);
  child.stop();
  EXPECT_TRUE(view_process(child.pid()).value().stopped);
  child.resume();
  EXPECT_FALSE(view_process(child.pid()).value().stopped);
  child.kill();
  (void)child.wait();
  EXPECT_TRUE(view_process(child.pid()).failed_with(Code::peer_gone));
}

TEST_F(ProcessView, RefusesPidsBelowOne) {
  for (const pid_t pid : {0, -1}) {
    EXPECT_TRUE(view_process(pid).failed_with(Code::invalid_argument));
  }
}

}  // namespace
}  // namespace vramlink
