#include "runtime/registry.hpp"

#include <gtest/gtest.h>

#include <string>

#include <vramlink/runtime.hpp>

#include "support/scoped_settings.hpp"

namespace vramlink::test {
namespace {

using runtime::BackendRegistry;

const DeviceId kSomeGpu = parse_device("GPU-9f3c2a10-0000-0000-0000-000000000001").value();

TEST(BackendRegistry, TheHostNeedsNoDriver) {
  const ScopedEnvironment library("VRAMLINK_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
  const BackendRegistry registry;
  EXPECT_TRUE(registry.find(DeviceId::host()).value()->device().is_host());
  ASSERT_EQ(registry.devices().size(), 1U);
  EXPECT_EQ(registry.driver().library, "/nowhere/libcuda.so.1");
  EXPECT_TRUE(registry.driver().trouble);
  EXPECT_TRUE(registry.devices()[0].id.is_host());
  EXPECT_TRUE(registry.devices()[0].usable);
}

TEST(BackendRegistry, AGpuWithoutADriverSaysWhy) {
  const ScopedEnvironment library("VRAMLINK_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
  const BackendRegistry registry;
  const auto found = registry.find(kSomeGpu);
  ASSERT_TRUE(found.failed_with(Code::no_driver));
  EXPECT_NE(to_string(found.error()).find("/nowhere/libcuda.so.1"), std::string::npos);
}

TEST(BackendRegistry, TheDriverCanBeTurnedOff) {
  const ScopedEnvironment setting("VRAMLINK_CUDA", "off");
  const BackendRegistry registry;
  EXPECT_EQ(registry.devices().size(), 1U);
  const auto found = registry.find(kSomeGpu);
  ASSERT_TRUE(found.failed_with(Code::no_driver));
  EXPECT_NE(to_string(found.error()).find("VRAMLINK_CUDA"), std::string::npos);
  EXPECT_TRUE(registry.check_required());
}

TEST(BackendRegistry, ARequiredGpuThatIsMissingEndsTheStart) {
  const ScopedEnvironment setting("VRAMLINK_CUDA", "require");
  const ScopedEnvironment library("VRAMLINK_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
  EXPECT_TRUE(BackendRegistry().check_required().failed_with(Code::no_driver));
  EXPECT_TRUE(Runtime::open().failed_with(Code::no_driver));
}

TEST(BackendRegistry, AnotherWordIsRefused) {
  const ScopedEnvironment setting("VRAMLINK_CUDA", "yes");
  EXPECT_TRUE(BackendRegistry().check_required().failed_with(Code::invalid_argument));
  EXPECT_TRUE(Runtime::open().failed_with(Code::invalid_argument));
}

}  // namespace
}  // namespace vramlink::test
