// What a fault, a death and a fork do to a driver: the headings "A fault makes later work vanish
// silently", "Memory outlives its owner", "A read-only import is enforced by hardware" and "The
// driver is found when it is needed" of docs/cuda_notes.md. A fault ends a driver for its whole
// process, so each happens in a child, which must be forked before this process uses a driver.
#include "conformance/driver_processes.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

class DriverFaults : public DriverProcesses {};

TEST_F(DriverFaults, WorkBehindOneIsTakenAndNeverDone) {
  ChildProcess child([](const ChildLink&) {
    if (RawCuda::get() == nullptr) return kNoGpu;
    RawCuda& raw = *RawCuda::get();
    const cuda::Driver& driver = raw.driver();
    const StreamView view = raw.stream();
    const auto stream = raw_stream(view);
    const auto other = raw_stream(raw.other_stream());
    const TestKernels kernels(raw);
    void* const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* const words = static_cast<std::atomic<std::uint64_t>*>(page);
    cuda_api::DevicePointer at = 0;
    cuda_api::Event event = nullptr;
    raw.expect(driver.mem_host_register(page, 4096, 3));
    raw.expect(driver.mem_host_get_device_pointer(&at, page, 0));
    raw.expect(driver.event_create(&event, cuda_api::kEventDisableTiming));
    raw.expect(driver.event_record(event, stream));
    raw.finish(view);
    std::byte* const memory = raw.allocate(kBytes);
    cuda_api::AllocationProperties properties{};
    properties.type = cuda_api::AllocationType::pinned;
    properties.location = {cuda_api::LocationType::device, raw.devices()[0]};
    cuda_api::MemoryHandle handle = 0;
    cuda_api::DevicePointer mapped = 0;
    raw.expect(driver.mem_create(&handle, kUnit, &properties, 0));
    raw.expect(driver.mem_address_reserve(&mapped, kUnit, 0, 0, 0));
    raw.expect(driver.mem_map(mapped, kUnit, 0, handle, 0));

    // A kernel that stores where nothing is, held back so that the words stand behind it.
    raw.expect(driver.stream_wait_value_64(stream, at, 1, 0));
    EXPECT_GIVES(success, kernels.fill(view, 16, 1, 1));
    EXPECT_GIVES(success, driver.stream_write_value_64(stream, at + 64, 1, 0));
    words[0].store(1);
    // Nothing tells of it but a query, also one of an event that is long complete.
    Status status = Status::success;
    while (status == Status::success) status = driver.event_query(event);
    EXPECT_TRUE(gave(Status::illegal_address, status));
    EXPECT_GIVES(illegal_address, driver.stream_query(stream));
    EXPECT_GIVES(illegal_address, driver.stream_query(other));
    EXPECT_GIVES(illegal_address, raw.stream_synchronize(stream));
    EXPECT_GIVES(illegal_address, raw.event_synchronize(event));
    // From now on all streams of the context refuse work, and nothing new is made.
    for (const cuda_api::Stream later : {stream, other}) {
      cuda_api::MemOp write{cuda_api::MemOpType::write_value_64, at + 72, 1, 0, 0, 0};
      EXPECT_GIVES(illegal_address, driver.stream_write_value_64(later, at + 64, 1, 0));
      EXPECT_GIVES(illegal_address, driver.stream_batch_mem_op(later, 1, &write, 0));
      EXPECT_GIVES(illegal_address, driver.stream_wait_value_64(later, at, 1, 0));
      EXPECT_GIVES(illegal_address, driver.event_record(event, later));
      EXPECT_GIVES(illegal_address, driver.stream_wait_event(later, event, 0));
      EXPECT_GIVES(illegal_address, driver.memset_d8_async(device_pointer(memory), 1, 16, later));
    }
    EXPECT_GIVES(illegal_address, kernels.fill(view, device_pointer(memory), 1, 1));
    cuda_api::Event next_event = nullptr;
    cuda_api::Stream next_stream = nullptr;
    cuda_api::DevicePointer next_memory = 0;
    cuda_api::Context context = nullptr;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    EXPECT_GIVES(illegal_address, driver.event_create(&next_event, 0));
    EXPECT_GIVES(illegal_address, driver.stream_create(&next_stream, 0));
    EXPECT_GIVES(illegal_address, raw.mem_alloc(&next_memory, kBytes));
    EXPECT_GIVES(illegal_address, driver.mem_get_info(&free_bytes, &total_bytes));
    EXPECT_GIVES(illegal_address, driver.stream_get_ctx(stream, &context));
    EXPECT_GIVES(illegal_address, driver.mem_host_get_device_pointer(&at, page, 0));
    // What belongs to no context goes on: memory can still be unmapped and given back.
    cuda_api::Graph graph = nullptr;
    cuda_api::GraphExec exec = nullptr;
    EXPECT_GIVES(success, driver.graph_create(&graph, 0));
    EXPECT_GIVES(illegal_address, driver.graph_instantiate(&exec, graph, 0));
    EXPECT_GIVES(success, driver.graph_destroy(graph));
    unsigned type = 0;
    EXPECT_GIVES(success,
                 driver.pointer_get_attribute(&type, cuda_api::PointerAttribute::memory_type,
                                              device_pointer(memory)));
    EXPECT_GIVES(success, driver.mem_unmap(mapped, kUnit));
    EXPECT_GIVES(success, driver.mem_address_free(mapped, kUnit));
    EXPECT_GIVES(success, driver.mem_release(handle));
    EXPECT_GIVES(illegal_address, driver.event_destroy(event));
    EXPECT_GIVES(illegal_address, driver.mem_host_unregister(page));
    EXPECT_GIVES(illegal_address, raw.mem_free(device_pointer(memory)));
    EXPECT_EQ(words[8].load(), 0U);
    EXPECT_EQ(words[9].load(), 0U);
    end_child(HasFailure() ? ChildProcess::kFailedExpectation : 0);
  });
  const int end = child.wait();
  if (end == kNoGpu) {
    static_cast<void>(RawCuda::require());
    return;
  }
  EXPECT_EQ(end, 0);
  ASSERT_TRUE(RawCuda::require());
  expect_health();
}

TEST_F(DriverFaults, AWriteToAnImportForReadingHarmsItsWriterAlone) {
  const auto [ours, theirs] = os::Socket::pair().value();
  ChildProcess child([&socket = theirs](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    RawCuda& raw = *RawCuda::get();
    const TestKernels kernels(raw);
    const auto backend = make_backend();
    const auto imported =
        backend->import_memory(receive_fd(socket), kBytes, os::Access::read_only).value();
    const StreamView stream = raw.stream();
    EXPECT_GIVES(success, kernels.fill(stream, device_pointer(imported->data()), 7, 4));
    EXPECT_GIVES(illegal_address, raw.stream_synchronize(raw_stream(stream)));
    end_child(HasFailure() ? ChildProcess::kFailedExpectation : 0);
  });
  if (!RawCuda::require()) return;
  if (!faults_are_kept_apart()) GTEST_SKIP() << "under MPS a fault is everybody's";
  const auto backend = make_backend();
  const auto memory = backend->allocate(kBytes).value();
  RawCuda::get()->write(memory->data(), bytes_of(5));
  send_fd(ours, memory->export_memory().value().get());
  child.go();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(RawCuda::get()->read(memory->data(), kBytes), bytes_of(5));
  EXPECT_TRUE(backend->check_health());
  expect_health();
}

TEST_F(DriverFaults, MemoryIsImportedAfterItsOwnersDeath) {
  const auto [ours, theirs] = os::Socket::pair().value();
  ChildProcess child([&socket = theirs](const ChildLink& link) -> int {
    if (RawCuda::get() == nullptr) {
      link.ready(kNoGpu);
      return 0;
    }
    const auto backend = make_backend();
    const auto memory = backend->allocate(kBytes).value();
    RawCuda::get()->write(memory->data(), bytes_of(6));
    send_fd(socket, memory->export_memory().value().get());
    link.ready();
    link.wait_forever();
  });
  if (child.wait_ready() == kNoGpu) {
    static_cast<void>(RawCuda::require());
    return;
  }
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  ASSERT_TRUE(RawCuda::require());
  const auto imported =
      make_backend()->import_memory(receive_fd(ours), kBytes, os::Access::read_only).value();
  EXPECT_EQ(RawCuda::get()->read(imported->data(), kBytes), bytes_of(6));
}

TEST_F(DriverFaults, AForkedChildHasNoDriver) {
  if (!RawCuda::require()) return;
  ChildProcess child(
      [](const ChildLink&) {
        EXPECT_GIVES(not_initialized, RawCuda::get()->driver().init(0));
        return 0;
      },
      ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  expect_health();
}

}  // namespace
}  // namespace vramlink::test
