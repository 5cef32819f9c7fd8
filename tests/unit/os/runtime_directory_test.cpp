#include "os/runtime_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using os::find_runtime_directory;

class RuntimeDirectory : public test::LeakCheck {
 protected:
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
  }

  test::TemporaryDirectory directory_;
  test::ScopedEnvironment own_{"VRAMLINK_RUNTIME_DIR", std::nullopt};
  test::ScopedEnvironment session_{"XDG_RUNTIME_DIR", std::nullopt};
};

TEST_F(RuntimeDirectory, TheFirstChoiceWins) {
  const std::string caller = directory_ / "caller";
  const std::string own = directory_ / "own";
  const test::ScopedEnvironment own_set("VRAMLINK_RUNTIME_DIR", own);
  const test::ScopedEnvironment session_set("XDG_RUNTIME_DIR", directory_.path());
  EXPECT_EQ(find_runtime_directory(caller).value(), caller);
  EXPECT_EQ(find_runtime_directory("").value(), own);
  const test::ScopedEnvironment own_empty("VRAMLINK_RUNTIME_DIR", "");
  EXPECT_EQ(find_runtime_directory("").value(), directory_ / "vramlink");
}

TEST_F(RuntimeDirectory, WithoutAnEnvironmentThereIsAPlaceForEachUser) {
  const std::string uid = std::to_string(::geteuid());
  const bool has_session = std::filesystem::is_directory("/run/user/" + uid);
  const std::string expected =
      has_session ? "/run/user/" + uid + "/vramlink" : "/tmp/vramlink-" + uid;
  const bool was_there = std::filesystem::exists(expected);
  for (const std::optional<std::string>& session : {std::optional<std::string>(), {""}, {"run"}}) {
    const test::ScopedEnvironment session_set("XDG_RUNTIME_DIR", session);
    const auto found = find_runtime_directory("");
    ASSERT_TRUE(found) << to_string(found.error());
    EXPECT_EQ(*found, expected);
  }
  // Left alone if another program made it or uses it meanwhile.
  if (!was_there) ::rmdir(expected.c_str());
}

TEST_F(RuntimeDirectory, IsCreatedForTheOwnerAlone) {
  const mode_t before = ::umask(0);
  const auto created = find_runtime_directory(directory_ / "new");
  ::umask(before);
  EXPECT_EQ(created.value(), directory_ / "new");
  EXPECT_EQ(mode_of(*created), 0700U);
  EXPECT_EQ(find_runtime_directory(directory_ / "new").value(), *created);
}

TEST_F(RuntimeDirectory, SlashesAtTheEndAreDropped) {
  EXPECT_EQ(find_runtime_directory(directory_.path() + "//").value(), directory_.path());
}

TEST_F(RuntimeDirectory, OthersMustNotWrite) {
  for (const mode_t good : {0700U, 0755U, 02750U}) {
    ASSERT_EQ(::chmod(directory_.path().c_str(), good), 0);
    EXPECT_TRUE(find_runtime_directory(directory_.path())) << std::oct << good;
  }
  for (const mode_t bad : {0720U, 0702U, 01777U}) {
    ASSERT_EQ(::chmod(directory_.path().c_str(), bad), 0);
    const auto found = find_runtime_directory(directory_.path());
    ASSERT_TRUE(found.failed_with(Code::permission_denied)) << std::oct << bad;
    EXPECT_NE(found.error().facts()->reason.find("mode"), std::string::npos);
    EXPECT_FALSE(found.error().facts()->remedy.empty());
    EXPECT_EQ(found.error().facts()->subject, directory_.path());
  }
}

TEST_F(RuntimeDirectory, MustBelongToUs) {
  // Everybody but root meets a directory of another user in "/"; root makes one.
  std::string foreign = "/";
  if (::geteuid() == 0) {
    foreign = directory_ / "foreign";
    std::filesystem::create_directory(foreign);
    ASSERT_EQ(::chmod(foreign.c_str(), 0700), 0);
    ASSERT_EQ(::chown(foreign.c_str(), 65534, 65534), 0);
  }
  const auto found = find_runtime_directory(foreign);
  ASSERT_TRUE(found.failed_with(Code::permission_denied));
  EXPECT_NE(found.error().facts()->reason.find("belongs to uid"), std::string::npos);
}

TEST_F(RuntimeDirectory, LinksAndFilesAreRefused) {
  std::filesystem::create_directory(directory_ / "real");
  std::filesystem::permissions(directory_ / "real", std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink(directory_ / "real", directory_ / "link");
  std::ofstream(directory_ / "file") << "x";
  for (const char* name : {"link", "link/", "file"}) {
    EXPECT_TRUE(find_runtime_directory(directory_ / name).failed_with(Code::permission_denied))
        << name;
  }
  // Also one that points nowhere: mkdir does not follow it.
  std::filesystem::create_symlink(directory_ / "nowhere", directory_ / "dangling");
  EXPECT_TRUE(find_runtime_directory(directory_ / "dangling").failed_with(Code::permission_denied));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "nowhere"));
}

TEST_F(RuntimeDirectory, PathsMustBeAbsoluteAndShort) {
  EXPECT_TRUE(find_runtime_directory("here").failed_with(Code::invalid_argument));
  EXPECT_TRUE(find_runtime_directory(std::string("/a\0b", 4)).failed_with(Code::invalid_argument));
  const std::string longest = "/" + std::string(os::kRuntimeDirectoryMaxBytes, 'd');
  const auto found = find_runtime_directory(longest);
  ASSERT_TRUE(found.failed_with(Code::invalid_argument));
  EXPECT_EQ(found.error().facts()->numbers[0], longest.size());
  EXPECT_EQ(found.error().facts()->numbers[1], os::kRuntimeDirectoryMaxBytes);
}

TEST_F(RuntimeDirectory, OnlyOneLevelIsCreated) {
  const auto found = find_runtime_directory(directory_ / "a/b");
  ASSERT_TRUE(found.failed_with(Code::not_found));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "a"));
}

TEST_F(RuntimeDirectory, AFailedChoiceIsNotPassedOver) {
  const test::ScopedEnvironment session_set("XDG_RUNTIME_DIR", directory_ / "missing");
  EXPECT_TRUE(find_runtime_directory("").failed_with(Code::not_found));
}

TEST_F(RuntimeDirectory, LimitOfDescriptorsIsAnError) {
  const test::FileLimit limit;
  EXPECT_TRUE(find_runtime_directory(directory_.path()).failed_with(Code::resource_exhausted));
}

}  // namespace
}  // namespace vramlink
