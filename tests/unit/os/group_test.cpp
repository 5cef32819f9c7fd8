#include "os/group.hpp"

#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "os/small_file.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/other_user.hpp"

namespace vramlink {
namespace {

using os::find_group;

class GroupNames : public test::LeakCheck {};

TEST_F(GroupNames, ANumberNeedsNoName) {
  const os::Group group = find_group("54300").value();
  EXPECT_EQ(group.gid, 54300U);
  EXPECT_EQ(group.description(), "group 54300");
  EXPECT_EQ(find_group("0054300").value().text, "54300");
  EXPECT_EQ(find_group("4294967294").value().gid, 4294967294U);
  EXPECT_EQ(find_group("0").value().gid, 0U);
}

TEST_F(GroupNames, ANameIsLookedUp) {
  const group* const first = ::getgrgid(0);
  if (first == nullptr) GTEST_SKIP() << "group 0 has no name here";
  const std::string name = first->gr_name;
  const os::Group found = find_group(name).value();
  EXPECT_EQ(found.gid, 0U);
  EXPECT_EQ(found.description(), "group " + name + " (gid 0)");
}

TEST_F(GroupNames, WhatIsNoGroupIsSaid) {
  for (const std::string& text :
       {std::string(), std::string("no such group"), std::string("4294967295"),
        std::string("99999999999"), std::string("-1"), std::string("0\0", 2)}) {
    const auto group = find_group(text);
    ASSERT_TRUE(group.failed_with(Code::invalid_argument)) << text;
    EXPECT_EQ(group.error().facts()->subject, text);
    EXPECT_NE(group.error().facts()->remedy.find("getent group"), std::string::npos);
  }
}

TEST_F(GroupNames, TheNumberOfAllUnknownOnesIsRefused) {
  std::string number = os::read_small_file("/proc/sys/kernel/overflowgid").value();
  number.pop_back();
  const auto group = find_group(number);
  ASSERT_TRUE(group.failed_with(Code::invalid_argument));
  EXPECT_NE(group.error().facts()->reason.find("user namespace"), std::string::npos);
}

TEST_F(GroupNames, AProcessIsInItsFirstAndItsOtherGroups) {
  EXPECT_TRUE(os::is_own_group(::getegid()));
  EXPECT_FALSE(os::is_own_group(54399));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its groups";
  test::ChildProcess child([](const test::ChildLink&) {
    EXPECT_TRUE(test::become({54301, 54302, {54303, 54304}}));
    for (const gid_t gid : {54302U, 54303U, 54304U}) EXPECT_TRUE(os::is_own_group(gid)) << gid;
    for (const gid_t gid : {0U, 54301U}) EXPECT_FALSE(os::is_own_group(gid)) << gid;
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace vramlink
