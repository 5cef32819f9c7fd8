// Modules and kernels, the calls that stop while a stream is at work, and faults.
#include <array>
#include <thread>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

constexpr const char* kPtx = R"(
.version 8.0
.target sm_70
.address_size 64
.visible .entry vramlink_fill(.param .u64 a, .param .u32 b, .param .u64 c) { ret; }
.visible .entry vramlink_spin_until(.param .u64 a, .param .u64 b) { ret; }
.visible .entry somebody_elses(.param .u64 a) { ret; }
)";

class LoadedKernels {
 public:
  LoadedKernels() {
    EXPECT_STATUS(success, cuModuleLoadData(&module, kPtx));
    EXPECT_STATUS(success, cuModuleGetFunction(&fill, module, "vramlink_fill"));
    EXPECT_STATUS(success, cuModuleGetFunction(&spin, module, "vramlink_spin_until"));
  }

  [[nodiscard]] Status launch_fill(api::Stream stream, api::DevicePointer target, unsigned value,
                                   std::uint64_t count) const {
    std::array<void*, 3> arguments{&target, &value, &count};
    return cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, arguments.data(), nullptr);
  }
  [[nodiscard]] Status launch_spin(api::Stream stream, api::DevicePointer word,
                                   std::uint64_t value) const {
    std::array<void*, 2> arguments{&word, &value};
    return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments.data(), nullptr);
  }

  Module module = nullptr;
  Function fill = nullptr;
  Function spin = nullptr;
};

class Kernels : public DriverTest {};

TEST_F(Kernels, RunInTheOrderOfTheirStream) {
  Device device;
  const LoadedKernels kernels;
  RegisteredPage page;
  MappedMemory memory;
  std::array<unsigned, 2> words{};
  EXPECT_STATUS(success, kernels.launch_spin(device.stream, page.address(0), 1));
  EXPECT_STATUS(success, kernels.launch_fill(device.stream, memory.address(), 6, 100'000));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(1), 1, 0));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  EXPECT_EQ(page[1].load(), 0U);
  page[0].store(1);
  wait_until(page[1], 1);
  EXPECT_STATUS(success,
                cuMemcpyDtoHAsync_v2(words.data(), memory.address() + 399'996, 8, device.stream));
  EXPECT_EQ(words, (std::array<unsigned, 2>{6, 0}));
}

TEST_F(Kernels, AnUnknownOneIsAnError) {
  Device device;
  const LoadedKernels kernels;
  Function function = nullptr;
  Module module = nullptr;
  EXPECT_STATUS(not_found, cuModuleGetFunction(&function, kernels.module, "somebody_elses"));
  EXPECT_STATUS(not_found, cuModuleGetFunction(&function, kernels.module, "vramlink_sum"));
  EXPECT_STATUS(invalid_ptx, cuModuleLoadData(&module, "no PTX"));
  EXPECT_STATUS(success, cuModuleUnload(kernels.module));
  EXPECT_STATUS(invalid_handle, cuModuleUnload(kernels.module));
  EXPECT_STATUS(invalid_handle, kernels.launch_spin(device.stream, 0, 0));
  EXPECT_EQ(ledger().modules, 0U);
}

TEST_F(Kernels, ALaunchIntoAnotherContextIsRefused) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device first(0);
  const LoadedKernels kernels;
  Device second(1);
  EXPECT_STATUS(invalid_handle, kernels.launch_spin(second.stream, 0, 0));
}

TEST_F(Kernels, FourCallsStopWhileAStreamWaits) {
  Device device;
  const LoadedKernels kernels;
  RegisteredPage page;
  RegisteredPage other_page;
  api::DevicePointer plain = 0;
  void* pinned = nullptr;
  alignas(8) static std::array<std::uint64_t, 8> registered;
  EXPECT_STATUS(success, cuMemAlloc_v2(&plain, 100));
  EXPECT_STATUS(success, cuMemAllocHost_v2(&pinned, 100));
  EXPECT_STATUS(success, cuMemHostRegister_v2(registered.data(), sizeof registered, 0));
  Module module = nullptr;
  const std::array<std::function<Status()>, 4> calls{
      [&] { return cuMemFree_v2(plain); }, [&] { return cuMemFreeHost(pinned); },
      [&] { return cuMemHostUnregister(registered.data()); },
      [&] { return cuModuleLoadData(&module, kPtx); }};
  for (std::uint64_t round = 1; round <= calls.size(); ++round) {
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), round, 0));
    std::atomic<int> step{0};
    std::thread caller([&] {
      EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
      step.store(1);
      EXPECT_STATUS(success, calls[round - 1]());
      step.store(2);
    });
    while (step.load() == 0) std::this_thread::yield();
    // Neither these nor words stop, also not behind the call that did.
    {
      MappedMemory memory;
      api::Stream stream = nullptr;
      api::DevicePointer more = 0;
      api::Graph graph = nullptr;
      api::GraphExec exec = nullptr;
      void* more_pinned = nullptr;
      EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
      EXPECT_STATUS(success, cuStreamWriteValue64_v2(stream, other_page.address(0), round, 0));
      EXPECT_STATUS(success, cuStreamSynchronize(stream));
      EXPECT_STATUS(success, cuMemAlloc_v2(&more, 100));
      EXPECT_STATUS(success, cuMemAllocHost_v2(&more_pinned, 100));
      EXPECT_STATUS(success, cuGraphCreate(&graph, 0));
      EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph, 0));
      EXPECT_STATUS(success, cuGraphExecDestroy(exec));
      EXPECT_STATUS(success, cuGraphDestroy(graph));
      EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
    }
    EXPECT_EQ(step.load(), 1);
    page[0].store(round);
    caller.join();
    EXPECT_EQ(step.load(), 2);
  }
}

TEST_F(Kernels, LaunchesOfOtherThreadsStayBehindACallThatStops) {
  Device device;
  const LoadedKernels kernels;
  RegisteredPage page;
  void* pinned = nullptr;
  EXPECT_STATUS(success, cuMemAllocHost_v2(&pinned, 100));
  api::Stream other = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  std::atomic<bool> freed{false};
  std::thread stopped([&] {
    EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
    EXPECT_STATUS(success, cuMemFreeHost(pinned));
    freed.store(true);
  });
  std::atomic<std::uint64_t> launches{0};
  std::thread launcher([&] {
    EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
    for (bool last = false; !last;) {
      last = page[0].load() == 1;
      EXPECT_STATUS(success, kernels.launch_spin(other, page.address(1), 0));
      launches.fetch_add(1);
    }
  });
  // A launch that has begun and does not return while a hundred other calls do has stopped.
  std::uint64_t seen = 0;
  for (int same = 0; same < 100;) {
    const std::uint64_t now = launches.load();
    const bool is_inside = test_api().call_count("cuLaunchKernel") > now;
    same = is_inside && now == seen ? same + 1 : 0;
    seen = now;
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(other, page.address(2), 1, 0));
    EXPECT_STATUS(success, cuStreamSynchronize(other));
  }
  EXPECT_FALSE(freed.load());
  page[0].store(1);
  stopped.join();
  launcher.join();
  EXPECT_TRUE(freed.load());
  EXPECT_STATUS(success, cuStreamDestroy_v2(other));
}

TEST_F(Kernels, AWriteToAReadOnlyMappingLosesTheContext) {
  Device device;
  device.is_faulty = true;
  const LoadedKernels kernels;
  RegisteredPage page;
  MappedMemory memory;
  const int fd = memory.export_fd();
  MappedMemory import(MappedMemory::import(fd), api::AccessFlags::read);
  ::close(fd);
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(1), 1, 0));
  EXPECT_STATUS(success, kernels.launch_fill(device.stream, import.address(), 6, 4));
  // What stands behind it is taken and never performed.
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuMemsetD8Async(memory.address(), 1, 16, device.stream));
  EXPECT_STATUS(success, cuEventRecord(event, device.stream));
  EXPECT_STATUS(success, kernels.launch_fill(device.stream, memory.address(), 6, 4));
  page[1].store(1);
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(illegal_address, cuEventQuery(event));
  EXPECT_STATUS(illegal_address, cuStreamQuery(device.stream));
  EXPECT_STATUS(illegal_address, cuCtxSynchronize());
  EXPECT_EQ(page[0].load(), 0U);
  // A reset gives a healthy context.
  EXPECT_STATUS(success, cuDevicePrimaryCtxReset_v2(0));
  api::Context fresh = nullptr;
  EXPECT_STATUS(success, cuDevicePrimaryCtxRetain(&fresh, 0));
  EXPECT_STATUS(success, cuCtxPushCurrent_v2(fresh));
  EXPECT_STATUS(success, cuMemsetD8_v2(memory.address(), 1, 16));
  std::quick_exit(::testing::Test::HasFailure() ? 1 : 0);  // the page went with its context
}

TEST_F(Kernels, AFaultOfOneDeviceLeavesTheOtherAlone) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device first(0);
  {
    Device second(1);
    second.is_faulty = true;
    EXPECT_TRUE(test_api().fault_context(static_cast<int>(Status::launch_failed)));
    EXPECT_STATUS(launch_failed, cuStreamSynchronize(second.stream));
  }
  EXPECT_STATUS(success, cuStreamSynchronize(first.stream));
}

}  // namespace
}  // namespace vramlink::simcuda
