// For tests of a publisher that changes its format or its slots, on a device whose streams the test
// steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

#include "support/stream_fixture.hpp"

namespace vramlink::test {

class ResizeFixture : public StreamFixture {
 protected:
  static Format bytes(std::uint64_t size_bytes) { return Format::bytes(size_bytes).value(); }
  static Result<void> resize(Publisher& publisher, std::uint64_t size_bytes,
                             std::uint32_t slot_count = 0) {
    return publisher.resize(bytes(size_bytes), soon(),
                            {.slot_count = slot_count, .follow_within = std::chrono::seconds(30)});
  }
  /// Publishes a frame that is complete.
  void publish_now(Publisher& publisher, std::uint64_t number) {
    ASSERT_TRUE(publish_number(publisher, number, Deadline::passed()));
  }
  /// The subscriber has the new memory mapped: a moment after the publisher has let it in there.
  static void wait_followed(const Subscriber& subscriber, std::uint64_t size_bytes) {
    wait_until([&] { return subscriber.format() == bytes(size_bytes); });
  }
  /// Receives the frame that must be next.
  static void expect_frame(Subscriber& subscriber, std::uint64_t number, std::uint64_t generation,
                           std::uint64_t size_bytes) {
    const Result<Frame> frame = subscriber.receive(soon());
    ASSERT_TRUE(frame) << "frame " << number << ": " << to_string(frame.error());
    EXPECT_EQ(frame->sequence(), number);
    EXPECT_EQ(frame->generation(), generation);
    EXPECT_EQ(frame->size_bytes(), size_bytes);
    EXPECT_EQ(frame->format(), bytes(size_bytes));
    EXPECT_TRUE(holds_frame(frame->bytes(), number));
  }
  /// Allocations of slots in this process that have not ended. A mapping of a publisher and one of
  /// each subscriber.
  static int payloads() {
    int count = 0;
    for (const auto& [what, held] : current_holdings()) {
      if (what.find("mapping") == 0 && what.find("vramlink-payload") != std::string::npos) {
        count += held;
      }
    }
    return count;
  }

  /// While it lives, subscribers of this process map nothing: they are late.
  class JanitorHeld {
   public:
    explicit JanitorHeld(const ResizeFixture& test) {
      std::future<void> begun = begun_.get_future();
      test.process().janitor().post([this, done = done_.get_future().share()] {
        begun_.set_value();
        done.wait();
      });
      begun.wait();
    }
    JanitorHeld(const JanitorHeld&) = delete;
    JanitorHeld& operator=(const JanitorHeld&) = delete;
    ~JanitorHeld() { done_.set_value(); }

   private:
    std::promise<void> begun_;
    std::promise<void> done_;
  };
};

}  // namespace vramlink::test
