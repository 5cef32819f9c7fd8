// The test program, and the victims that it starts of itself.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>
#include <vector>

#include "roles.hpp"
#include "support/spawned_process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_device.hpp"

namespace {
constexpr const char* kAccountVariable = "VRAMLINK_SIMCUDA_DIR";
}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[1]) == vramlink::test::SpawnedProcess::kRoleOption) {
    const vramlink::test::ChildLink link = vramlink::test::enter_spawned_child();
    return vramlink::test::run_role(argv[2], std::vector<std::string>(argv + 4, argv + argc), link);
  }
  // An account of device memory that no other program writes to, so that tests can compare it.
  std::optional<vramlink::test::TemporaryDirectory> account;
  if (vramlink::test::TestDevice::is_stand_in() && ::getenv(kAccountVariable) == nullptr) {
    account.emplace();
    ::setenv(kAccountVariable, account->path().c_str(), 1);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
