#include "os/group_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "os/socket.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using os::open_runtime_directory;

/// The group is our own first one, so that everybody can run most of this.
class GroupDirectory : public test::LeakCheck {
 protected:
  void SetUp() override {
    if (!os::find_group(group_)) GTEST_SKIP() << "this user has no group of its own";
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
  }
  static void set_mode(const std::string& path, mode_t mode) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  [[nodiscard]] Result<os::RuntimeDirectory> open(const std::string& path) const {
    return open_runtime_directory(path, group_);
  }
  static void expect_refused(const Result<os::DirectoryUsers>& users, const std::string& words) {
    ASSERT_TRUE(users.failed_with(Code::permission_denied));
    EXPECT_NE(to_string(users.error()).find(words), std::string::npos) << to_string(users.error());
    EXPECT_FALSE(users.error().facts()->remedy.empty());
  }

  test::TemporaryDirectory directory_;
  const std::string group_ = std::to_string(::getegid());
  const std::string made_ = directory_ / "made";
  test::ScopedEnvironment own_{"VRAMLINK_RUNTIME_DIR", std::nullopt};
};

TEST_F(GroupDirectory, IsMadeByItsPublisherAlone) {
  const os::RuntimeDirectory directory = open(made_).value();
  EXPECT_EQ(directory.path, made_);
  EXPECT_TRUE(directory.users().failed_with(Code::not_found));
  EXPECT_FALSE(std::filesystem::exists(made_));
  const mode_t before = ::umask(0077);
  const auto users = directory.users_for_publisher();
  ::umask(before);
  EXPECT_EQ(users.value().owner, ::geteuid());
  EXPECT_EQ(users->group, ::getegid());
  EXPECT_EQ(mode_of(made_), 02750U);
  EXPECT_TRUE(directory.users_for_publisher()) << "again";
  EXPECT_TRUE(open(made_ + "//"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1)
      << "nothing is left of the making";
}

TEST_F(GroupDirectory, OtherModesAreRefused) {
  for (const mode_t bad : {0700U, 0750U, 02700U, 02755U, 02770U, 02751U, 03750U, 06750U}) {
    set_mode(directory_.path(), bad);
    const auto opened = open(directory_.path());
    ASSERT_TRUE(opened.failed_with(Code::permission_denied)) << std::oct << bad;
    const ErrorFacts& facts = *opened.error().facts();
    EXPECT_EQ(facts.subject, directory_.path());
    EXPECT_NE(facts.reason.find("expected group " + group_ + " and mode 2750"), std::string::npos);
    EXPECT_NE(facts.remedy.find("chmod 2750 " + directory_.path()), std::string::npos);
    expect_refused(os::RuntimeDirectory{directory_.path(), os::Group{::getegid(), group_}}
                       .users_for_publisher(),
                   "mode");
  }
  set_mode(directory_.path(), 02750);
  EXPECT_TRUE(open(directory_.path()));
}

TEST_F(GroupDirectory, AnotherGroupIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to any group";
  ASSERT_EQ(::chown(directory_.path().c_str(), 54301, 54300), 0);
  set_mode(directory_.path(), 02750);
  EXPECT_TRUE(open(directory_.path()).failed_with(Code::permission_denied));
  // The right one, in which we are not.
  const auto outside = open_runtime_directory(directory_.path(), "54300");
  ASSERT_TRUE(outside.failed_with(Code::permission_denied));
  EXPECT_NE(outside.error().facts()->reason.find("is not in group 54300"), std::string::npos);
  EXPECT_NE(outside.error().facts()->remedy.find("usermod"), std::string::npos);
  // Its owner need not be in it.
  ASSERT_EQ(::chown(directory_.path().c_str(), 0, 54300), 0);
  set_mode(directory_.path(), 02750);
  EXPECT_TRUE(open_runtime_directory(directory_.path(), "54300"));
}

TEST_F(GroupDirectory, LinksAndFilesAreRefused) {
  ASSERT_TRUE(open(made_).value().users_for_publisher());
  std::filesystem::create_directory_symlink(made_, directory_ / "link");
  std::filesystem::create_symlink(directory_ / "nowhere", directory_ / "dangling");
  std::ofstream(directory_ / "file") << "x";
  for (const char* name : {"link", "link/", "file", "dangling"}) {
    const auto opened = open(directory_ / name);
    EXPECT_TRUE(opened.failed_with(Code::permission_denied)) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "nowhere"));
}

TEST_F(GroupDirectory, TheFirstChoiceWins) {
  const os::Group group{54300, "54300"};
  const bool in_run = std::filesystem::exists("/run/vramlink-group-54300");
  const DirectoryChoice last = os::choose_group_directory("", group);
  EXPECT_EQ(last.path, std::string(in_run ? "/run" : "/tmp") + "/vramlink-group-54300");
  EXPECT_EQ(last.rule, in_run ? DirectoryRule::run_group : DirectoryRule::tmp_group);
  const test::ScopedEnvironment session("XDG_RUNTIME_DIR", directory_.path());
  EXPECT_EQ(os::choose_group_directory("", group).path, last.path) << "closed to other users";
  const test::ScopedEnvironment own("VRAMLINK_RUNTIME_DIR", "/nowhere/");
  EXPECT_EQ(os::choose_group_directory("", group).path, "/nowhere");
  EXPECT_EQ(os::choose_group_directory("/else", group).rule, DirectoryRule::option);
}

TEST_F(GroupDirectory, WithoutAGroupItIsTheUsersOwn) {
  const os::RuntimeDirectory directory = open_runtime_directory(made_, "").value();
  EXPECT_EQ(mode_of(made_), 0700U);
  EXPECT_FALSE(directory.group);
  EXPECT_EQ(directory.users().value().owner, ::geteuid());
  EXPECT_FALSE(directory.users_for_publisher().value().group);
}

TEST_F(GroupDirectory, OddPathsAndGroupsAreRefused) {
  EXPECT_TRUE(open("here").failed_with(Code::invalid_argument));
  EXPECT_TRUE(open("/" + std::string(100, 'd')).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open_runtime_directory(made_, "no such group").failed_with(Code::invalid_argument));
  const os::RuntimeDirectory deep = open(directory_ / "a/b").value();
  EXPECT_TRUE(deep.users_for_publisher().failed_with(Code::not_found));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "a"));
}

TEST_F(GroupDirectory, TwoThatMakeItAtOnceShareIt) {
  const os::RuntimeDirectory directory = open(made_).value();
  test::ChildProcess child([&](const test::ChildLink& link) {
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(directory.users_for_publisher());
    return 0;
  });
  child.wait_ready();
  child.go();
  EXPECT_TRUE(directory.users_for_publisher());
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(GroupDirectory, ASocketIsItsOwnersAndTheGroups) {
  const os::DirectoryUsers users = open(made_).value().users_for_publisher().value();
  const std::string path = made_ + "/cam0.sock";
  EXPECT_TRUE(os::check_group_socket(path, users).failed_with(Code::not_found));
  {
    const os::Listener listener = os::Listener::bind(path, os::kGroupSocketMode).value();
    EXPECT_TRUE(os::check_group_socket(path, users));
    for (const mode_t bad : {0600U, 0666U, 0661U}) {
      set_mode(path, bad);
      const auto checked = os::check_group_socket(path, users);
      ASSERT_TRUE(checked.failed_with(Code::permission_denied)) << std::oct << bad;
      EXPECT_NE(checked.error().facts()->reason.find("expected a socket of uid"),
                std::string::npos);
    }
    set_mode(path, 0660);
    const os::DirectoryUsers others{users.owner + 1, users.group};
    EXPECT_TRUE(os::check_group_socket(path, others).failed_with(Code::permission_denied));
    const os::DirectoryUsers other_group{users.owner, *users.group + 1};
    EXPECT_TRUE(os::check_group_socket(path, other_group).failed_with(Code::permission_denied));
  }
  std::ofstream(path) << "x";
  set_mode(path, 0660);
  EXPECT_TRUE(os::check_group_socket(path, users).failed_with(Code::permission_denied)) << "a file";
}

TEST_F(GroupDirectory, LimitOfDescriptorsIsAnError) {
  ASSERT_TRUE(open(made_).value().users_for_publisher());
  const os::RuntimeDirectory directory{made_, os::Group{::getegid(), group_}};
  const test::FileLimit limit;
  EXPECT_TRUE(directory.users().failed_with(Code::resource_exhausted));
}

}  // namespace
}  // namespace vramlink
