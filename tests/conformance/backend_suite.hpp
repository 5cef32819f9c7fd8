// What every back end promises (backend/backend.hpp), as one suite. A back end instantiates it with
// a type that says how to make one and how to look at its memory; see host_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "os/shared_segment.hpp"
#include "os/socket.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink::test {

/// UnderTest has:
///   prepare()         what is to exist before leaks are counted
///   create()          a unique_ptr<backend::Backend>; null where there is none
///   require()         then skips the test, or fails it, and says why
///   kUnitBytes        memory comes in multiples of it; sizes within one are the same
///   stream()          a stream of its device, or already_complete()
///   finish(stream)    waits for its work
///   foreign_stream()  one that signal, copy and order must refuse, or nothing
///   fill(target, bytes) and read(source, size): device memory by the CPU
template <class UnderTest>
class BackendSuite : public LeakCheck {
 public:
  static void SetUpTestSuite() { UnderTest::prepare(); }

 protected:
  static constexpr std::uint64_t kBytes = 8192;

  void SetUp() override {
    if (!backend_) UnderTest::require();
  }

  static std::vector<std::byte> bytes_of(std::uint8_t first) {
    std::vector<std::byte> bytes(kBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(first + 7 * i);
    return bytes;
  }
  static std::vector<std::byte> read(const std::byte* source) {
    return UnderTest::read(source, kBytes);
  }
  Result<std::unique_ptr<backend::ImportedMemory>> import(
      const backend::Memory& memory, std::uint64_t size_bytes = kBytes,
      os::Access access = os::Access::read_only) {
    return backend_->import_memory(memory.export_memory().value(), size_bytes, access);
  }

  std::unique_ptr<backend::Backend> backend_ = UnderTest::create();
};

TYPED_TEST_SUITE_P(BackendSuite);

TYPED_TEST_P(BackendSuite, AllocatesZeroedAlignedMemory) {
  const auto memory = this->backend_->allocate(this->kBytes).value();
  EXPECT_EQ(memory->size_bytes(), this->kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096, 0U);
  EXPECT_EQ(this->read(memory->data()), std::vector<std::byte>(this->kBytes));
}

TYPED_TEST_P(BackendSuite, RefusesSizesThatCannotBe) {
  EXPECT_TRUE(this->backend_->allocate(0).failed_with(Code::invalid_argument));
  EXPECT_TRUE(this->backend_->allocate(std::uint64_t{1} << 62).failed_with(Code::out_of_memory));
}

TYPED_TEST_P(BackendSuite, AnImportSeesWhatTheOwnerWrites) {
  const auto memory = this->backend_->allocate(this->kBytes).value();
  const auto first = this->import(*memory).value();
  const auto second = this->import(*memory).value();
  EXPECT_EQ(first->size_bytes(), this->kBytes);
  const auto bytes = this->bytes_of(3);
  TypeParam::fill(memory->data(), bytes);
  EXPECT_EQ(this->read(first->data()), bytes);
  EXPECT_EQ(this->read(second->data()), bytes);
}

TYPED_TEST_P(BackendSuite, AnImportOutlivesItsOwner) {
  auto memory = this->backend_->allocate(this->kBytes).value();
  const auto bytes = this->bytes_of(5);
  TypeParam::fill(memory->data(), bytes);
  const auto imported = this->import(*memory).value();
  memory.reset();
  EXPECT_EQ(this->read(imported->data()), bytes);
}

TYPED_TEST_P(BackendSuite, AnotherSizeIsCorrupt) {
  const auto memory = this->backend_->allocate(this->kBytes).value();
  constexpr std::uint64_t kWhole = TypeParam::kUnitBytes;
  const std::uint64_t whole = (this->kBytes + kWhole - 1) / kWhole * kWhole;
  for (const std::uint64_t size :
       {std::uint64_t{0}, whole - kWhole, whole + 1, 2 * whole, std::uint64_t{1} << 62}) {
    EXPECT_TRUE(this->import(*memory, size).failed_with(Code::corrupt)) << size;
  }
  const auto larger = this->backend_->allocate(2 * whole).value();
  EXPECT_TRUE(this->import(*larger, whole).failed_with(Code::corrupt));
}

TYPED_TEST_P(BackendSuite, CopiesAfterTheWorkInTheStream) {
  const auto source = this->backend_->allocate(this->kBytes).value();
  const auto target = this->backend_->allocate(this->kBytes).value();
  const auto bytes = this->bytes_of(11);
  TypeParam::fill(source->data(), bytes);
  const StreamView stream = TypeParam::stream();
  ASSERT_TRUE(this->backend_->copy(stream, target->data(), source->data(), this->kBytes));
  ASSERT_TRUE(this->backend_->copy(stream, source->data(), target->data() + 1, this->kBytes / 2));
  TypeParam::finish(stream);
  EXPECT_EQ(this->read(target->data()), bytes);
  const auto shifted = this->read(source->data());
  EXPECT_TRUE(std::equal(shifted.begin(), shifted.begin() + this->kBytes / 2, bytes.begin() + 1));
}

TYPED_TEST_P(BackendSuite, SignalsInOrderAfterTheWorkInTheStream) {
  const os::SharedSegment segment = os::SharedSegment::create("words", 4096).value();
  const os::Mapping page = segment.map(os::Access::read_write).value();
  const auto registered = this->backend_->register_words({page.data(), page.size_bytes()}).value();
  const std::span<std::atomic<std::uint64_t>> words = registered->words();
  ASSERT_EQ(words.size(), 512U);
  const StreamView stream = TypeParam::stream();
  std::thread observer([words] {
    // The last word of a batch is never ahead of the ones before it.
    std::uint64_t last = 0;
    while (last < 200) {
      last = words[63].load(std::memory_order_acquire);
      EXPECT_GE(words[0].load(std::memory_order_acquire), last);
      EXPECT_GE(words[8].load(std::memory_order_acquire), last);
    }
  });
  for (std::uint64_t value = 1; value <= 200; ++value) {
    const std::array<backend::WordWrite, 3> writes{{{{registered.get(), 0}, value},
                                                    {{registered.get(), 8}, value},
                                                    {{registered.get(), 63}, value}}};
    ASSERT_TRUE(this->backend_->signal(stream, writes));
  }
  TypeParam::finish(stream);
  observer.join();
  EXPECT_EQ(words[1].load(), 0U);
  ASSERT_TRUE(this->backend_->signal(stream, {}));
}

TYPED_TEST_P(BackendSuite, OrdersStreams) {
  EXPECT_TRUE(this->backend_->order(TypeParam::stream(), TypeParam::stream()));
  EXPECT_TRUE(this->backend_->order(StreamView::already_complete(), TypeParam::stream()));
}

TYPED_TEST_P(BackendSuite, RefusesStreamsOfAnotherDevice) {
  const std::optional<StreamView> foreign = TypeParam::foreign_stream();
  if (!foreign) GTEST_SKIP() << "every stream here belongs to the device";
  const auto memory = this->backend_->allocate(this->kBytes).value();
  const os::SharedSegment segment = os::SharedSegment::create("words", 4096).value();
  const os::Mapping page = segment.map(os::Access::read_write).value();
  const auto registered = this->backend_->register_words({page.data(), page.size_bytes()}).value();
  const backend::WordWrite write{{registered.get(), 0}, 1};
  EXPECT_TRUE(this->backend_->check_stream(*foreign).failed_with(Code::wrong_state));
  EXPECT_TRUE(this->backend_->signal(*foreign, {&write, 1}).failed_with(Code::wrong_state));
  EXPECT_TRUE(this->backend_->wait(*foreign, write.word, 0).failed_with(Code::wrong_state));
  EXPECT_EQ(registered->words()[0].load(), 0U);
  EXPECT_TRUE(this->backend_->copy(*foreign, memory->data(), memory->data() + 4096, 4096)
                  .failed_with(Code::wrong_state));
  EXPECT_TRUE(this->backend_->order(*foreign, TypeParam::stream()).failed_with(Code::wrong_state));
  EXPECT_TRUE(this->backend_->order(TypeParam::stream(), *foreign).failed_with(Code::wrong_state));
}

TYPED_TEST_P(BackendSuite, SaysWhatItIs) {
  EXPECT_EQ(this->backend_->device(), TypeParam::create()->device());
  const backend::Capabilities& abilities = this->backend_->capabilities();
  EXPECT_EQ(abilities.memory_kind == wire::MemoryKind::memfd, this->backend_->device().is_host());
  EXPECT_EQ(abilities.streams, !TypeParam::stream().is_already_complete());
}

TYPED_TEST_P(BackendSuite, RefusesToWaitWithoutAStream) {
  const os::SharedSegment segment = os::SharedSegment::create("words", 4096).value();
  const os::Mapping page = segment.map(os::Access::read_write).value();
  const auto registered = this->backend_->register_words({page.data(), page.size_bytes()}).value();
  EXPECT_TRUE(this->backend_->wait(StreamView::already_complete(), {registered.get(), 0}, 0)
                  .failed_with(Code::wrong_state));
}

TYPED_TEST_P(BackendSuite, CopiesAndSignalsAsOneSubmission) {
  const auto first = this->backend_->allocate(this->kBytes).value();
  const auto second = this->backend_->allocate(this->kBytes).value();
  const auto target = this->backend_->allocate(this->kBytes).value();
  TypeParam::fill(first->data(), this->bytes_of(3));
  TypeParam::fill(second->data(), this->bytes_of(5));
  const os::SharedSegment segment = os::SharedSegment::create("words", 4096).value();
  const os::Mapping page = segment.map(os::Access::read_write).value();
  const auto registered = this->backend_->register_words({page.data(), page.size_bytes()}).value();
  const auto seen = [&](std::uint32_t index, std::uint64_t value) {
    while (registered->words()[index].load(std::memory_order_acquire) != value) {
      std::this_thread::yield();
    }
  };
  const auto queue = this->backend_->make_copy_queue().value();
  const std::array<backend::WordRef, 2> words{{{registered.get(), 1}, {registered.get(), 0}}};
  const auto copy = queue->prepare(target->data(), this->kBytes, words).value();
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const bool odd = round % 2 != 0;
    const std::array values{round, round};
    ASSERT_TRUE(queue->submit(*copy, TypeParam::stream(), (odd ? first : second)->data(), values));
    seen(0, round);
    EXPECT_EQ(registered->words()[1].load(), round);
    EXPECT_EQ(this->read(target->data()), this->bytes_of(odd ? 3 : 5));
  }
  const backend::WordWrite write{words[1], 99};
  ASSERT_TRUE(queue->submit_once(TypeParam::stream(), target->data(), first->data(), this->kBytes,
                                 {&write, 1}));
  seen(0, 99);
  EXPECT_EQ(this->read(target->data()), this->bytes_of(3));
}

TYPED_TEST_P(BackendSuite, AQueuesStreamTakesCopiesToHostMemory) {
  const auto memory = this->backend_->allocate(this->kBytes).value();
  const os::SharedSegment segment = os::SharedSegment::create("host", 4096 + this->kBytes).value();
  const os::Mapping pages = segment.map(os::Access::read_write).value();
  const auto registered =
      this->backend_->register_words({pages.data(), pages.size_bytes()}).value();
  const auto queue = this->backend_->make_copy_queue().value();
  std::byte* const host = pages.data() + 4096;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::vector<std::byte> bytes = this->bytes_of(static_cast<std::uint8_t>(round));
    TypeParam::fill(memory->data(), bytes);
    const backend::WordWrite done{{registered.get(), 8}, round};
    ASSERT_TRUE(this->backend_->check_stream(queue->stream()));
    ASSERT_TRUE(this->backend_->order(TypeParam::stream(), queue->stream()));
    ASSERT_TRUE(this->backend_->copy(queue->stream(), host, memory->data(), this->kBytes));
    ASSERT_TRUE(this->backend_->signal(queue->stream(), {&done, 1}));
    // Pairs with the store behind the copy.
    while (registered->words()[8].load(std::memory_order_acquire) != round) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), host)) << round;
  }
}

TYPED_TEST_P(BackendSuite, IsHealthy) { EXPECT_TRUE(this->backend_->check_health()); }

REGISTER_TYPED_TEST_SUITE_P(BackendSuite, AQueuesStreamTakesCopiesToHostMemory,
                            AllocatesZeroedAlignedMemory, RefusesSizesThatCannotBe,
                            AnImportSeesWhatTheOwnerWrites, AnImportOutlivesItsOwner,
                            AnotherSizeIsCorrupt, CopiesAfterTheWorkInTheStream,
                            SignalsInOrderAfterTheWorkInTheStream, OrdersStreams,
                            RefusesStreamsOfAnotherDevice, RefusesToWaitWithoutAStream,
                            CopiesAndSignalsAsOneSubmission, IsHealthy, SaysWhatItIs);

/// With a second process, which is forked before this one has started a driver: a forked child
/// cannot use what its parent started. So each test needs a process of its own, as ctest gives it.
template <class UnderTest>
class ForkingBackendSuite : public ::testing::Test {};

TYPED_TEST_SUITE_P(ForkingBackendSuite);

TYPED_TEST_P(ForkingBackendSuite, AnExportCrossesProcesses) {
  constexpr std::uint64_t kBytes = 8192;
  auto ends = os::Socket::pair().value();
  const std::vector<std::byte> bytes(kBytes, std::byte{9});
  ChildProcess child([&](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    std::array<std::byte, 1> message{};
    auto received = ends.second.receive(message).value();
    const auto backend = TypeParam::create();
    const auto imported =
        backend->import_memory(std::move(received.fds.at(0)), kBytes, os::Access::read_only)
            .value();
    EXPECT_EQ(TypeParam::read(imported->data(), kBytes), bytes);
    link.ready();
    // The exporter's memory is gone by now.
    static_cast<void>(link.wait_go());
    EXPECT_EQ(TypeParam::read(imported->data(), kBytes), bytes);
    return 0;
  });
  const auto backend = TypeParam::create();
  if (!backend) {
    child.kill();
    static_cast<void>(child.wait());
    return TypeParam::require();
  }
  auto memory = backend->allocate(kBytes).value();
  TypeParam::fill(memory->data(), bytes);
  const os::UniqueFd fd = memory->export_memory().value();
  const std::array<int, 1> fds{fd.get()};
  ASSERT_TRUE(ends.first.send(std::array{std::byte{1}}, fds));
  child.go();
  child.wait_ready();
  memory.reset();
  child.go();
  EXPECT_EQ(child.wait(), 0);
}

REGISTER_TYPED_TEST_SUITE_P(ForkingBackendSuite, AnExportCrossesProcesses);

}  // namespace vramlink::test
