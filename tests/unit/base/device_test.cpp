#include <gtest/gtest.h>

#include <random>

#include <vramlink/device.hpp>

namespace vramlink {
namespace {

TEST(DeviceId, HostIsAllZero) {
  EXPECT_TRUE(DeviceId::host().is_host());
  EXPECT_EQ(to_string(DeviceId::host()), "host");
  EXPECT_EQ(parse_device("host").value(), DeviceId::host());
}

TEST(DeviceId, PrintsAUuid) {
  DeviceId device;
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    device.uuid[i] = static_cast<std::uint8_t>(0x10 * i + i);
  }
  EXPECT_EQ(to_string(device), "GPU-00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(parse_device("GPU-00112233-4455-6677-8899-AABBCCDDEEFF").value(), device);
}

TEST(DeviceId, RandomOnesRoundTrip) {
  std::mt19937 random(1);  // NOLINT: a fixed sequence, so that a failure repeats
  for (int i = 0; i < 1000; ++i) {
    DeviceId device;
    for (auto& byte : device.uuid) byte = static_cast<std::uint8_t>(random());
    EXPECT_EQ(parse_device(to_string(device)).value(), device);
  }
}

TEST(DeviceId, RefusesEverythingElse) {
  const std::string good = "GPU-00112233-4455-6677-8899-aabbccddeeff";
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(parse_device(good.substr(0, size)).failed_with(Code::invalid_argument));
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '~';
    EXPECT_TRUE(parse_device(bad).failed_with(Code::invalid_argument)) << bad;
  }
  EXPECT_FALSE(parse_device(good + "0"));
  EXPECT_FALSE(parse_device("Host"));
  EXPECT_FALSE(parse_device("GPU-00000000-0000-0000-0000-000000000000"));
}

}  // namespace
}  // namespace vramlink
