// Channels on a device whose streams the test steps by hand, publisher and subscribers in one
// process.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "runtime/runtime_state.hpp"
#include "support/channel_fixture.hpp"
#include "support/fake_backend.hpp"

namespace vramlink::test {

class StreamFixture : public ChannelFixture {
 protected:
  /// Stream numbers of the device.
  static constexpr int kRender = 1;
  static constexpr int kRead = 2;
  static constexpr int kOther = 3;

  StreamFixture() : runtime_(open_runtime()), device_(add_device(fake_device())) {}

  StreamFixture(const StreamFixture&) = delete;
  StreamFixture& operator=(const StreamFixture&) = delete;
  /// What the test left in streams is done, so that nothing waits for it.
  ~StreamFixture() override {
    for (FakeBackend* device : devices_) device->run();
  }

  FakeBackend& add_device(DeviceId id) {
    auto made = std::make_unique<FakeBackend>(id);
    devices_.push_back(made.get());
    process().add_backend(std::move(made));
    return *devices_.back();
  }
  [[nodiscard]] runtime::ProcessState& process() const { return *runtime_.state()->process(); }

  [[nodiscard]] Publisher open_publisher(PublisherOptions options = {}) const {
    options.device = fake_device();
    return ChannelFixture::open_publisher(runtime_, options, kBytes);
  }
  [[nodiscard]] Subscriber open_subscriber(const SubscriberOptions& options = {}) const {
    return ChannelFixture::open_subscriber(runtime_, options);
  }
  /// Claims, lets the stream fill the frame with a number, and publishes.
  Receipt publish(Publisher& publisher, std::uint64_t number, int stream = kRender) {
    WritableFrame frame = publisher.try_claim(device_.stream(stream)).value();
    device_.enqueue(stream, [bytes = frame.bytes(), number] { fill_frame(bytes, number); });
    return publisher.publish(std::move(frame), device_.stream(stream)).value();
  }
  /// Reads the frame in a stream; the number is there once the stream got so far.
  std::shared_ptr<std::uint64_t> read(const Frame& frame, int stream = kRead) {
    auto number = std::make_shared<std::uint64_t>(0);
    device_.enqueue(stream, [bytes = frame.bytes(), number] { *number = number_in(bytes); });
    return number;
  }
  [[nodiscard]] static std::uint32_t held(const Publisher& publisher, std::size_t index = 0) {
    const std::vector<SubscriberView> views = publisher.statistics().subscribers;
    return index < views.size() ? views[index].held : 0;
  }
  /// What was left to the janitor has been done.
  void drain_janitor() const { process().janitor().drain(); }
  /// What was left to the reactor has been done.
  void drain_reactor() const {
    std::promise<void> done;
    process().reactor().post([&] { done.set_value(); });
    done.get_future().wait();
  }

  static constexpr std::uint64_t kBytes = 4096;

  Runtime runtime_;
  std::vector<FakeBackend*> devices_;
  FakeBackend& device_;
};

/// Until `condition` holds; the watchdog ends a test that waits in vain.
template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace vramlink::test
