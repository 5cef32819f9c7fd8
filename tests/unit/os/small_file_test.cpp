#include "os/small_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "os/fd.hpp"
#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

class SmallFile : public test::LeakCheck {
 protected:
  test::TemporaryDirectory directory_;
  std::string path_ = directory_ / "file";
};

TEST_F(SmallFile, IsReadWholeOrUpToTheLimit) {
  std::ofstream(path_) << "content";
  EXPECT_EQ(os::read_small_file(path_).value(), "content");
  EXPECT_EQ(os::read_small_file(path_, 3).value(), "con");
  EXPECT_EQ(os::read_small_file(path_, 0).value(), "");
}

TEST_F(SmallFile, IsReadFromItsBeginning) {
  std::ofstream(path_) << "content";
  const os::UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(os::read_small_file(fd.get()).value(), "content");
  EXPECT_EQ(os::read_small_file(fd.get()).value(), "content");
}

TEST_F(SmallFile, FailuresNameThePath) {
  const auto missing = os::read_small_file(path_);
  ASSERT_TRUE(missing.failed_with(Code::not_found));
  EXPECT_EQ(missing.error().facts()->subject, path_);
  const auto directory = os::read_small_file(directory_.path());
  ASSERT_TRUE(directory.failed_with(Code::os));
  EXPECT_EQ(directory.error().facts()->subject, directory_.path());
  EXPECT_TRUE(os::read_small_file(-1).failed_with(Code::os));
}

}  // namespace
}  // namespace vramlink
