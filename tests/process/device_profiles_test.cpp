// Channels on drivers and GPUs that lack something: what is missing is named when a GPU is listed
// and when a channel is opened on it; what is not needed is not missed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <vramlink/host_copy.hpp>

#include "support/channel_fixture.hpp"
#include "support/scoped_settings.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::soon;
using test::TestDevice;

class DeviceProfileTest : public test::ChannelFixture {
 protected:
  void SetUp() override {
    ChannelFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!TestDevice::is_stand_in()) GTEST_SKIP() << "only the stand-in driver lacks on demand";
  }

  /// In a child whose driver has the profile.
  template <class Body>
  static void with_profile(const char* profile, const Body& body) {
    const test::ScopedEnvironment chosen("VRAMLINK_SIMCUDA_PROFILE", profile);
    ChildProcess child([&](const ChildLink&) {
      body();
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }
  [[nodiscard]] Result<Publisher> open_on(const Runtime& runtime, const DeviceId& device) const {
    return Publisher::open(runtime, kName, Format::bytes(kFrameBytes).value(), {.device = device});
  }

  /// The first GPU is listed with what it lacks, and refuses a channel with the same words. The
  /// host serves.
  void expect_refused(const char* profile, const std::string& words) const {
    with_profile(profile, [&] {
      const Runtime runtime = open_runtime();
      const std::vector<DeviceInfo> devices = runtime.devices();
      ASSERT_GT(devices.size(), 1U);
      EXPECT_FALSE(devices[1].usable);
      EXPECT_NE(devices[1].why_not.find(words), std::string::npos) << devices[1].why_not;
      const Result<Publisher> refused = open_on(runtime, devices[1].id);
      ASSERT_TRUE(refused.failed_with(Code::unsupported));
      EXPECT_NE(to_string(refused.error()).find(words), std::string::npos)
          << to_string(refused.error());
      EXPECT_EQ(files(), std::vector<std::string>{});
      EXPECT_TRUE(open_on(runtime, DeviceId::host()));
    });
  }
  /// A frame goes through the first GPU, which is the only one if `only` says so.
  void expect_frames(const char* profile, std::optional<std::size_t> gpu_count = {}) const {
    with_profile(profile, [&] {
      const Runtime runtime = open_runtime();
      const std::vector<DeviceInfo> devices = runtime.devices();
      ASSERT_GT(devices.size(), 1U);
      if (gpu_count) {
        EXPECT_EQ(devices.size() - 1, *gpu_count);
      }
      EXPECT_TRUE(devices[1].usable) << devices[1].why_not;
      Publisher publisher = open_on(runtime, devices[1].id).value();
      Subscriber subscriber = open_subscriber(runtime);
      ASSERT_TRUE(test::publish_number(publisher, 1));
      EXPECT_TRUE(test::receives_frame(subscriber, 1, soon()));
      ASSERT_TRUE(test::publish_number(publisher, 2));
      const Frame frame = subscriber.receive(TestDevice::stream(), soon()).value();
      TestDevice::finish(TestDevice::stream());
      EXPECT_FALSE(frame.aborted());
      EXPECT_TRUE(test::holds_frame(frame.bytes(), 2));
    });
  }
};

TEST_F(DeviceProfileTest, AnOldDriverIsNamedWithItsVersion) {
  with_profile("old_driver", [&] {
    const Runtime runtime = open_runtime();
    EXPECT_EQ(runtime.devices().size(), 1U) << "the host alone";
    const DeviceId gpu = parse_device("GPU-5c0d0a00-1122-4344-8566-778899aabb00").value();
    const Result<Publisher> refused = open_on(runtime, gpu);
    ASSERT_TRUE(refused.failed_with(Code::unsupported));
    const std::string text = to_string(refused.error());
    EXPECT_NE(text.find("CUDA 11.8"), std::string::npos) << text;
    EXPECT_NE(text.find("525"), std::string::npos) << text;
    EXPECT_TRUE(open_on(runtime, DeviceId::host()));
  });
}

TEST_F(DeviceProfileTest, WithoutVirtualMemoryAGpuIsRefused) {
  expect_refused("no_vmm", "virtual memory management");
}

TEST_F(DeviceProfileTest, UnderWslAGpuIsRefused) {
  expect_refused("wsl", "cannot be exported as a file descriptor");
}

TEST_F(DeviceProfileTest, WithoutWordsOf64BitsAGpuIsRefused) {
  expect_refused("no_memops", "64-bit words");
}

TEST_F(DeviceProfileTest, PoolsAreNotMissed) { expect_frames("no_pools"); }

TEST_F(DeviceProfileTest, APartOfAGpuServesAsAGpu) { expect_frames("mig", 1); }

TEST_F(DeviceProfileTest, LegacyHandlesServeAGpuWithoutVirtualMemoryByConsent) {
  with_profile("no_vmm", [this] {
    const Runtime runtime = open_runtime();
    const DeviceInfo gpu = runtime.devices().at(1);
    EXPECT_FALSE(gpu.usable) << "not of itself";
    PublisherOptions options;
    options.device = gpu.id;
    const auto refused = Publisher::open(runtime, kName, Format::bytes(64).value(), options);
    ASSERT_TRUE(refused.failed_with(Code::unsupported));
    EXPECT_NE(to_string(refused.error()).find("legacy handles"), std::string::npos)
        << to_string(refused.error());
    options.device = gpu.id;
    options.legacy_handles = LegacyHandles::if_needed;
    auto publisher =
        Publisher::open(runtime, kName, Format::bytes(kFrameBytes).value(), options).value();
    EXPECT_EQ(publisher.statistics().path, MemoryPath::legacy_handle);
    Subscriber subscriber = open_subscriber(runtime);
    // Such a GPU is none for the other tests' helpers: through host memory and back.
    const std::vector<std::byte> sent(kFrameBytes, std::byte{7});
    ASSERT_TRUE(publisher.publish_copy(sent, kNow, soon()));
    Downloader downloader = Downloader::open(runtime, gpu.id, kFrameBytes, {}).value();
    ASSERT_TRUE(downloader.submit(subscriber.receive(soon()).value(), kNow));
    const HostFrame frame = downloader.next(soon()).value();
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), frame.bytes().begin(), frame.bytes().end()));
  });
}

TEST_F(DeviceProfileTest, LegacyHandlesAreNamedWhereTheDriverHasNoneEither) {
  with_profile("wsl", [this] {
    const Runtime runtime = open_runtime();
    PublisherOptions options;
    options.device = runtime.devices().at(1).id;
    options.legacy_handles = LegacyHandles::if_needed;
    const auto refused = Publisher::open(runtime, kName, Format::bytes(64).value(), options);
    ASSERT_TRUE(refused.failed_with(Code::unsupported));
    EXPECT_NE(to_string(refused.error()).find("no handle"), std::string::npos)
        << to_string(refused.error());
    EXPECT_EQ(files(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace vramlink
