#include "os/dynamic_library.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vramlink::test {
namespace {

TEST(DynamicLibrary, FindsWhatALibraryExports) {
  const auto library = os::DynamicLibrary::open("libm.so.6").value();
  const auto square_root = reinterpret_cast<double (*)(double)>(library.find("sqrt"));
  ASSERT_NE(square_root, nullptr);
  EXPECT_EQ(square_root(9.0), 3.0);
  EXPECT_EQ(library.find("vramlink_no_such_function"), nullptr);
}

TEST(DynamicLibrary, AMissingLibraryGivesTheLoadersReason) {
  const auto library = os::DynamicLibrary::open("/nowhere/none.so");
  ASSERT_TRUE(library.failed_with(Code::not_found));
  EXPECT_NE(to_string(library.error()).find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace vramlink::test
