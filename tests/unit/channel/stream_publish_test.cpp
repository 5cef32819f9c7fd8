// Publishing on a device with streams: section 5 of the protocol.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "channel/parking.hpp"
#include "os/shared_segment.hpp"
#include "support/link_attacker.hpp"
#include "support/step_action.hpp"
#include "support/stream_fixture.hpp"

namespace vramlink {
namespace {

class StreamPublish : public test::StreamFixture {
 protected:
  /// The last READY that was signalled.
  [[nodiscard]] test::FakeBackend::Batch last_batch() const { return device_.batches().back(); }
};

TEST_F(StreamPublish, AFrameIsCompleteWhenItsStreamGotThere) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  const Receipt receipt = publish(publisher, 5);
  EXPECT_FALSE(receipt.ready());
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  device_.step(test::StreamFixture::kRender);  // rendered, and READY not written
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  device_.run();
  EXPECT_TRUE(receipt.ready());
  EXPECT_TRUE(test::receives_frame(subscriber, 5, Deadline::passed()));
}

TEST_F(StreamPublish, ReadyIsOneBatchWithTheBroadcastWordLast) {
  Publisher publisher = open_publisher();
  const Subscriber first = open_subscriber();
  const Subscriber by_cpu = open_subscriber({.stream_order = false});
  const Subscriber second = open_subscriber();
  const Receipt receipt = publish(publisher, 1);
  const std::vector<backend::WordWrite> writes = last_batch().writes;
  ASSERT_EQ(writes.size(), 3U);
  for (const backend::WordWrite& write : writes) EXPECT_EQ(write.value, writes[0].value);
  const auto word = [&](std::size_t i) {
    return writes[i].word.page->words()[writes[i].word.index].load();
  };
  EXPECT_EQ(device_.step(kRender, 3), 3);  // the work and two words
  EXPECT_EQ(word(0), writes[0].value);
  EXPECT_EQ(word(1), writes[1].value);
  EXPECT_NE(word(2), writes[2].value);
  EXPECT_FALSE(receipt.ready());
  EXPECT_EQ(device_.step(kRender), 1);
  EXPECT_TRUE(receipt.ready()) << "the last one is READY itself";
}

TEST_F(StreamPublish, WhoJoinsAfterTheClaimIsNotInItsBatch) {
  Publisher publisher = open_publisher();
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  const Subscriber subscriber = open_subscriber();
  static_cast<void>(publisher.publish(std::move(frame), device_.stream(kRender)).value());
  EXPECT_EQ(last_batch().writes.size(), 1U);
  publish(publisher, 2);
  EXPECT_EQ(last_batch().writes.size(), 2U);
  device_.run();
}

TEST_F(StreamPublish, WhoLeftAfterTheClaimMayStillBeWritten) {
  Publisher publisher = open_publisher();
  std::optional<Subscriber> subscriber = open_subscriber();
  const Receipt receipt = publish(publisher, 1);
  WritableFrame claimed = publisher.try_claim(device_.stream(kRender)).value();
  subscriber.reset();
  test::wait_until([&] { return publisher.statistics().subscribers.empty(); });
  drain_janitor();
  static_cast<void>(publisher.publish(std::move(claimed), device_.stream(kRender)).value());
  EXPECT_EQ(last_batch().writes.size(), 2U);
  device_.run();  // its page is registered and mapped
  EXPECT_TRUE(receipt.ready());
  publish(publisher, 3);
  EXPECT_EQ(last_batch().writes.size(), 1U);
  device_.run();
}

TEST_F(StreamPublish, AnotherStreamIsOrderedBehindTheClaims) {
  Publisher publisher = open_publisher();
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  device_.enqueue(kRender, [bytes = frame.bytes()] { test::fill_frame(bytes, 8); });
  const Receipt receipt = publisher.publish(std::move(frame), device_.stream(kOther)).value();
  device_.run(kOther);
  EXPECT_FALSE(receipt.ready()) << "the claim's stream has not got there";
  device_.run();
  EXPECT_TRUE(receipt.ready());
}

TEST_F(StreamPublish, WhatIsCompleteByTheCallersWordIsReadyAtOnce) {
  Publisher publisher = open_publisher();
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  test::fill_frame(frame.bytes(), 3);
  EXPECT_TRUE(publisher.publish(std::move(frame), test::kNow).value().ready());
  EXPECT_EQ(device_.pending(kRender), 0U);
}

TEST_F(StreamPublish, AnAbandonedSlotComesBackBehindItsStream) {
  Publisher publisher = open_publisher({.slot_count = 2});
  publish(publisher, 1);
  device_.run();
  {
    const WritableFrame dropped = publisher.try_claim(device_.stream(kRender)).value();
    device_.enqueue(kRender, [] {});
  }
  EXPECT_TRUE(publisher.try_claim(test::kNow).failed_with(Code::full));
  device_.step(kRender);  // the work; READY is behind it
  EXPECT_TRUE(publisher.try_claim(test::kNow).failed_with(Code::full));
  device_.run();
  EXPECT_TRUE(publisher.try_claim(test::kNow));
}

TEST_F(StreamPublish, AFailedEnqueueShowsNothingAndTheSlotComesBack) {
  Publisher publisher = open_publisher({.slot_count = 2});
  Subscriber subscriber = open_subscriber();
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  device_.enqueue(kOther, [] {});
  device_.fail("signal");
  EXPECT_TRUE(
      publisher.publish(std::move(frame), device_.stream(kOther)).failed_with(Code::driver));
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  EXPECT_EQ(publisher.statistics().abandoned, 1U);
  const WritableFrame second = publisher.try_claim(test::kNow).value();
  EXPECT_TRUE(publisher.try_claim(test::kNow).failed_with(Code::full));
  device_.run(kRender);
  EXPECT_TRUE(publisher.try_claim(test::kNow).failed_with(Code::full))
      << "the work may be in the stream that it was to be published with";
  device_.run();
  EXPECT_TRUE(publisher.try_claim(test::kNow));
}

TEST_F(StreamPublish, ADriverThatFailsOnceLosesNoSlot) {
  Publisher publisher = open_publisher({.slot_count = 2});
  device_.fail("signal", Code::driver, 2);  // READY, and then its abandonment
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  EXPECT_TRUE(
      publisher.publish(std::move(frame), device_.stream(kRender)).failed_with(Code::driver));
  const WritableFrame other = publisher.try_claim(test::kNow).value();
  EXPECT_TRUE(publisher.try_claim(test::kNow).failed_with(Code::full)) << "behind its stream";
  device_.run();
  EXPECT_TRUE(publisher.try_claim(test::kNow));
}

TEST_F(StreamPublish, ASlotThatCannotEvenBeAbandonedIsLost) {
  Publisher publisher = open_publisher({.slot_count = 2});
  device_.fail("signal", Code::driver, 3);  // READY, and then its abandonment, twice
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  EXPECT_TRUE(
      publisher.publish(std::move(frame), device_.stream(kRender)).failed_with(Code::driver));
  const WritableFrame other = publisher.try_claim(test::kNow).value();
  device_.run();
  EXPECT_TRUE(publisher.try_claim(test::kNow).failed_with(Code::full));
  // Its memory is kept as long as the device may still write there.
  device_.break_down();
}

TEST_F(StreamPublish, RefusesStreamsOfAnotherDevice) {
  Publisher publisher = open_publisher();
  int nothing = 0;
  const StreamView foreign = StreamView::cuda(&nothing);
  EXPECT_TRUE(publisher.try_claim(foreign).failed_with(Code::wrong_state));
  for (const StreamView claimed_with : {test::kNow, device_.stream(kRender)}) {
    WritableFrame frame = publisher.try_claim(claimed_with).value();
    EXPECT_TRUE(publisher.publish(std::move(frame), foreign).failed_with(Code::wrong_state));
  }
  EXPECT_EQ(publisher.statistics().abandoned, 2U);
  device_.run();
}

TEST_F(StreamPublish, MembersBeyondTheLimitAreRefusedStreamOrder) {
  Publisher publisher = open_publisher();
  std::vector<Subscriber> all;
  for (std::uint32_t i = 0; i < kStreamOrderedSubscriberCountMax; ++i) {
    all.push_back(open_subscriber());
  }
  const auto refused = Subscriber::open(runtime_, kName, test::soon());
  ASSERT_TRUE(refused.failed_with(Code::resource_exhausted));
  EXPECT_NE(to_string(refused.error()).find("stream_order"), std::string::npos);
  EXPECT_EQ(refused.error().facts()->numbers[1], kStreamOrderedSubscriberCountMax);
  const Subscriber by_cpu = open_subscriber({.stream_order = false});
  publish(publisher, 1);
  EXPECT_EQ(last_batch().writes.size(), 17U);
  device_.run();
}

// By copy

class StreamCopy : public StreamPublish {
 protected:
  StreamCopy() { test::fill_frame(source_, 21); }
  Result<Receipt> copy(Publisher& publisher) {
    return publisher.try_publish_copy(source_, device_.stream(kRender));
  }
  std::vector<std::byte> source_ = std::vector<std::byte>(kBytes);
};

TEST_F(StreamCopy, CopiesAfterTheSourcesStream) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  device_.enqueue(kRender, [&] { test::fill_frame(source_, 22); });
  const Receipt receipt = copy(publisher).value();
  device_.run(test::FakeBackend::kCopyStream);
  EXPECT_FALSE(receipt.ready());
  device_.run();
  EXPECT_TRUE(receipt.ready());
  EXPECT_TRUE(test::receives_frame(subscriber, 22, Deadline::passed()));
}

TEST_F(StreamCopy, GoesByOneSubmissionOnceItIsPrepared) {
  Publisher publisher = open_publisher();
  static_cast<void>(copy(publisher).value());
  EXPECT_EQ(device_.calls("submit_once"), 1);
  drain_janitor();
  EXPECT_EQ(device_.calls("prepare"), 4) << "one for each slot";
  device_.run();
  for (int i = 0; i < 10; ++i) {
    const Receipt receipt = copy(publisher).value();
    device_.run();
    EXPECT_TRUE(receipt.ready());
  }
  EXPECT_EQ(device_.calls("submit"), 10);
  EXPECT_EQ(device_.calls("submit_once"), 1);
  EXPECT_EQ(device_.calls("prepare"), 4);
}

TEST_F(StreamCopy, PreparesAnewWhenOtherWordsAreToBeWritten) {
  Publisher publisher = open_publisher();
  static_cast<void>(copy(publisher).value());
  drain_janitor();
  device_.run();
  std::optional<Subscriber> subscriber = open_subscriber();
  static_cast<void>(copy(publisher).value());
  EXPECT_EQ(device_.calls("submit_once"), 2);
  EXPECT_EQ(last_batch().writes.size(), 2U);
  drain_janitor();
  device_.run();
  static_cast<void>(copy(publisher).value());
  EXPECT_EQ(device_.calls("submit"), 1);
  EXPECT_EQ(last_batch().writes.size(), 2U);
  device_.run();
  const Subscriber by_cpu = open_subscriber({.stream_order = false});
  static_cast<void>(copy(publisher).value());
  EXPECT_EQ(device_.calls("submit"), 2) << "the same words";
  device_.run();
  subscriber.reset();
  test::wait_until([&] { return publisher.statistics().subscribers.size() == 1; });
  static_cast<void>(copy(publisher).value());
  EXPECT_EQ(device_.calls("submit_once"), 3);
  EXPECT_EQ(last_batch().writes.size(), 1U);
  device_.run();
}

TEST_F(StreamCopy, WhatCannotBePreparedGoesOnBySingleCalls) {
  Publisher publisher = open_publisher();
  device_.fail("prepare", Code::driver, 1000);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(copy(publisher));
    drain_janitor();
    device_.run();
  }
  EXPECT_EQ(device_.calls("submit_once"), 5);
  EXPECT_EQ(device_.calls("prepare"), 1) << "it is not tried with every frame";
}

TEST_F(StreamCopy, ARefusedSourceCostsNoSlot) {
  Publisher publisher = open_publisher({.slot_count = 2});
  publish(publisher, 1);
  device_.run();
  for (int i = 0; i < 3; ++i) {
    device_.fail("submit_once", Code::invalid_argument);
    EXPECT_TRUE(copy(publisher).failed_with(Code::invalid_argument));
  }
  EXPECT_TRUE(copy(publisher));
  device_.run();
}

TEST_F(StreamCopy, ACopyThatMayRunIsAbandonedBehindTheCopies) {
  Publisher publisher = open_publisher({.slot_count = 2});
  publish(publisher, 1);
  device_.run();
  device_.enqueue(test::FakeBackend::kCopyStream, [] {});
  device_.fail("submit_once");
  EXPECT_TRUE(copy(publisher).failed_with(Code::driver));
  EXPECT_TRUE(copy(publisher).failed_with(Code::full));
  device_.run();
  EXPECT_TRUE(copy(publisher));
  device_.run();
}

TEST_F(StreamCopy, AlsoIfTheDriverHasAnotherCodeForIt) {
  Publisher publisher = open_publisher({.slot_count = 2});
  publish(publisher, 1);
  device_.run();
  device_.enqueue(test::FakeBackend::kCopyStream, [] {});
  device_.fail("submit_once", Code::out_of_memory);
  EXPECT_TRUE(copy(publisher).failed_with(Code::out_of_memory));
  EXPECT_TRUE(copy(publisher).failed_with(Code::full)) << "the slot waits for what may run";
  device_.run();
  EXPECT_TRUE(copy(publisher));
  device_.run();
}

TEST_F(StreamCopy, ChecksWhatGoesWithIt) {
  Publisher publisher = open_publisher();
  const std::vector<std::byte> user_data(257);
  const auto refused =
      publisher.try_publish_copy(source_, device_.stream(kRender), {.user_data = user_data});
  EXPECT_TRUE(refused.failed_with(Code::invalid_argument));
  EXPECT_EQ(device_.calls("submit_once"), 0);
  device_.run();
}

// The end

TEST_F(StreamPublish, ThePublishersEndDoesNotAbortFramesUnderWay) {
  std::optional<Publisher> publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(*publisher, 7);
  const Frame frame = subscriber.try_receive(device_.stream(kRead), test::soon()).value();
  const auto number = read(frame);
  publisher.reset();
  drain_janitor();
  drain_reactor();
  EXPECT_FALSE(frame.aborted());
  device_.run();
  EXPECT_EQ(*number, 7U);
  test::wait_until([&] { return !subscriber.try_receive().failed_with(Code::empty); });
  EXPECT_FALSE(frame.aborted());
}

TEST_F(StreamPublish, ADeviceThatFailsEndsTheChannel) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  const Receipt receipt = publish(publisher, 1);
  const Frame frame = subscriber.try_receive(device_.stream(kRead), test::soon()).value();
  EXPECT_EQ(device_.calls("check_health"), 0);
  device_.break_down();
  const Result<Frame> end = subscriber.receive(test::soon());
  EXPECT_FALSE(end);
  test::wait_until([&] { return publisher.try_claim(test::kNow).failed_with(Code::driver); });
  EXPECT_FALSE(receipt.ready());
  EXPECT_TRUE(publisher.close(test::soon()));
  test::wait_until([&] { return frame.aborted(); });
}

TEST_F(StreamPublish, AWaitForAFrameEndsWithTheDevice) {
  Publisher publisher = open_publisher();
  const Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(1)});
  const Receipt receipt = publish(publisher, 1);
  device_.break_down();
  EXPECT_TRUE(receipt.wait(kForever).failed_with(Code::driver));
  // Its queue was not served; or the reader heard of the failure first, and left.
  const Result<void> closed = publisher.close(kForever);
  EXPECT_TRUE(closed || closed.failed_with(Code::driver));
  EXPECT_TRUE(publisher.wait_for_subscribers(1, test::soon()).failed_with(Code::driver));
}

TEST_F(StreamPublish, ADeviceThatRefusesEverythingEndsTheChannel) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.stream_order = false});
  WritableFrame frame = publisher.try_claim(device_.stream(kRender)).value();
  device_.break_down();
  device_.fail("signal", Code::driver, 3);  // READY, and then its abandonment, twice
  EXPECT_TRUE(
      publisher.publish(std::move(frame), device_.stream(kRender)).failed_with(Code::driver));
  test::wait_until([&] { return publisher.try_claim(test::kNow).failed_with(Code::driver); });
  EXPECT_TRUE(subscriber.receive(test::soon()).failed_with(Code::peer_gone));
}

TEST_F(StreamPublish, ATakenNameCostsNoMemory) {
  const Publisher first = open_publisher();
  const int allocations = device_.calls("allocate");
  const auto second =
      Publisher::open(runtime_, kName, first.format(), {.device = test::fake_device()});
  ASSERT_TRUE(second.failed_with(Code::already_exists));
  EXPECT_EQ(device_.calls("allocate"), allocations);
}

TEST_F(StreamPublish, WithoutMemoryTheNameIsFreeAgain) {
  device_.fail("allocate", Code::out_of_memory);
  const Format format = Format::tensor(DType::uint8, {kBytes}).value();
  const PublisherOptions options{.device = test::fake_device()};
  EXPECT_TRUE(Publisher::open(runtime_, kName, format, options).failed_with(Code::out_of_memory));
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(Publisher::open(runtime_, kName, format, options));
}

TEST_F(StreamPublish, AnEndedPublisherHasNoSubscribers) {
  Publisher publisher = open_publisher();
  const Subscriber subscriber = open_subscriber();
  ASSERT_TRUE(publisher.wait_for_subscribers(1, test::soon()));
  EXPECT_EQ(publisher.statistics().subscribers.size(), 1U);
  ASSERT_TRUE(publisher.close(test::soon()));
  EXPECT_TRUE(publisher.wait_for_subscribers(1, test::soon()).failed_with(Code::closed));
  EXPECT_TRUE(publisher.statistics().subscribers.empty());
  EXPECT_EQ(publisher.statistics().subscribers_ever, 1U);
}

TEST_F(StreamPublish, WorkThatTakesLongIsNoFailure) {
  Publisher publisher = open_publisher();
  publish(publisher, 1);
  test::wait_until([&] { return device_.calls("check_health") >= 2; });
  EXPECT_TRUE(publisher.try_claim(test::kNow));
  device_.run();
}

TEST_F(StreamPublish, PagesAreParkedUntilTheChannelEnds) {
  const int before = device_.registered_pages();
  {
    Publisher publisher = open_publisher();
    for (int i = 0; i < 3; ++i) {
      { const Subscriber visitor = open_subscriber(); }
      test::wait_until([&] { return publisher.statistics().subscribers.empty(); });
    }
    // READY's and those of three; what the visitors registered themselves goes with them.
    test::wait_until([&] { return device_.registered_pages() == before + 1 + 3; });
  }
  test::wait_until([&] { return device_.registered_pages() == before; });
}

// Sealing

TEST_F(StreamPublish, APageThatCannotBeRegisteredRefusesTheSubscriber) {
  Publisher publisher = open_publisher();
  device_.fail("register_words");
  const auto refused = Subscriber::open(runtime_, kName, test::soon());
  ASSERT_TRUE(refused.failed_with(Code::driver)) << to_string(refused.error());
  EXPECT_TRUE(publisher.statistics().subscribers.empty());
  publish(publisher, 1);
  EXPECT_EQ(last_batch().writes.size(), 1U);
  device_.run();
  EXPECT_TRUE(Subscriber::open(runtime_, kName, test::soon()));
}

TEST_F(StreamPublish, WhatIsWrongWithItsOwnStateIsNoWrongStateOfTheSubscriber) {
  const Publisher publisher = open_publisher();
  device_.fail("register_words", Code::wrong_state);
  const auto refused = Subscriber::open(runtime_, kName, test::soon());
  EXPECT_TRUE(refused.failed_with(Code::driver)) << to_string(refused.error());
}

TEST_F(StreamPublish, PagesOfPeersThatComeAndGoAreNotKeptWithoutEnd) {
  constexpr std::size_t kCount = 3 * channel::Parking::kPagesMax;
  const os::SharedSegment segment = os::SharedSegment::create("pages", kCount * 4096).value();
  const os::Mapping pages = segment.map(os::Access::read_write).value();
  const int before = device_.registered_pages();
  channel::Parking parking(process().janitor());
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::span<std::byte> page(pages.data() + i * 4096, 4096);
    parking.keep({{}, {std::shared_ptr(device_.register_words(page).value())}});
  }
  drain_janitor();
  EXPECT_LE(parking.size(), channel::Parking::kPagesMax);
  EXPECT_GE(parking.size(), channel::Parking::kPagesMax / 2);
  EXPECT_EQ(device_.registered_pages(), before + static_cast<int>(parking.size()))
      << "the others are unregistered";
}

#if VRAMLINK_STEPS

TEST_F(StreamPublish, WhoHangsUpWhileItsPageIsRegisteredIsNeverAMember) {
  Publisher publisher = open_publisher();
  wire::Hello hello = test::honest_hello(kName);
  hello.flags |= wire::kHelloStreamOrder;
  test::RawPeer peer(directory_.path(), kName);
  ASSERT_TRUE(peer.send(hello));
  const auto offered = peer.next();
  ASSERT_TRUE(offered);
  const auto offer = offered->as<wire::Offer>().value();
  const os::SharedSegment segment =
      os::SharedSegment::adopt(os::duplicate(offered->fds.at(1).get()).value(), offer.private_bytes,
                               offer.private_bytes, 0)
          .value();
  const os::Mapping mapping = segment.map(os::Access::read_write).value();
  const int before = device_.registered_pages();
  std::promise<void> registered;
  std::promise<void> gone;
  const test::StepActions steps("attach.page_registered", [&] {
    registered.set_value();
    gone.get_future().wait();
  });
  ASSERT_TRUE(peer.send(wire::Mapped{{}, offer.generation}));
  registered.get_future().wait();
  EXPECT_EQ(device_.registered_pages(), before + 1);
  peer.hang_up();
  drain_reactor();
  gone.set_value();
  drain_janitor();
  drain_reactor();
  EXPECT_EQ(publisher.statistics().subscribers_ever, 0U);
  EXPECT_EQ(device_.registered_pages(), before + 1) << "it is parked, not unregistered";
  const Subscriber next = open_subscriber();
  publish(publisher, 1);
  EXPECT_EQ(last_batch().writes.size(), 2U);
  device_.run();
}

#endif

}  // namespace
}  // namespace vramlink
