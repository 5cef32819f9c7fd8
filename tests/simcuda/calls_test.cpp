// What the stand-in tells tests: counts, a log, planted failures; and the thread that must not
// call.
#include <pthread.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"

namespace vramlink::simcuda {
namespace {

class Calls : public DriverTest {};

TEST_F(Calls, AreCountedByNameAndBySymbol) {
  Device device;
  RegisteredPage page;
  EXPECT_EQ(test_api().call_count("cuStreamWriteValue64"), 0U);
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_EQ(test_api().call_count("cuStreamWriteValue64"), 1U);
  EXPECT_EQ(test_api().call_count("cuStreamWriteValue64_v2"), 1U);
  EXPECT_EQ(test_api().call_count("cuMakeCoffee"), 0U);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(Calls, AreLoggedWithArgumentsAndResults) {
  const std::string path = directory_ / "log";
  ::setenv("VRAMLINK_SIMCUDA_LOG", path.c_str(), 1);
  {
    Device device;
    EXPECT_STATUS(invalid_value, cuMemsetD8Async(4096, 7, 16, device.stream));
  }
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string pid = std::to_string(::getpid());
  EXPECT_NE(text.find(pid + " " + pid + " cuInit 0 = 0 CUDA_SUCCESS\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cuMemsetD8Async 0x1000 7 16 0x"), std::string::npos) << text;
  EXPECT_NE(text.find(" = 1 CUDA_ERROR_INVALID_VALUE\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cuDevicePrimaryCtxRetain"), std::string::npos) << text;
  EXPECT_NE(text.find(" -> 0x5c"), std::string::npos) << text;  // the context that it gave
}

TEST_F(Calls, CanBeMadeToFail) {
  Device device;
  const api::AllocationProperties properties = MappedMemory::properties();
  const Ledger before = ledger();
  const auto create = [&] {
    api::MemoryHandle handle = 0;
    const Status status = cuMemCreate(&handle, MappedMemory::kSizeBytes, &properties, 0);
    if (status == Status::success) {
      EXPECT_STATUS(success, cuMemRelease(handle));
    }
    return status;
  };
  EXPECT_STATUS(success, create());
  EXPECT_TRUE(test_api().fail_calls("cuMemCreate", 2, 2, static_cast<int>(Status::out_of_memory)));
  EXPECT_STATUS(success, create());
  EXPECT_STATUS(out_of_memory, create());
  EXPECT_STATUS(out_of_memory, create());
  EXPECT_STATUS(success, create());
  EXPECT_TRUE(test_api().fail_calls("cuMemCreate", 1, 9, static_cast<int>(Status::out_of_memory)));
  test_api().clear_failures();
  EXPECT_STATUS(success, create());
  EXPECT_FALSE(test_api().fail_calls("cuMakeCoffee", 1, 1, 1));
  EXPECT_EQ(ledger(), before);
}

TEST_F(Calls, CanBeMadeToFailByTheEnvironment) {
  ::setenv("VRAMLINK_SIMCUDA_FAIL", "cuStreamCreate:2:1:2", 1);
  Device device;
  api::Stream stream = nullptr;
  EXPECT_STATUS(out_of_memory, cuStreamCreate(&stream, 0));
  EXPECT_STATUS(success, cuStreamCreate(&stream, 0));
  EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
}

TEST_F(Calls, OfTheReactorEndTheProcess) {
  test::ChildProcess child([](const test::ChildLink&) {
    ::signal(SIGABRT, SIG_DFL);
    Device device;
    std::thread reactor([] {
      ::pthread_setname_np(::pthread_self(), "vl-reactor");
      int count = 0;
      (void)cuDeviceGetCount(&count);
    });
    reactor.join();
    return 0;
  });
  EXPECT_EQ(child.wait(), 128 + SIGABRT);
}

TEST_F(Calls, OfManyThreadsDoNotDisturbEachOther) {
  Device device;
  const Ledger before = ledger();
  test_api().set_delay(0, 50, 42);
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
      RegisteredPage page;
      MappedMemory memory;
      api::Stream stream = nullptr;
      api::Event event = nullptr;
      EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
      EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
      for (unsigned i = 1; i <= 50; ++i) {
        unsigned value = 0;
        EXPECT_STATUS(success, cuMemsetD32Async(memory.address(), i, 1, stream));
        EXPECT_STATUS(success, cuEventRecord(event, stream));
        EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));
        EXPECT_STATUS(success, cuMemcpyDtoHAsync_v2(&value, memory.address(), 4, stream));
        EXPECT_EQ(value, i);
      }
      EXPECT_STATUS(success, cuStreamSynchronize(stream));
      EXPECT_STATUS(success, cuEventDestroy_v2(event));
      EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(ledger(), before);
}

}  // namespace
}  // namespace vramlink::simcuda
