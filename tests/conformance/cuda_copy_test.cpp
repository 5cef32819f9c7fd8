// Copies of the CUDA back end: what may be copied, copies that are under way while things are
// destroyed, and a GPU that faulted.
#include <chrono>

#include "conformance/cuda_fixture.hpp"
#include "support/stand_in.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

class CudaCopy : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    if (!backend_) return;
    page_.emplace(*backend_);
    target_ = backend_->allocate(kBytes).value();
    queue_ = backend_->make_copy_queue().value();
    prepared_ = prepare();
  }
  std::unique_ptr<backend::SlotCopy> prepare() {
    const backend::WordRef word = page_->ref(0);
    return queue_->prepare(target_->data(), kBytes, {&word, 1}).value();
  }
  Result<void> submit(StreamView stream, const std::byte* source) {
    const std::uint64_t value = ++ready_;
    return queue_->submit(*prepared_, stream, source, {&value, 1});
  }
  void see_ready() const { page_->see(0, ready_); }
  std::vector<std::byte> target() { return raw().read(target_->data(), kBytes); }

  std::optional<WordPage> page_;
  std::unique_ptr<backend::Memory> target_;
  std::unique_ptr<backend::CopyQueue> queue_;
  std::unique_ptr<backend::SlotCopy> prepared_;
  std::uint64_t ready_ = 0;
};

TEST_F(CudaCopy, WaitsForTheSourcesStream) {
  const auto source = filled(1);
  const StreamView stream = raw().stream();
  for (std::uint64_t round = 1; round <= 10; ++round) {
    ASSERT_TRUE(backend_->wait(stream, page_->ref(8), round));
    raw().expect(raw().driver().memset_d8_async(device_pointer(source->data()),
                                                static_cast<unsigned char>(round), kBytes,
                                                raw_stream(stream)));
    ASSERT_TRUE(submit(stream, source->data()));
    EXPECT_EQ((*page_)[0].load(), ready_ - 1);
    (*page_)[8].store(round, std::memory_order_release);
    see_ready();
    EXPECT_EQ(target(), bytes_of(static_cast<int>(round)));
  }
}

TEST_F(CudaCopy, ACompleteSourceWaitsForNoStream) {
  const auto source = filled(1);
  const StreamView stream = raw().stream();
  ASSERT_TRUE(submit(stream, source->data()));
  see_ready();
  // What the last source's stream does now is no concern of the next copy.
  ASSERT_TRUE(backend_->wait(stream, page_->ref(8), 1));
  raw().write(source->data(), bytes_of(2));
  ASSERT_TRUE(submit(StreamView::already_complete(), source->data()));
  see_ready();
  EXPECT_EQ(target(), bytes_of(2));
  (*page_)[8].store(1, std::memory_order_release);
  raw().finish(stream);
}

TEST_F(CudaCopy, SourcesOfEveryKindTakeTurns) {
  const auto exported = filled(1);
  std::byte* allocated = raw().allocate(kBytes);
  raw().write(allocated, bytes_of(2));
  void* pinned = nullptr;
  raw().expect(raw().mem_host_alloc(&pinned, kBytes, 0));
  auto* const pinned_bytes = static_cast<std::byte*>(pinned);
  std::fill_n(pinned_bytes, kBytes, std::byte{3});
  std::vector<std::byte> pageable = bytes_of(4);
  const StreamView stream = raw().stream();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(submit(stream, exported->data()));
    see_ready();
    EXPECT_EQ(target(), bytes_of(1));
    ASSERT_TRUE(submit(stream, allocated));
    see_ready();
    EXPECT_EQ(target(), bytes_of(2));
    ASSERT_TRUE(submit(stream, pinned_bytes));
    see_ready();
    EXPECT_EQ(target(), bytes_of(3));
    ASSERT_TRUE(submit(StreamView::already_complete(), pageable.data()));
    see_ready();
    EXPECT_EQ(target(), bytes_of(4));
    const backend::WordWrite write{page_->ref(0), ++ready_};
    const StreamView complete = StreamView::already_complete();
    ASSERT_TRUE(queue_->submit_once(stream, target_->data(), pinned_bytes, kBytes, {&write, 1}));
    see_ready();
    EXPECT_EQ(target(), bytes_of(3));
    const backend::WordWrite next{page_->ref(0), ++ready_};
    ASSERT_TRUE(
        queue_->submit_once(complete, target_->data(), pageable.data(), kBytes, {&next, 1}));
    see_ready();
    EXPECT_EQ(target(), bytes_of(4));
  }
  raw().expect(raw().mem_free_host(pinned));
  raw().free(allocated);
}

TEST_F(CudaCopy, OrdinaryHostBytesAreTakenDuringTheCall) {
  const auto source = filled(1);
  const StreamView stream = raw().stream();
  // Our queue stands still behind this one.
  ASSERT_TRUE(backend_->wait(stream, page_->ref(8), 1));
  ASSERT_TRUE(submit(stream, source->data()));
  std::vector<std::byte> pageable = bytes_of(7);
  const auto second = backend_->allocate(kBytes).value();
  const backend::WordWrite write{page_->ref(1), 1};
  ASSERT_TRUE(queue_->submit_once(StreamView::already_complete(), second->data(), pageable.data(),
                                  kBytes, {&write, 1}));
  std::fill(pageable.begin(), pageable.end(), std::byte{0});
  EXPECT_EQ((*page_)[1].load(), 0U);
  (*page_)[8].store(1, std::memory_order_release);
  page_->see(1, 1);
  EXPECT_EQ(raw().read(second->data(), kBytes), bytes_of(7));
}

TEST_F(CudaCopy, WhatCannotBeCopiedIsNamed) {
  const StreamView stream = raw().stream();
  const auto refuses = [&](const std::byte* source, const char* words) {
    EXPECT_TRUE(refused(submit(stream, source), Code::invalid_argument, words));
    EXPECT_TRUE(refused(backend_->copy(stream, target_->data(), source, kBytes),
                        Code::invalid_argument, words));
    const backend::WordWrite write{page_->ref(0), 99};
    EXPECT_TRUE(refused(queue_->submit_once(stream, target_->data(), source, kBytes, {&write, 1}),
                        Code::invalid_argument, words));
    EXPECT_EQ((*page_)[0].load(), 0U);
  };
  const std::vector<std::byte> pageable = bytes_of(1);
  refuses(pageable.data(), "host memory that the driver does not know");
  std::byte* freed = raw().allocate(kBytes);
  raw().free(freed);
  refuses(freed, "it was freed");
  refuses(nullptr, "nothing is there");
  cuda_api::DevicePointer managed = 0;
  raw().expect(raw().mem_alloc_managed(&managed, kBytes, cuda_api::kManagedGlobal));
  refuses(reinterpret_cast<const std::byte*>(managed), "managed memory");
  raw().expect(raw().mem_free(managed));
  std::byte* small = raw().allocate(kBytes / 2);
  refuses(small, "the memory ends after 4096 of 8192 bytes");
  raw().free(small);
  EXPECT_TRUE(backend_->check_health());
}

TEST_F(CudaCopy, ASourceThatWasFreedBetweenTwoCopiesIsNamed) {
  std::byte* source = raw().allocate(kBytes);
  const StreamView stream = raw().stream();
  ASSERT_TRUE(submit(stream, source));
  see_ready();
  raw().free(source);
  EXPECT_TRUE(refused(submit(stream, source), Code::invalid_argument, "it was freed"));
  auto exported = filled(3);
  const std::byte* address = exported->data();
  --ready_;
  ASSERT_TRUE(submit(stream, address));
  see_ready();
  exported.reset();
  EXPECT_TRUE(refused(submit(stream, address), Code::invalid_argument, "it was freed"));
  EXPECT_TRUE(backend_->check_health());
}

TEST_F(CudaCopy, DownloadsAndUploadsForACallerThatWaits) {
  const auto memory = filled(5);
  std::vector<std::byte> host(kBytes);
  const StreamView complete = StreamView::already_complete();
  ASSERT_TRUE(backend_->copy(complete, host.data(), memory->data(), kBytes));
  EXPECT_EQ(host, bytes_of(5));
  host = bytes_of(6);
  ASSERT_TRUE(backend_->copy(complete, memory->data(), host.data(), kBytes));
  host = bytes_of(0);
  ASSERT_TRUE(backend_->copy(complete, host.data(), memory->data(), kBytes));
  EXPECT_EQ(host, bytes_of(6));
  EXPECT_TRUE(refused(backend_->copy(raw().stream(), host.data(), memory->data(), kBytes),
                      Code::invalid_argument, "host memory that the driver does not know"));
}

TEST_F(CudaCopy, DownloadsIntoRegisteredPagesByAStream) {
  const auto memory = filled(5);
  const os::Mapping pages =
      os::SharedSegment::create("host", kBytes).value().map(os::Access::read_write).value();
  const auto registered = backend_->register_words({pages.data(), pages.size_bytes()}).value();
  const StreamView stream = raw().stream();
  ASSERT_TRUE(backend_->copy(stream, pages.data(), memory->data(), kBytes));
  raw().finish(stream);
  EXPECT_EQ(std::vector<std::byte>(pages.data(), pages.data() + kBytes), bytes_of(5));
}

TEST_F(CudaCopy, CopiesWithoutWords) {
  const auto source = filled(4);
  const auto copy = queue_->prepare(target_->data(), kBytes, {}).value();
  ASSERT_TRUE(queue_->submit(*copy, raw().stream(), source->data(), {}));
  ASSERT_TRUE(submit(raw().stream(), source->data()));  // behind it
  see_ready();
  EXPECT_EQ(target(), bytes_of(4));
}

TEST_F(CudaCopy, SeveralThreadsSubmitToOneQueue) {
  constexpr std::uint64_t kRounds = 200;
  const auto source = filled(9);
  const StreamView stream = raw().stream();
  const auto run = [&](std::uint32_t word) {
    const auto target = backend_->allocate(kBytes).value();
    const backend::WordRef ref = page_->ref(word);
    const auto copy = queue_->prepare(target->data(), kBytes, {&ref, 1}).value();
    for (std::uint64_t value = 1; value <= kRounds; ++value) {
      ASSERT_TRUE(queue_->submit(*copy, stream, source->data(), {&value, 1}));
    }
    page_->see(word, kRounds);
  };
  std::thread first(run, 8);
  std::thread second(run, 16);
  first.join();
  second.join();
}

TEST_F(CudaCopy, DestroyedUnderARunningCopyNothingIsFreedTooEarly) {
  auto source = filled(1);
  const StreamView stream = raw().stream();
  ASSERT_TRUE(backend_->wait(stream, page_->ref(8), 1));
  ASSERT_TRUE(submit(stream, source->data()));
  // None of these waits: our queue is held by a stream of the program.
  prepared_.reset();
  queue_.reset();
  target_.reset();
  source.reset();
  EXPECT_EQ((*page_)[0].load(), 0U);
  (*page_)[8].store(1, std::memory_order_release);
  see_ready();
  raw().finish(stream);
  EXPECT_TRUE(backend_->check_health());
  // A later call frees what was kept, once the queue's stream is done with it.
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  raw().expect(raw().driver().mem_get_info(&before, &total));
  while (after <= before) {
    static_cast<void>(backend_->allocate(kBytes).value());
    raw().expect(raw().driver().mem_get_info(&after, &total));
  }
}

TEST_F(CudaCopy, ABackEndThatEndsWaitsForItsOwnCopies) {
  auto source = filled(1);
  const StreamView stream = raw().stream();
  ASSERT_TRUE(backend_->wait(stream, page_->ref(8), 1));
  ASSERT_TRUE(submit(stream, source->data()));
  std::thread releaser([&] { (*page_)[8].store(1, std::memory_order_release); });
  prepared_.reset();
  queue_.reset();
  target_.reset();
  source.reset();
  releaser.join();
  see_ready();
  page_.reset();
  backend_.reset();
  raw().finish(stream);
}

TEST_F(CudaCopy, StagedPagesStayForTheNextQueue) {
  const StreamView stream = raw().stream();
  const StreamView complete = StreamView::already_complete();
  ASSERT_TRUE(submit(complete, bytes_of(1).data()));
  see_ready();
  // To unregister them would stop here, and every submission of the process behind it.
  ASSERT_TRUE(backend_->wait(stream, page_->ref(8), 1));
  for (int first = 2; first <= 4; ++first) {
    prepared_.reset();
    queue_.reset();
    queue_ = backend_->make_copy_queue().value();
    prepared_ = prepare();
    ASSERT_TRUE(submit(complete, bytes_of(first).data()));
    see_ready();
    EXPECT_EQ(target(), bytes_of(first));
  }
  (*page_)[8].store(1, std::memory_order_release);
  raw().finish(stream);
}

TEST_F(CudaCopy, FewStagedPagesAreKept) {
  if (stand_in() == nullptr) GTEST_SKIP() << "only the stand-in driver counts its calls";
  // A megabyte more with every queue: no pages fit the next one.
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  constexpr std::uint64_t kQueues = 6;
  const auto large = backend_->allocate(65 * kMiB).value();
  const std::vector<std::byte> source(65 * kMiB);
  const DriverCalls before = driver_calls();
  for (std::uint64_t number = 0; number < kQueues; ++number) {
    const backend::WordWrite write{page_->ref(0), ++ready_};
    prepared_.reset();
    queue_ = backend_->make_copy_queue().value();
    ASSERT_TRUE(queue_->submit_once(StreamView::already_complete(), large->data(), source.data(),
                                    (60 + number) * kMiB, {&write, 1}));
    see_ready();
  }
  queue_.reset();
  DriverCalls calls = driver_calls_since(before);
  EXPECT_EQ(calls["cuMemHostRegister"], kQueues);
  // The newest are kept, 65 to 62 MiB: one more would be beyond 256.
  EXPECT_EQ(calls["cuMemHostUnregister"], kQueues - 4);
}

/// A fault ends the driver's work for the whole process.
class CudaFault : public CudaCopy {
 protected:
  void SetUp() override {
    if (::testing::UnitTest::GetInstance()->test_to_run_count() > 1) {
      GTEST_SKIP() << "a fault spoils the other tests of this process: run it alone, as ctest does";
    }
    CudaCopy::SetUp();
  }
};

TEST_F(CudaFault, IsFoundByTheHealthQueryAlone) {
  const auto source = filled(1);
  const StreamView stream = raw().stream();
  EXPECT_TRUE(backend_->check_health());
  // A program that unmaps memory under its own work.
  std::byte* mapped = nullptr;
  auto victim = backend_->allocate(kBytes).value();
  mapped = victim->data();
  ASSERT_TRUE(backend_->wait(stream, page_->ref(8), 1));
  raw().expect(
      raw().driver().memset_d8_async(device_pointer(mapped), 1, kBytes, raw_stream(stream)));
  victim.reset();
  (*page_)[8].store(1, std::memory_order_release);
  Result<void> health;
  while (health) health = backend_->check_health();
  EXPECT_TRUE(health.failed_with(Code::driver));
  EXPECT_EQ(health.error().origin(), Origin::driver);
  EXPECT_NE(to_string(health.error()).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos)
      << to_string(health.error());
}

}  // namespace
}  // namespace vramlink::test
