// The code that docs/ownership.md quotes, and what the page says it does.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include <vramlink/channel.hpp>

#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::test {
namespace {

using namespace std::chrono_literals;

const StreamView cpu = StreamView::already_complete();

class OwnershipDocument : public LeakCheck {
 protected:
  void publish_all(int value) {
    WritableFrame frame = publisher_.try_claim(cpu).value();
    std::ranges::fill(frame.bytes(), static_cast<std::byte>(value));
    static_cast<void>(publisher_.publish(std::move(frame), cpu).value());
  }

  const TemporaryDirectory directory_;
  const Runtime runtime_ = Runtime::open({directory_.path()}).value();
  const Deadline soon_ = Deadline::after(30s);
  Publisher publisher_ =
      Publisher::open(runtime_, "picture", Format::bytes(4096).value(), {.slot_count = 2}).value();
  Subscriber subscriber_ =
      Subscriber::open(runtime_, "picture", soon_, {.held_count_max = 1}).value();
};

TEST_F(OwnershipDocument, APointerOutlivesItsFrame) {
  Subscriber& subscriber = subscriber_;
  const Deadline soon = soon_;
  publish_all(1);
  const std::byte* kept = nullptr;
  {
    const Frame frame = subscriber.receive(soon).value();
    kept = frame.data();
  }  // the frame ends here, and with it the right to read
  EXPECT_EQ(*kept, std::byte{1});
  publish_all(2);
  publish_all(3);
  EXPECT_EQ(*kept, std::byte{3}) << "the slot was used again";
}

TEST_F(OwnershipDocument, APublishedFrameIsWritten) {
  Publisher& publisher = publisher_;
  WritableFrame frame = publisher.try_claim(cpu).value();
  const std::span<std::byte> pixels = frame.bytes();
  std::ranges::fill(pixels, std::byte{1});
  const Receipt sent = publisher.publish(std::move(frame), cpu).value();
  pixels[0] = std::byte{2};  // the right to write went with the frame
  EXPECT_EQ(sent.sequence(), 1u);
  const Frame seen = subscriber_.receive(soon_).value();
  EXPECT_EQ(seen.bytes()[0], std::byte{2});
  EXPECT_EQ(seen.bytes()[1], std::byte{1}) << "half of one picture, half of another";
}

TEST_F(OwnershipDocument, AFramePublishedTwiceIsRefused) {
  WritableFrame frame = publisher_.try_claim(cpu).value();
  ASSERT_TRUE(publisher_.publish(std::move(frame), cpu));
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the mistake.
  EXPECT_TRUE(publisher_.publish(std::move(frame), cpu).failed_with(Code::invalid_argument));
}

TEST_F(OwnershipDocument, AHeldFrameStandsStill) {
  Subscriber& subscriber = subscriber_;
  const Deadline soon = soon_;
  publish_all(1);
  std::optional<Frame> kept = subscriber.receive(soon).value();
  // ... later, in another function:
  const std::byte first = kept->bytes().front();
  kept.reset();  // the slot goes back
  EXPECT_EQ(first, std::byte{1});
  publish_all(2);
  kept = subscriber.receive(soon).value();
  publish_all(3);
  EXPECT_TRUE(publisher_.try_claim(cpu).failed_with(Code::full)) << "one is held, one is newest";
  EXPECT_EQ(kept->bytes().front(), std::byte{2});
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::resource_exhausted));
}

TEST_F(OwnershipDocument, AFrameOutlivesEverybody) {
  publish_all(7);
  std::optional<Frame> frame;
  {
    Subscriber other = Subscriber::open(runtime_, "picture", soon_).value();
    frame = other.receive(soon_).value();
  }
  ASSERT_TRUE(publisher_.close(soon_));
  EXPECT_EQ(frame->bytes().back(), std::byte{7});
  EXPECT_EQ(frame->format(), publisher_.format());
}

TEST_F(OwnershipDocument, AnAbandonedFrameIsSeenByNobody) {
  { const WritableFrame unused = publisher_.try_claim(cpu).value(); }
  EXPECT_TRUE(subscriber_.try_receive().failed_with(Code::empty));
  EXPECT_EQ(publisher_.statistics().abandoned, 1u);
}

}  // namespace
}  // namespace vramlink::test
