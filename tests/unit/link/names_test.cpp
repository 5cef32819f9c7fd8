#include "link/names.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "os/lock_file.hpp"
#include "os/socket.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

class NamesTest : public test::LeakCheck {
 protected:
  os::LockFile own(const std::string& name) {
    return os::LockFile::acquire(link::lock_path(directory_.path(), name), name, {}).value();
  }
  std::string remedy_for(const std::string& name) {
    const Error error = link::unknown_name("look", directory_.path(), name);
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_EQ(error.facts()->subject, name);
    return error.facts()->remedy;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(NamesTest, ChecksNames) {
  for (const std::string good : {"a", "cam0", "A.b_c@d+e-f9", "-", "x..y"}) {
    EXPECT_TRUE(link::check_name(good)) << good;
  }
  EXPECT_TRUE(link::check_name(std::string(120, 'n')));
  for (const std::string bad : {"", ".hidden", "a/b", "a b", "..", "caf\xc3\xa9", "a\n", "#1"}) {
    const auto checked = link::check_name(bad);
    ASSERT_TRUE(checked.failed_with(Code::invalid_argument)) << bad;
    EXPECT_NE(checked.error().facts(), nullptr);
  }
  EXPECT_TRUE(link::check_name(std::string(121, 'n')).failed_with(Code::invalid_argument));
  EXPECT_TRUE(link::check_name(std::string("a\0b", 3)).failed_with(Code::invalid_argument));
}

TEST_F(NamesTest, ShortNamesAreTheirFiles) {
  EXPECT_EQ(link::socket_file("cam0"), "cam0.sock");
  EXPECT_EQ(link::socket_path("/run/x", "cam0"), "/run/x/cam0.sock");
  EXPECT_EQ(link::lock_path("/run/x", "cam0"), "/run/x/cam0.lock");
}

TEST_F(NamesTest, LongNamesAreHashedToFilesThatNoNameHas) {
  const std::string limit(25, 'n');
  EXPECT_EQ(link::socket_file(limit), limit + ".sock");
  std::set<std::string> files;
  for (std::size_t size = 26; size <= 120; ++size) {
    const std::string file = link::socket_file(std::string(size, 'n'));
    EXPECT_EQ(file.size(), 1 + 16 + 5U);
    EXPECT_EQ(file.front(), '#');
    EXPECT_TRUE(files.insert(file).second);
  }
  // The hash of the wire: another process must find the same file.
  EXPECT_EQ(link::socket_file("abcdefghijklmnopqrstuvwxyz"), "#8450deb1cdc382a2.sock");
}

TEST_F(NamesTest, ListsLivingOwnersSorted) {
  EXPECT_EQ(link::list_names(directory_.path()).value(), std::vector<std::string>{});
  const os::LockFile b = own("b");
  const os::LockFile a = own("a");
  const os::LockFile longest = own(std::string(120, 'z'));
  std::ofstream(directory_ / "empty.lock").close();
  std::ofstream(directory_ / "text.lock") << "no owner\n";
  std::ofstream(directory_ / ".hidden.lock") << "x";
  std::ofstream(directory_ / "other.txt") << "x";
  std::filesystem::create_directory(directory_ / "folder.lock");
  EXPECT_EQ(link::list_names(directory_.path()).value(),
            (std::vector<std::string>{"a", "b", std::string(120, 'z')}));
}

TEST_F(NamesTest, DoesNotListTheDead) {
  test::ChildProcess child([&](const test::ChildLink& link) {
    const os::LockFile lock = own("dead");
    link.ready();
    link.wait_forever();
    return 0;
  });
  child.wait_ready();
  EXPECT_EQ(link::list_names(directory_.path()).value(), std::vector<std::string>{"dead"});
  child.kill();
  child.wait_until_zombie();
  EXPECT_EQ(link::list_names(directory_.path()).value(), std::vector<std::string>{});
  child.wait();
  EXPECT_EQ(link::list_names(directory_.path()).value(), std::vector<std::string>{});
}

TEST_F(NamesTest, SaysWhyItCannotList) {
  const auto names = link::list_names(directory_ / "missing");
  ASSERT_TRUE(names.failed_with(Code::os));
  EXPECT_EQ(names.error().native(), ENOENT);
}

TEST_F(NamesTest, AGroupsDirectoryIsCheckedAndMayBeYetToCome) {
  const auto list = [this](const std::string& path) {
    return link::list_names(os::RuntimeDirectory{path, os::Group{::getegid(), "ours"}});
  };
  const os::LockFile lock = own("cam0");
  EXPECT_EQ(list(directory_ / "missing").value(), std::vector<std::string>{});
  EXPECT_TRUE(list(directory_.path()).failed_with(Code::permission_denied)) << "its mode";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 02750), 0);
  EXPECT_EQ(list(directory_.path()).value(), std::vector<std::string>{"cam0"});
}

TEST_F(NamesTest, SuggestsWhatIsSimilar) {
  EXPECT_NE(remedy_for("cam0").find("start a publisher"), std::string::npos);
  const os::LockFile camera = own("camera_left");
  const os::LockFile other = own("lidar");
  EXPECT_EQ(remedy_for("camera_lift"), "did you mean 'camera_left'?");
  EXPECT_EQ(remedy_for("CAMERA_LEFT").find("did you mean"), std::string::npos);
  EXPECT_EQ(remedy_for("lidr"), "did you mean 'lidar'?");
  EXPECT_EQ(remedy_for("microphone"), "channels that are there: 'camera_left', 'lidar'");
  const os::LockFile right = own("camera_right");
  EXPECT_EQ(remedy_for("camera_fight"), "did you mean 'camera_left', 'camera_right'?");
}

}  // namespace
}  // namespace vramlink
