#include "support/leak_check.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "os/shared_segment.hpp"

namespace vramlink {
namespace {

TEST(LeakCheck, SeesDescriptors) {
  const test::Holdings before = test::current_holdings();
  const int fd = ::dup(STDERR_FILENO);
  const test::Holdings during = test::current_holdings();
  ::close(fd);
  const std::string mark = "fd " + std::to_string(fd) + " -> ";
  EXPECT_EQ(test::describe_difference(before, during).rfind("left behind: " + mark, 0), 0U);
  EXPECT_EQ(test::describe_difference(during, before).rfind("lost: " + mark, 0), 0U);
  EXPECT_EQ(test::describe_difference(before, test::current_holdings()), "");
}

TEST(LeakCheck, SeesMappingsAlsoOfClosedSegments) {
  const test::Holdings before = test::current_holdings();
  std::optional<os::Mapping> mapping(
      os::SharedSegment::create("leaked", 4096).value().map(os::Access::read_write).value());
  const std::string difference = test::describe_difference(before, test::current_holdings());
  EXPECT_NE(difference.find("left behind: mapping /memfd:leaked"), std::string::npos) << difference;
  mapping.reset();
  EXPECT_EQ(test::describe_difference(before, test::current_holdings()), "");
}

}  // namespace
}  // namespace vramlink
