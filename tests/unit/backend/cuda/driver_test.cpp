// What is said where there is no driver, an old one or a broken one. The libraries stand beside
// this program; see fake_driver.cpp.
#include "backend/cuda/driver.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "backend/cuda/factory.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink::test {
namespace {

using cuda::Driver;
using cuda::api::Status;

const std::string kFake = VRAMLINK_FAKE_DRIVER;
const std::string kBare = VRAMLINK_FAKE_BARE_DRIVER;

/// The text of the error with which loading fails.
std::string failure(const std::string& library, Code code) {
  const auto loaded = Driver::load(library);
  EXPECT_TRUE(loaded.failed_with(code));
  return loaded ? "it was loaded" : to_string(loaded.error());
}

bool says(const std::string& text, const char* words) {
  if (text.find(words) != std::string::npos) return true;
  ADD_FAILURE() << text << "\ndoes not say: " << words;
  return false;
}

TEST(Driver, AMissingLibraryIsNoDriver) {
  const std::string text = failure("/nowhere/libcuda.so.1", Code::no_driver);
  EXPECT_TRUE(says(text, "/nowhere/libcuda.so.1"));
  EXPECT_TRUE(says(text, "No such file"));
  EXPECT_TRUE(says(text, "Try: install NVIDIA's driver, 525 or newer"));
}

TEST(Driver, AnotherLibraryIsNoDriver) {
  EXPECT_TRUE(says(failure("libm.so.6", Code::no_driver), "it is not NVIDIA's driver"));
}

TEST(Driver, AnOldDriverIsUnsupported) {
  const ScopedEnvironment version("FAKE_DRIVER_VERSION", "11080");
  const std::string text = failure(kFake, Code::unsupported);
  EXPECT_TRUE(says(text, "it offers CUDA 11.8, and 12.0 is the oldest that works"));
}

TEST(Driver, AMissingFunctionIsUnsupportedAndNamed) {
  EXPECT_TRUE(says(failure(kBare, Code::unsupported), "it has no function cuInit"));
}

TEST(Driver, FindsEveryFunctionWithoutTheDriversOwnSearch) {
  const auto driver = Driver::load(kFake).value();
  EXPECT_EQ(driver->version(), 12000);
#define VRAMLINK_CHECK_FOUND(member, name, symbol, version, ...) \
  EXPECT_NE(driver->member, nullptr) << #symbol;
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_CHECK_FOUND)
}

struct StartCase {
  Status status;
  Code code;
  const char* words;
  /// What GoogleTest calls the case.
  friend void PrintTo(const StartCase& each, std::ostream* out) { *out << each.words; }
};

class DriverStart : public ::testing::TestWithParam<StartCase> {};

TEST_P(DriverStart, SaysWhatToDo) {
  const ScopedEnvironment status("FAKE_DRIVER_STATUS",
                                 std::to_string(static_cast<int>(GetParam().status)));
  const auto loaded = Driver::load(kFake);
  ASSERT_TRUE(loaded.failed_with(GetParam().code));
  EXPECT_EQ(loaded.error().origin(), Origin::driver);
  EXPECT_EQ(loaded.error().native(), static_cast<int>(GetParam().status));
  EXPECT_TRUE(says(to_string(loaded.error()), GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, DriverStart,
    ::testing::Values(StartCase{Status::no_device, Code::no_device, "CUDA_VISIBLE_DEVICES"},
                      StartCase{Status::stub_library, Code::no_driver, "stubs"},
                      StartCase{Status::not_initialized, Code::wrong_state, "exec"},
                      StartCase{Status::system_driver_mismatch, Code::no_driver, "reboot"},
                      StartCase{Status::unknown, Code::no_driver, "nvidia-smi"}));

TEST(Driver, ErrorsCarryTheNumberAndACode) {
  const auto driver = Driver::load(kFake).value();
  const auto code = [&](Status status) {
    const Error error = driver->error("call", status);
    EXPECT_EQ(error.native(), static_cast<int>(status));
    return error.code();
  };
  EXPECT_EQ(code(Status::out_of_memory), Code::out_of_memory);
  EXPECT_EQ(code(Status::invalid_device), Code::no_device);
  EXPECT_EQ(code(Status::not_supported), Code::unsupported);
  EXPECT_EQ(code(Status::peer_access_unsupported), Code::unsupported);
  EXPECT_EQ(code(Status::mps_max_clients_reached), Code::resource_exhausted);
  EXPECT_EQ(code(Status::stream_capture_unsupported), Code::wrong_state);
  EXPECT_EQ(code(Status::context_is_destroyed), Code::wrong_state);
  EXPECT_EQ(code(Status::illegal_address), Code::driver);
  EXPECT_EQ(code(static_cast<Status>(12345)), Code::driver);
  EXPECT_TRUE(driver->check("call", Status::success));
}

TEST(Driver, ALibraryIsChosenByTheEnvironment) {
  const ScopedEnvironment library("VRAMLINK_CUDA_LIBRARY", "/nowhere/chosen.so");
  EXPECT_TRUE(says(to_string(cuda::find_devices().error()), "/nowhere/chosen.so"));
}

}  // namespace
}  // namespace vramlink::test
