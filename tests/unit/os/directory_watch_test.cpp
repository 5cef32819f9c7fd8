#include "os/directory_watch.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "os/socket.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using os::DirectoryWatch;
using Names = std::vector<std::string>;

class Watch : public test::LeakCheck {
 protected:
  static bool is_readable(const DirectoryWatch& watch) {
    pollfd entry{watch.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  test::TemporaryDirectory directory_;
  Names names_;
};

TEST_F(Watch, HearsOfWhatAppears) {
  std::ofstream(directory_ / "before") << "x";
  DirectoryWatch watch = DirectoryWatch::open(directory_.path()).value();
  EXPECT_TRUE(watch);
  EXPECT_FALSE(is_readable(watch));
  EXPECT_FALSE(watch.drain(names_));
  EXPECT_TRUE(names_.empty());

  std::ofstream(directory_ / "created") << "x";
  std::filesystem::rename(directory_ / "before", directory_ / "renamed");
  std::filesystem::remove(directory_ / "created");
  EXPECT_TRUE(is_readable(watch));
  EXPECT_FALSE(watch.drain(names_));
  EXPECT_EQ(names_, (Names{"created", "renamed"}));
  EXPECT_FALSE(is_readable(watch));
}

TEST_F(Watch, HearsOfAListenerWhenItListens) {
  DirectoryWatch watch = DirectoryWatch::open(directory_.path()).value();
  const os::Listener listener = os::Listener::bind(directory_ / "cam0.sock", 0600).value();
  EXPECT_FALSE(watch.drain(names_));
  ASSERT_NE(std::find(names_.begin(), names_.end(), "cam0.sock"), names_.end());
  EXPECT_TRUE(os::Socket::connect(directory_ / "cam0.sock"));
}

TEST_F(Watch, AppendsManyNames) {
  DirectoryWatch watch = DirectoryWatch::open(directory_.path()).value();
  names_ = {"kept"};
  Names expected = names_;
  for (int i = 0; i < 300; ++i) {
    expected.push_back(std::string(60, 'n') + std::to_string(i));
    std::ofstream(directory_ / expected.back()) << "x";
  }
  EXPECT_FALSE(watch.drain(names_));
  EXPECT_EQ(names_, expected);
}

TEST_F(Watch, SaysWhenTheDirectoryIsGone) {
  std::filesystem::create_directory(directory_ / "inner");
  DirectoryWatch watch = DirectoryWatch::open(directory_ / "inner").value();
  std::filesystem::rename(directory_ / "inner", directory_ / "elsewhere");
  EXPECT_TRUE(watch.drain(names_));
  std::filesystem::remove(directory_ / "elsewhere");
  EXPECT_TRUE(watch.drain(names_));
  EXPECT_TRUE(names_.empty());
}

TEST_F(Watch, SaysWhenItCouldNotKeepUp) {
  int event_count_max = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> event_count_max;
  ASSERT_GT(event_count_max, 0);
  if (event_count_max > 100'000) GTEST_SKIP() << "the queue of this host is very long";
  DirectoryWatch watch = DirectoryWatch::open(directory_.path()).value();
  const std::string names[] = {directory_ / "a", directory_ / "b"};
  std::ofstream(names[0]) << "x";
  for (int i = 0; i <= event_count_max; ++i) {
    ASSERT_EQ(std::rename(names[i % 2].c_str(), names[(i + 1) % 2].c_str()), 0);
  }
  EXPECT_TRUE(watch.drain(names_));
  EXPECT_FALSE(watch.drain(names_));
}

TEST_F(Watch, FailuresAreTold) {
  EXPECT_TRUE(DirectoryWatch::open(directory_ / "missing").failed_with(Code::not_found));
  std::ofstream(directory_ / "file") << "x";
  const auto file = DirectoryWatch::open(directory_ / "file");
  ASSERT_TRUE(file.failed_with(Code::os));
  EXPECT_EQ(file.error().facts()->subject, directory_ / "file");
  const test::FileLimit limit;
  const auto exhausted = DirectoryWatch::open(directory_.path());
  ASSERT_TRUE(exhausted.failed_with(Code::resource_exhausted));
  EXPECT_NE(exhausted.error().facts()->remedy.find("max_user_instances"), std::string::npos);
}

}  // namespace
}  // namespace vramlink
