// What only the CUDA back end promises: contexts and streams, protection, waits, registrations.
#include "conformance/cuda_fixture.hpp"
#include "os/fd.hpp"
#include "support/child_process.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

TEST(CudaListing, MakesNoContext) {
  const auto found = cuda::find_devices();
  if (!found) {
    EXPECT_FALSE(RawCuda::require());
    return;
  }
  const auto driver = cuda::Driver::load().value();
  const auto functions = cuda_api::TestFunctions::find();
  int count = 0;
  ASSERT_EQ(driver->device_get_count(&count), Status::success);
  ASSERT_EQ(found->devices.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(found->driver_version, static_cast<std::uint32_t>(driver->version()));
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int active = 1;
    ASSERT_EQ(functions.primary_ctx_get_state(device, &flags, &active), Status::success);
    // With the tests in one process an earlier one has made it.
    if (device == 0 && ::testing::UnitTest::GetInstance()->test_to_run_count() > 1) continue;
    EXPECT_EQ(active, 0) << device;
  }
  for (const DeviceInfo& info : found->devices) {
    EXPECT_FALSE(info.id.is_host());
    EXPECT_FALSE(info.name.empty());
    EXPECT_EQ(info.usable, info.why_not.empty());
    EXPECT_GT(info.gpu.memory_bytes, 0U);
    EXPECT_GE(info.gpu.compute_capability, 50U);
    EXPECT_EQ(info.gpu.pci_address.size(), std::string("0000:18:00.0").size());
  }
}

TEST_F(CudaBackend, LeavesTheCallersContextCurrent) {
  const auto other = raw().foreign_context();
  const WordPage page(*backend_);
  const backend::WordWrite write{page.ref(0), 1};
  const StreamView stream = raw().stream();
  for (const auto current : {other, raw().context(), cuda_api::Context{}}) {
    raw().expect(raw().ctx_set_current(current));
    const auto memory = backend_->allocate(kBytes).value();
    const auto imported =
        backend_->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only)
            .value();
    const auto queue = backend_->make_copy_queue().value();
    EXPECT_TRUE(backend_->signal(stream, {&write, 1}));
    EXPECT_TRUE(backend_->check_stream(stream));
    EXPECT_TRUE(backend_->check_health());
    EXPECT_FALSE(backend_->signal(raw().foreign_stream(), {&write, 1}));
    raw().expect(raw().ctx_set_current(current));
    EXPECT_FALSE(backend_->copy(stream, memory->data(), nullptr, kBytes));
    cuda_api::Context now = nullptr;
    raw().expect(raw().driver().ctx_get_current(&now));
    EXPECT_EQ(now, current);
  }
  raw().finish(stream);
}

TEST_F(CudaBackend, TakesTheDefaultStreamsOfThePrimaryContext) {
  const WordPage page(*backend_);
  std::uint64_t value = 0;
  for (const std::uintptr_t handle :
       {std::uintptr_t{0}, cuda_api::kStreamLegacy, cuda_api::kStreamPerThread}) {
    // Whatever is current in the caller's thread.
    raw().expect(raw().ctx_set_current(raw().foreign_context()));
    const StreamView stream = StreamView::cuda(reinterpret_cast<void*>(handle));
    const backend::WordWrite write{page.ref(0), ++value};
    ASSERT_TRUE(backend_->signal(stream, {&write, 1})) << handle;
    page.see(0, value);
  }
}

TEST_F(CudaBackend, ADestroyedStreamIsNamed) {
  if (!RawCuda::is_stand_in()) {
    GTEST_SKIP() << "NVIDIA's driver reads the memory of a stream that is gone, and may crash";
  }
  const StreamView stream = raw().stream();  // leaves the context current
  cuda_api::Stream gone = nullptr;
  raw().expect(raw().driver().stream_create(&gone, cuda_api::kStreamNonBlocking));
  raw().expect(raw().driver().stream_destroy(gone));
  EXPECT_TRUE(
      refused(backend_->check_stream(StreamView::cuda(gone)), Code::wrong_state, "not destroyed"));
  EXPECT_TRUE(backend_->check_stream(stream));
}

TEST_F(CudaBackend, AStreamOfAnotherContextIsNamed) {
  cuda_api::Context context = nullptr;
  cuda_api::Stream stream = nullptr;
  raw().expect(raw().ctx_create(&context, 0, raw().devices()[0]));
  raw().expect(raw().driver().stream_create(&stream, cuda_api::kStreamNonBlocking));
  EXPECT_TRUE(refused(backend_->check_stream(StreamView::cuda(stream)), Code::wrong_state,
                      "another context of this GPU"));
  raw().expect(raw().driver().stream_destroy(stream));
  raw().expect(raw().ctx_destroy(context));
}

TEST_F(CudaBackend, AStreamOfAnotherGpuIsNamed) {
  if (raw().devices().size() < 2) GTEST_SKIP() << "one GPU is visible, and this needs two";
  EXPECT_TRUE(refused(backend_->check_stream(raw().foreign_stream()), Code::wrong_state,
                      to_string(raw().id(1)).c_str()));
}

TEST_F(CudaBackend, AWaitEndsByTheCallersOwnStore) {
  const WordPage page(*backend_);
  const StreamView stream = raw().stream();
  ASSERT_TRUE(backend_->wait(stream, page.ref(3), 7));
  EXPECT_TRUE(raw().is_busy(stream));
  page[3].store(6, std::memory_order_release);
  EXPECT_TRUE(raw().is_busy(stream));
  page[3].store(7, std::memory_order_release);
  raw().finish(stream);
}

TEST_F(CudaBackend, AWaitEndsByAnotherStreamsSignal) {
  const WordPage page(*backend_);
  const StreamView waiting = raw().stream();
  ASSERT_TRUE(backend_->wait(waiting, page.ref(3), 7));
  const std::array<backend::WordWrite, 2> after{{{page.ref(4), 1}, {page.ref(5), 1}}};
  ASSERT_TRUE(backend_->signal(waiting, after));
  EXPECT_EQ(page[5].load(), 0U);
  const backend::WordWrite write{page.ref(3), 8};
  ASSERT_TRUE(backend_->signal(raw().other_stream(), {&write, 1}));
  page.see(5, 1);
  EXPECT_EQ(page[4].load(), 1U);
  raw().finish(waiting);
}

TEST_F(CudaBackend, OrdersOneStreamBehindAnother) {
  const WordPage page(*backend_);
  const StreamView earlier = raw().stream();
  const StreamView later = raw().other_stream();
  for (std::uint64_t round = 1; round <= 20; ++round) {
    ASSERT_TRUE(backend_->wait(earlier, page.ref(0), round));
    ASSERT_TRUE(backend_->order(earlier, later));
    const backend::WordWrite write{page.ref(8), round};
    ASSERT_TRUE(backend_->signal(later, {&write, 1}));
    EXPECT_EQ(page[8].load(), round - 1);
    page[0].store(round, std::memory_order_release);
    page.see(8, round);
  }
  raw().finish(later);
}

TEST_F(CudaBackend, SignalsMoreWordsThanOneBatchHolds) {
  const WordPage page(*backend_);
  std::vector<backend::WordWrite> writes;
  for (std::uint32_t i = 0; i < 100; ++i) writes.push_back({page.ref(i), i + 1});
  ASSERT_TRUE(backend_->signal(raw().stream(), writes));
  page.see(99, 100);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(page[i].load(), i + 1);
}

TEST_F(CudaBackend, ACompleteStreamSignalsByTheCpu) {
  const WordPage page(*backend_);
  const std::array<backend::WordWrite, 2> writes{{{page.ref(0), 4}, {page.ref(1), 5}}};
  ASSERT_TRUE(backend_->signal(StreamView::already_complete(), writes));
  EXPECT_EQ(page[0].load(), 4U);
  EXPECT_EQ(page[1].load(), 5U);
}

TEST_F(CudaBackend, AnImportForReadingRefusesWrites) {
  const auto memory = filled(3);
  const auto imported =
      backend_->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only)
          .value();
  const StreamView stream = raw().stream();
  EXPECT_NE(raw().driver().memset_d8_async(device_pointer(imported->data()), 1, kBytes,
                                           raw_stream(stream)),
            Status::success);
  raw().finish(stream);
  EXPECT_EQ(raw().read(memory->data(), kBytes), bytes_of(3));
}

TEST_F(CudaBackend, AnImportForWritingWrites) {
  const auto memory = filled(3);
  const auto imported =
      backend_->import_memory(memory->export_memory().value(), kBytes, os::Access::read_write)
          .value();
  raw().write(imported->data(), bytes_of(4));
  EXPECT_EQ(raw().read(memory->data(), kBytes), bytes_of(4));
}

TEST_F(CudaBackend, WhatIsNoGpuMemoryIsCorrupt) {
  EXPECT_TRUE(backend_->import_memory(os::event_fd().value(), kBytes, os::Access::read_only)
                  .failed_with(Code::corrupt));
  const os::SharedSegment segment = os::SharedSegment::create("hostile", kBytes).value();
  EXPECT_TRUE(
      backend_->import_memory(os::duplicate(segment.fd()).value(), kBytes, os::Access::read_only)
          .failed_with(Code::corrupt));
}

TEST_F(CudaBackend, OutOfMemorySaysHowMuchThereIs) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  static_cast<void>(raw().stream());
  raw().expect(raw().driver().mem_get_info(&free_bytes, &total_bytes));
  const auto refused_size = backend_->allocate(total_bytes + (std::uint64_t{1} << 30));
  ASSERT_TRUE(refused_size.failed_with(Code::out_of_memory)) << to_string(refused_size.error());
  EXPECT_EQ(refused_size.error().facts()->numbers[0], total_bytes + (std::uint64_t{1} << 30));
  EXPECT_GT(refused_size.error().facts()->numbers[1], 0U);
  EXPECT_TRUE(backend_->allocate(kBytes));
}

TEST_F(CudaBackend, MemoryGoesBackToTheDevice) {
  constexpr std::uint64_t kLarge = std::uint64_t{64} << 20;
  static_cast<void>(backend_->allocate(kLarge).value());  // whatever the first one costs once
  std::size_t before = 0;
  std::size_t after = 1;
  std::size_t total_bytes = 0;
  static_cast<void>(raw().stream());
  // Other processes may take and give memory meanwhile; what is lost here is lost in each round.
  while (before != after) {
    raw().expect(raw().driver().mem_get_info(&before, &total_bytes));
    for (int round = 0; round < 5; ++round) {
      const auto memory = backend_->allocate(kLarge).value();
      const auto imported =
          backend_->import_memory(memory->export_memory().value(), kLarge, os::Access::read_only)
              .value();
    }
    raw().expect(raw().driver().mem_get_info(&after, &total_bytes));
  }
}

TEST_F(CudaBackend, OnePageIsRegisteredForSeveralUsers) {
  const auto second_backend = make_backend();
  std::unique_ptr<backend::RegisteredWords> later;
  {
    const WordPage page(*backend_);
    const auto again = backend_->register_words(page.pages()).value();
    later = backend_->register_words(page.pages()).value();
    const backend::WordWrite write{{again.get(), 6}, 9};
    ASSERT_TRUE(backend_->signal(raw().stream(), {&write, 1}));
    page.see(6, 9);
    EXPECT_TRUE(refused(backend_->register_words(page.pages().first(2048)), Code::wrong_state,
                        "same address"));
    later.reset();
  }
  // All of them are gone: the pages of a new mapping can be registered at the same address.
  const WordPage page(*second_backend);
  const backend::WordWrite write{page.ref(1), 2};
  ASSERT_TRUE(second_backend->signal(raw().stream(), {&write, 1}));
  page.see(1, 2);
}

TEST_F(CudaBackend, AForkedChildLeavesItAlone) {
  auto memory = filled(5);
  auto queue = backend_->make_copy_queue().value();
  ChildProcess child(
      [&](const ChildLink&) {
        memory.reset();
        queue.reset();
        backend_.reset();
        return 0;
      },
      ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(raw().read(memory->data(), kBytes), bytes_of(5));
}

TEST_F(CudaBackend, ImportsMemoryOfAnotherGpu) {
  if (raw().devices().size() < 2) GTEST_SKIP() << "one GPU is visible, and this needs two";
  const auto other = make_backend(1);
  const auto memory = filled(6);
  auto imported =
      other->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only);
  if (imported.failed_with(Code::unsupported)) {
    EXPECT_NE(to_string(imported.error()).find(to_string(raw().id(0))), std::string::npos);
    GTEST_SKIP() << to_string(imported.error());
  }
  const auto target = other->allocate(kBytes).value();
  ASSERT_TRUE(imported) << to_string(imported.error());
  // From the import, which lives on the first GPU, by the second one.
  ASSERT_TRUE(
      other->copy(StreamView::already_complete(), target->data(), (*imported)->data(), kBytes));
  std::vector<std::byte> seen(kBytes);
  ASSERT_TRUE(other->copy(StreamView::already_complete(), seen.data(), target->data(), kBytes));
  EXPECT_EQ(seen, bytes_of(6));
}

TEST_F(CudaBackend, CopiesFromAGpuThatItCannotReach) {
  if (raw().devices().size() < 2) GTEST_SKIP() << "one GPU is visible, and this needs two";
  const auto other = make_backend(1);
  const auto memory = filled(7);
  // Mapped for the first GPU alone, also where the second could reach it.
  const auto imported =
      backend_->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only);
  ASSERT_TRUE(imported) << to_string(imported.error());
  const auto target = other->allocate(kBytes).value();
  const StreamView foreign = raw().foreign_stream();
  for (const StreamView stream : {StreamView::already_complete(), foreign}) {
    ASSERT_TRUE(other->copy(stream, target->data(), (*imported)->data(), kBytes));
    std::vector<std::byte> seen(kBytes);
    raw().finish(foreign);
    ASSERT_TRUE(other->copy(StreamView::already_complete(), seen.data(), target->data(), kBytes));
    EXPECT_EQ(seen, bytes_of(7));
  }
  // To host memory it does not go across: the GPU that can reach it is the one to ask.
  std::vector<std::byte> host(kBytes);
  EXPECT_TRUE(
      refused(other->copy(StreamView::already_complete(), host.data(), (*imported)->data(), kBytes),
              Code::invalid_argument, "another GPU"));
}

TEST_F(CudaBackend, UsesTheGpuOfItsUuid) {
  for (std::size_t index = 0; index < raw().devices().size(); ++index) {
    EXPECT_EQ(make_backend(index)->device(), raw().id(index));
  }
}

}  // namespace
}  // namespace vramlink::test
